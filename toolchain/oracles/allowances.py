# SPDX-License-Identifier: Apache-2.0
"""Where another runtime's kernels are known not to be the contract. docs/VERIFY.md tells the same in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.graph import DType
from compiler.kernels.portable.raw_sums import LIMIT
from compiler.ops.axis import axis_of
from compiler.ops.definition import OperatorView
from compiler.ops.raw_sums import RawSums


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


OTHER_SHAPES = (
    "TFLite Micro never resizes tensors: what changes its size with each iteration has the size that the file stores "
    "(micro/kernels/slice.cc, concatenation.cc)"
)
"""Whatever comes of a WHILE then: `has_open_sizes` of the model file. LiteRT decides."""
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
