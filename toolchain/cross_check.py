# SPDX-License-Identifier: Apache-2.0
"""Computed tensors against other runtimes: the first operator that differs, and whether the contract allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from compiler.graph import DType, Graph, Tensor
from compiler.kernels.portable.raw_sums import LIMIT
from compiler.ops.axis import axis_of
from compiler.ops.definition import OperatorView
from compiler.ops.raw_sums import RawSums
from toolchain.comparison import Difference, compare
from toolchain.oracles import Answer, Oracle, Question, ask
from toolchain.report import short_name
from toolchain.rows import Samples
from toolchain.tflite_outputs import file_outputs, tensor_count, with_outputs

Tensors = Mapping[int, NDArray[Any]]
Arrays = Sequence[NDArray[Any]]

NUMBERS = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL)


def always(view: OperatorView) -> bool:
    return True


def rescales(view: OperatorView) -> bool:
    return view.input().quantization != view.output().quantization


def pads_with_other_than_0(view: OperatorView) -> bool:
    return view.input().zero_point != 0


def has_int8_state(view: OperatorView) -> bool:
    return any(t is not None and t.is_variable and t.dtype is DType.INT8 for t in view.inputs)


def sums_overflow(view: OperatorView) -> bool:
    source = view.input()
    terms = len(view.inputs) if view.operator.op == "ADD_N" else source.shape[axis_of(view)]
    return RawSums(source, view.output()).largest(terms) >= LIMIT


def has_int32_bias(view: OperatorView) -> bool:
    bias = view.inputs[-1]
    return bias is not None and bias.dtype is DType.INT32


@dataclass(frozen=True)
class Allowance:
    """A difference from a runtime whose kernel is not the contract: in outputs of `dtype`, by up to `most` quantised
    steps (any amount where it is None), of operators of which `when` holds. `why` is what the kernel's source does."""

    dtype: DType
    most: int | None
    why: str
    when: Callable[[OperatorView], bool] = always


FLOAT_RATIO = "LiteRT rounds the ratio of the scales to float32 (kernels/activations.cc)"
BIAS_OPTION = "LiteRT takes the bias for int64 unless the option quantized_bias_type says int32 (kernels/conv.cc)"
NO_RESCALING = "TFLite Micro clamps and does not rescale (kernels/activations_common.cc)"
EXPECTED: dict[tuple[str, str], tuple[Allowance, ...]] = {
    ("tflm", "ADD_N"): (
        Allowance(
            DType.INT8, None, "TFLite Micro's sums overflow (kernels/internal/reference/add_n.h)", sums_overflow
        ),
    ),
    ("tflm", "CUMSUM"): (
        Allowance(
            DType.INT8, None, "TFLite Micro's sums overflow (kernels/internal/reference/cumsum.h)", sums_overflow
        ),
    ),
    ("tflm", "DEPTHWISE_CONV_2D"): (
        Allowance(
            DType.INT16, None, "TFLite Micro reads an int32 bias as int64 (kernels/depthwise_conv.cc)", has_int32_bias
        ),
    ),
    ("tflm", "RELU6"): (
        Allowance(DType.INT8, None, NO_RESCALING, rescales),
        Allowance(DType.INT16, None, NO_RESCALING, rescales),
    ),
    ("tflm", "SPACE_TO_BATCH_ND"): (
        Allowance(
            DType.INT8, None, "TFLite Micro does not set the value to pad with (kernels/space_to_batch_nd_common.cc)",
            pads_with_other_than_0,
        ),
    ),
    ("tflm", "TRANSPOSE_CONV"): (
        Allowance(
            DType.INT16, None, "TFLite Micro reads an int32 bias as int64 (kernels/transpose_conv.cc)", has_int32_bias
        ),
    ),
    ("litert", "CONV_2D"): (Allowance(DType.INT16, None, BIAS_OPTION, has_int32_bias),),
    ("litert", "FULLY_CONNECTED"): (
        Allowance(DType.INT16, None, BIAS_OPTION, has_int32_bias),
        *(
            Allowance(
                dtype, 1, "LiteRT rescales sums in double (kernels/internal/reference/integer_ops/fully_connected.h)"
            )
            for dtype in (DType.INT8, DType.INT16)
        ),
    ),
    ("litert", "LEAKY_RELU"): (Allowance(DType.INT16, 1, FLOAT_RATIO),),
    ("litert", "LOGISTIC"): (
        Allowance(DType.INT8, 1, "LiteRT has a table of rounded floats (kernels/activations.cc)"),
    ),
    ("litert", "RELU"): (Allowance(DType.INT16, 1, FLOAT_RATIO, rescales),),
    ("litert", "SUM"): (Allowance(DType.INT8, None, "LiteRT takes int8 for uint8 (tensorflow/tensorflow#102490)"),),
    ("litert", "SVDF"): (
        Allowance(DType.INT8, None, "LiteRT takes a state of int8 for int16 (kernels/svdf.cc)", has_int8_state),
    ),
    ("litert", "UNIDIRECTIONAL_SEQUENCE_LSTM"): (
        Allowance(
            DType.INT8, None,
            "LiteRT computes the gates by polynomials, TFLite Micro by a table "
            "(kernels/internal/reference/portable_tensor_utils.cc, micro/kernels/lstm_eval.cc)",
        ),
    ),
}  # fmt: skip
"""Where a runtime's kernel is not the contract: by kernel set and operator."""


@dataclass(frozen=True)
class Divergence:
    """The first operator whose output differs, over all rows."""

    view: OperatorView
    tensor: Tensor
    difference: Difference

    def __str__(self) -> str:
        operator = self.view.operator
        return f"operator #{operator.index} {operator.op} '{short_name(self.tensor.name)}': {self.difference}"


@dataclass(frozen=True)
class Finding:
    """What an oracle says. `refusal` where it cannot run the model; `compared` operators were compared up to the first
    that differs; `outputs` is the difference of the model's outputs."""

    oracle: Oracle
    refusal: str | None
    compared: int = 0
    first: Divergence | None = None
    outputs: Difference | None = None

    @property
    def reason(self) -> str | None:
        """Why the difference is no fault, if so."""
        if self.first is None:
            return None
        for allowance in EXPECTED.get((self.oracle.kernels, self.first.view.operator.op), ()):
            within = allowance.most is None or self.first.difference.largest <= allowance.most
            if allowance.dtype is self.first.tensor.dtype and within and allowance.when(self.first.view):
                return allowance.why
        return None

    @property
    def contradicts(self) -> bool:
        """Whether a reference kernel computes something else and none of the known reasons explains it."""
        return self.first is not None and self.oracle.kernels != "xnnpack" and self.reason is None

    def __str__(self) -> str:
        if self.refusal is not None or self.outputs is None:
            return f"{self.oracle.title} cannot run it: {self.refusal}"
        if self.first is None:
            return f"{self.oracle.title}: all {self.compared} operators agree"
        why = f" ({self.reason})" if self.reason else ""
        outputs = "the outputs agree" if self.outputs.exact else f"outputs: {self.outputs}"
        return f"{self.oracle.title}: first differs at {self.first}{why}; {outputs}"


def first_divergence(graph: Graph, computed: Tensors, expected: Tensors) -> tuple[Divergence | None, int]:
    """The first operator with an output that differs, and how many operators' outputs were compared before. Tensors are
    [rows, *shape]; those that `expected` lacks are passed over."""
    compared = 0
    for operator in graph.operators:
        known = [i for i in operator.outputs if i in expected]
        for tensor in known:
            difference = compare([computed[tensor]], [expected[tensor].reshape(computed[tensor].shape)])
            if not difference.passed:
                return Divergence(OperatorView(graph, operator), graph.tensor(tensor), difference), compared
        compared += bool(known)
    return None, compared


@dataclass(frozen=True)
class Computed:
    """What we computed: `graph` is the model as its file states it, `tensors` its operators' outputs [rows, *shape] by
    tensor, `outputs` those of the model."""

    graph: Graph
    model: bytes
    samples: Samples
    tensors: Tensors
    outputs: Arrays

    @property
    def shown(self) -> list[int]:
        """The operators' outputs that an oracle is asked for, and the model's."""
        return sorted({*_shown(self.graph, self.model), *file_outputs(self.model)})

    def question(self) -> Question:
        return Question(with_outputs(self.model, self.shown), self.samples.inputs)

    def finding(self, oracle: Oracle, answer: Answer) -> Finding:
        """What an oracle's answer says."""
        if isinstance(answer, str):
            return Finding(oracle, answer)
        values = dict(zip(self.shown, answer, strict=True))
        expected = {i: a for i, a in values.items() if i in self.tensors and a.size == self.tensors[i].size}
        first, compared = first_divergence(self.graph, self.tensors, expected)
        last = [values[i].reshape(a.shape) for i, a in zip(file_outputs(self.model), self.outputs, strict=True)]
        return Finding(oracle, None, compared, first, compare(self.outputs, last))


def cross_check(computed: Sequence[Computed], oracle: Oracle) -> list[Finding]:
    """Asks an oracle for every operator's output of each model."""
    answers = ask(oracle, [c.question() for c in computed])
    return [c.finding(oracle, answer) for c, answer in zip(computed, answers, strict=True)]


def _shown(graph: Graph, model: bytes) -> Iterator[int]:
    """The operators' outputs that are tensors of the file and hold numbers."""
    count = tensor_count(model)
    for operator in graph.operators:
        for index in operator.outputs:
            tensor = graph.tensor(index)
            if index < count and tensor.dtype in NUMBERS and tensor.elements:
                yield index
