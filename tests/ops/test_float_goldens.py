# SPDX-License-Identifier: Apache-2.0
"""The references of float, hybrid and float-converting operators against the golden outputs of single-operator models.

Integer outputs and sums of products are equal to the bit; functions that the reference takes from a libm may differ by
a few units in the last place.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from compiler.frontends.tflite import read_tflite
from compiler.passes import run_passes
from compiler.reference import outputs_of
from tests.support import shared_dir

EXACT = (
    "conv_1x1__f", "conv_2x2_even_same__f", "conv_3x3_dil2_same__f", "conv_3x3_same_relu__f", "conv_floatio__q",
    "conv_3x3_same_s2_relu6__f", "conv_3x3_same_s3__f", "conv_3x3_valid_c1__f", "conv_7x1_s2x1__f", "conv_grouped__f",
    "conv_nobias__f", "conv_relu_n1__f", "dw_3x3_dil2__f", "dw_3x3_m2__f", "dw_3x3_same_relu__f", "dw_c1_m8_5x4__f",
    "fb_dequant_i16", "fb_dequant_i8", "fb_dequant_u8", "fb_fc_hybrid", "fb_logistic_i16", "fb_logistic_i8",
    "fb_logistic_u8", "fb_quant_f_i16", "fb_quant_f_i8", "fb_quant_f_u8", "fb_softmax_i16", "fb_softmax_i8_beta",
    "fb_softmax_i8_i16", "fb_softmax_steep", "fb_softmax_u8", "fb_tanh_i16", "fb_tanh_i8", "fc_3d_keepdims__f",
    "fc_batch4__f", "fc_nobias__f", "fc_relu__f", "logistic__i16", "logistic__i8", "logistic_small__i8",
    "sepconv_bn__f", "softmax_10__i16", "softmax_10__i8", "softmax_2__i8", "softmax_4d__i16", "softmax_4d__i8",
    "softmax_rows__i8", "softmax_wide_range__i8", "tanh__i16", "tanh__i8", "tanh_small__i16", "tanh_small__i8",
    "zeropad_conv_bn_relu6__f", "fb_leaky_i16", "fb_leaky_i8", "fb_leaky_i8_neg", "leaky_relu__f", "leaky_relu__i16",
    "leaky_relu__i8", "fb_hswish_i8", "fb_hswish_u8", "hard_swish__f", "hard_swish__i8", "elu__i8", "fb_elu_i8",
    "exp__i8", "fb_exp_i8",
)  # fmt: skip
WITHIN_RANGE = (
    "elu__f",
    "exp__f",
    "fc_two_layers_softmax__f",
    "log_softmax__f",
    "logistic__f",
    "softmax_10__f",
    "softmax_rows__f",
    "tanh__f",
)
RANGE_PART = 1e-5
"""Float outputs stay within this part of the largest output."""


def outputs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """What the references compute, and the golden outputs: a row a case."""
    folder = shared_dir("ops")
    data = (folder / "models" / f"{name}.tflite").read_bytes()
    graph = run_passes(read_tflite(data, name))
    golden: Any = np.load(folder / "golden" / f"{name}.npz")
    assert len(json.loads(str(golden["meta"]))["cases"]) == len(golden["in0"]) > 0
    (tensor,) = (graph.tensor(i) for i in graph.inputs)
    inputs = golden["in0"].reshape(-1, *tensor.shape).astype(tensor.dtype.numpy)
    found = np.stack([outputs_of(graph, [x])[0] for x in inputs])
    return found, golden["out0"].reshape(found.shape)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    found, expected = outputs(name)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", WITHIN_RANGE)
def test_within_the_tolerance_of_floats(name: str) -> None:
    found, expected = outputs(name)
    np.testing.assert_allclose(found, expected, rtol=0, atol=RANGE_PART * np.abs(expected).max())
