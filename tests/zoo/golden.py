# SPDX-License-Identifier: Apache-2.0
"""Real models with their golden files, and the rule by which outputs are compared.

Integer outputs are TFLite Micro's, bit for bit (`tflm_out0` is in the file where it differs from LiteRT's `out0`).
The tensor before a final SOFTMAX (`pre0`) is in the files as LiteRT computes it, which rescales FULLY_CONNECTED in
double. For the models named here TFLite Micro's bytes are known (TFLM_PRE); elsewhere the compiler's reference counts,
and must be within one of LiteRT's. Float outputs may differ by 1e-4 of the output's range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from compiler.frontends.tflite import read_tflite
from compiler.graph import Graph
from compiler.model import Model
from compiler.ops.definition import Array
from compiler.passes import run_passes
from compiler.reference import evaluate, reset_state
from tests.support import ROOT, shared_dir

FLOAT_TOLERANCE = 1e-4
TFLM_PRE = {
    "mlperf_ic_resnet_int8": {
        3: [-29, -14, 63, 40, 42, 14, 21, 1, -3, -34],
        4: [13, -12, 4, 22, 11, 27, 35, -31, 12, -18],
    }
}
"""Rows in which TFLite Micro's tensor before SOFTMAX differs from LiteRT's, by model. Measured with the PyPI package
tflite-micro 0.dev20261023182759 on the models without their last operator; all other rows of SHIPPED and INTEGER models
are LiteRT's."""
LITERT_DECIDES = ("RELU6", "TRANSPOSE_CONV")
"""Operators whose contract is LiteRT's kernel: TFLite Micro's forgets to rescale, or saturates wrongly."""
FLOAT_LITERT_DECIDES = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE")
"""Likewise where the model is float: TFLite Micro's whole sequences are wrong."""
SHIPPED = (
    "mnist_int8",
    "mnist_nano_int8",
    "mnist_mlp_int8",
    "mnist_int16x8",
    "mnist_float",
    "mnist_mlp_float",
    "mnist_nano_float",
)
INTEGER = (
    "mlperf_ic_resnet_int8",
    "mlperf_vww_mobilenet_int8",
    "mlperf_kws_dscnn_int8",
    "mlperf_ad_autoencoder_int8",
    "mlperf_streaming_wakeword_int8",
    "tflm_hello_world_int8",
    "tflm_micro_speech_int8",
    "tflm_person_detect_int8",
)
STATEFUL = (
    "mww_ohf_computer",
    "mww_v1_alexa",
    "mww_v2_alexa",
    "mww_v2_hey_mycroft",
    "mww_v2_okay_nabu",
    "mww_v2_vad",
    "tflm_keyword_scrambled",
    "tflm_mnist_lstm_float",
    "tflm_mnist_lstm_int8",
)
"""Their rows are consecutive steps after a reset."""
UINT8 = ("support_mobilenet_v1_025_224_uint8",)
FLOAT = ("tflm_hello_world_float", "mlperf_kws_dscnn_float", "mlperf_ic_resnet_float", "support_dilated_conv")


@dataclass(frozen=True)
class Case:
    """A model with rows of inputs and the outputs they must give. `graph` has the tensor of `pre` as an output too."""

    model: Model
    graph: Graph
    rows: list[list[Array]]
    outputs: list[list[Array]]
    pre: list[Array] | None

    @property
    def is_float(self) -> bool:
        return self.outputs[0][0].dtype.kind == "f"

    def check(self, row: int, found: list[Array]) -> None:
        """Asserts that a row's outputs (then the tensor before SOFTMAX) are the golden ones."""
        for number, want in enumerate(self.outputs[row]):
            self._equal(found[number], want, f"{self.model.stem}, row {row}, output {number}")
        if self.pre is not None:
            self._equal(found[len(self.outputs[row])], self.pre[row], f"{self.model.stem}, row {row}, before SOFTMAX")

    def _equal(self, got: Array, want: Array, where: str) -> None:
        want = want.reshape(got.shape)
        if got.dtype.kind == "f":
            finite = np.isfinite(want)
            np.testing.assert_array_equal(got[~finite], want[~finite], where)
            bound = FLOAT_TOLERANCE * max(float(np.ptp(want[finite])) if finite.any() else 0.0, 1e-3)
            off = np.abs(got[finite] - want[finite]).max(initial=0.0)
            assert off <= bound, f"{where}: off by {off}, allowed {bound}"
        else:
            assert np.array_equal(got, want), f"{where}: {np.count_nonzero(got != want)} of {want.size} elements differ"


def load(name: str) -> Case:
    """The model called `name`, from models/ or the reference models; skips the test where the latter are absent."""
    if name in SHIPPED:
        path, golden_path = ROOT / "models" / f"{name}.tflite", ROOT / "models" / f"{name}.npz"
    else:
        zoo = shared_dir("zoo")
        path, golden_path = zoo / "models" / f"{name}.tflite", zoo / "golden" / f"{name}.npz"
    return read_case(path, golden_path)


def read_case(path: Path, golden_path: Path) -> Case:
    model = Model(path.name, path.read_bytes())
    golden = np.load(golden_path)
    source = read_tflite(model.data, model.name)
    numbers = range(len(source.outputs))
    pre = int(golden["pre0_tensor"]) if "pre0" in golden else None
    if pre is not None:
        # An output before the passes run, so that they keep the tensor.
        names = (*source.output_names, source.tensor(pre).name)
        source = replace(source, outputs=(*source.outputs, pre), output_names=names)
    graph = run_passes(source)
    rows = [
        [golden[f"in{i}"][r].reshape(graph.tensor(t).shape) for i, t in enumerate(graph.inputs)]
        for r in range(len(golden["in0"]))
    ]
    litert = any(_litert_decides(op.op, rows[0][0]) for op in source.operators)
    outputs = [
        [golden[f"tflm_out{o}" if f"tflm_out{o}" in golden and not litert else f"out{o}"][r] for o in numbers]
        for r in range(len(rows))
    ]
    if pre is None:
        return Case(model, graph, rows, outputs, None)
    return Case(model, graph, rows, outputs, _before_softmax(model, graph, pre, rows, golden["pre0"]))


def _litert_decides(op: str, example: Array) -> bool:
    return op in LITERT_DECIDES or (op in FLOAT_LITERT_DECIDES and example.dtype.kind == "f")


def _before_softmax(model: Model, graph: Graph, tensor: int, rows: list[list[Array]], litert: Array) -> list[Array]:
    """What the tensor before SOFTMAX must be in each row."""
    if model.stem in (*SHIPPED, *INTEGER):
        measured = TFLM_PRE.get(model.stem, {})
        return [np.reshape(measured[r], want.shape) if r in measured else want for r, want in enumerate(litert)]
    producer = graph.producer(tensor)
    if producer is None or producer.op != "FULLY_CONNECTED" or litert.dtype.kind == "f":
        return list(litert)
    state = reset_state(graph)
    own = [evaluate(graph, row, state)[tensor] for row in rows]
    for found, want in zip(own, litert, strict=True):
        assert np.abs(found.astype(int) - want.reshape(found.shape).astype(int)).max() <= 1
    return own
