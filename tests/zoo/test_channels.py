# SPDX-License-Identifier: Apache-2.0
"""What the removal of channels leaves of real models, and that nothing changes but their size."""

from __future__ import annotations

import time

import numpy as np
import pytest

from compiler.compile import as_stated
from compiler.graph import Graph
from compiler.passes.remove_channels import remove_channels
from compiler.reference import outputs_of
from tests.unit.compiler.passes.channel_models import extreme_inputs
from tests.zoo.golden import load

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
SECONDS = 2.0


def weights(graph: Graph) -> int:
    return sum(graph.tensor(op.inputs[1]).elements for op in graph.operators if op.op in LAYERS)


def macs(graph: Graph) -> int:
    found = 0
    for op in graph.operators:
        if op.op in LAYERS:
            filters, axis = graph.tensor(op.inputs[1]), 3 if op.op == "DEPTHWISE_CONV_2D" else 0
            found += graph.tensor(op.outputs[0]).elements * filters.elements // filters.shape[axis]
    return found


def test_half_of_vww_goes_and_the_bytes_stay() -> None:
    case = load("mlperf_vww_mobilenet_int8")
    stated = as_stated(case.model)
    assert (macs(stated), weights(stated)) == (7_489_664, 208_112)
    # 3,727,313 and 29,066 are needed; the rest fills widths up to multiples of four.
    assert (macs(case.graph), weights(case.graph)) == (3_766_476, 30_340)
    begin = time.perf_counter()
    remove_channels(stated)
    assert time.perf_counter() - begin < SECONDS
    for row in extreme_inputs(stated, 1, 12):
        (want,), got = outputs_of(stated, row), outputs_of(case.graph, row)
        assert np.array_equal(want, got[0])


@pytest.mark.parametrize("name", ["ic_resnet", "kws_dscnn", "ad_autoencoder"])
def test_other_models_need_all_their_channels(name: str) -> None:
    stated = as_stated(load(f"mlperf_{name}_int8").model)
    assert remove_channels(stated) is stated


@pytest.mark.parametrize("name", ["tflm_hello_world_int8", "tflm_person_detect_int8"])
def test_smaller_models_give_the_same_bytes(name: str) -> None:
    case = load(name)
    stated = as_stated(case.model)
    for row in extreme_inputs(stated, 2, 3):
        assert np.array_equal(outputs_of(stated, row)[0], outputs_of(case.graph, row)[0])
