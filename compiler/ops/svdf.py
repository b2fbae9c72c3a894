# SPDX-License-Identifier: Apache-2.0
"""SVDF: features of each input row, kept for some runs, times weights over time; `rank` filters give a unit.

Source: TensorFlow Lite Micro, kernels/svdf_common.cc. An int8 output is clamped to its type whatever the activation.
An int8 state takes the low byte of the clamped feature plus its zero point, as the released kernel does (PyPI
tflite-micro 0.dev20261023182759; later sources clamp behind the sum, which differs where the feature saturates).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler import float_numerics
from compiler.codegen.requantize import split_shift
from compiler.graph import DType, Tensor
from compiler.isa import Isa, PairIsa
from compiler.kernels.kernel import Argument, Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.portable.loops import ELEMENTS, lanes_of
from compiler.kernels.portable.svdf import QUAD, FloatSvdf, IntegerSvdf
from compiler.numerics import multiply_by_quantized_multiplier, quantize_multiplier
from compiler.ops.activation import Activation, float_range
from compiler.ops.constraints import (
    FLOAT,
    Q8,
    Q16,
    constant,
    input_is_computed,
    int16_zero_points_are_zero,
    quantized_per_tensor,
)
from compiler.ops.definition import Array, OperatorDefinition, OperatorView

WEIGHTS, TIME_WEIGHTS, BIAS, STATE = 1, 2, 3, 4


@dataclass(frozen=True)
class SvdfAttributes:
    """Options of SVDF."""

    rank: int = 1
    activation: Activation = Activation.NONE


def parse(options: Any) -> SvdfAttributes:
    if options is None:
        return SvdfAttributes()
    return SvdfAttributes(options.Rank(), Activation(options.FusedActivationFunction()))


@dataclass(frozen=True)
class Sizes:
    """batches x inputs to batches x units; a row of the state holds `memory` features."""

    batches: int
    inputs: int
    filters: int
    memory: int
    rank: int

    @property
    def units(self) -> int:
        return self.filters // self.rank


def sizes(view: OperatorView) -> Sizes:
    batches, inputs = view.input().shape
    filters, memory = view.input(TIME_WEIGHTS).shape
    return Sizes(batches, inputs, filters, memory, view.attributes.rank)


def five_inputs(view: OperatorView) -> str | None:
    """There are 5 inputs, of which only the bias may be absent, and one output."""
    absent = [i for i, tensor in enumerate(view.inputs) if tensor is None and i != BIAS]
    if len(view.inputs) == 5 and not absent and len(view.operator.outputs) == 1:
        return None
    return f"{len(view.inputs)} inputs" + (f", input {absent[0]} absent" if absent else "")


def types(view: OperatorView) -> str | None:
    """All is FLOAT32; or input, weights and output are INT8, the bias is INT32, and the weights over time and the state
    are both INT16 or both INT8."""
    found = tuple(None if t is None else t.dtype for t in (*view.inputs, view.output()))
    bias = found[BIAS]
    if all(kind in (None, FLOAT) for kind in found):
        return None
    if found[:2] == (Q8, Q8) and found[TIME_WEIGHTS] == found[STATE] in (Q8, Q16) and bias in (None, DType.INT32):
        return None if found[-1] is Q8 else f"the output is {view.output().dtype.name}"
    return ", ".join("absent" if kind is None else kind.name for kind in found)


def state_is_variable(view: OperatorView) -> str | None:
    """Input 4 is a variable."""
    return None if view.input(STATE).is_variable else f"'{view.input(STATE).name}' is none"


def consistent_shapes(view: OperatorView) -> str | None:
    """Input [batches, inputs], weights [filters, inputs] and [filters, memory], bias [units], state [batches,
    filters * memory], output [batches, units]; filters are a multiple of the rank."""
    shapes = [None if t is None else t.shape for t in (*view.inputs, view.output())]
    if any(len(shapes[i] or ()) != 2 for i in (0, WEIGHTS, TIME_WEIGHTS)) or view.attributes.rank < 1:
        return f"{shapes}, rank {view.attributes.rank}"
    s = sizes(view)
    wanted = [
        (s.batches, s.inputs), (s.filters, s.inputs), (s.filters, s.memory), (s.units,),
        (s.batches, s.filters * s.memory), (s.batches, s.units),
    ]  # fmt: skip
    good = all(got is None or got == want for got, want in zip(shapes, wanted, strict=True))
    whole = s.filters == s.units * s.rank and min(s.batches, s.inputs, s.filters, s.memory) > 0
    return None if good and whole else f"{shapes}, rank {s.rank}"


def clamping(view: OperatorView) -> str | None:
    """The activation is NONE or RELU; for FLOAT32 RELU6 or RELU_N1_TO_1 too."""
    activation = view.attributes.activation
    allowed = activation.is_clamp if view.input().dtype is FLOAT else activation in (Activation.NONE, Activation.RELU)
    return None if allowed else str(activation.name)


def ratios(view: OperatorView) -> tuple[float, float]:
    """The real multipliers of the features, and of the outputs; the reference multiplies scales in float32."""
    source, weights, times, state, output = (
        np.float32(t.scale) for t in (*(view.input(i) for i in (0, WEIGHTS, TIME_WEIGHTS, STATE)), view.output())
    )
    with np.errstate(over="ignore"):
        return float(source * weights / state), float(state * times / output)


def moderate_ratios(view: OperatorView) -> str | None:
    """The scale of a product is below 2**30 times that of the state, and of the output."""
    if view.input().dtype is FLOAT or max(ratios(view)) < 1 << 30:
        return None
    return "ratios {:g}, {:g}".format(*ratios(view))


def scales(view: OperatorView) -> tuple[tuple[int, int], tuple[int, int]]:
    """(multiplier, shift) of the features, and of the outputs."""
    features, outputs = ratios(view)
    return quantize_multiplier(features), quantize_multiplier(outputs)


def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
    x, weights, times, bias, state = inputs
    assert x is not None and weights is not None and times is not None and state is not None
    s = sizes(view)
    rows = state.reshape(s.batches, s.filters, s.memory)
    rows[..., :-1] = rows[..., 1:].copy()
    if x.dtype == np.float32:
        return [_float(view, s, x, weights, times, bias, rows)]
    (features, outputs), zero = scales(view), view.input(STATE).zero_point
    dot = (x.astype(np.int64) - view.input().zero_point) @ weights.astype(np.int64).T
    limits = np.iinfo(state.dtype)
    newest = np.clip(multiply_by_quantized_multiplier(dot, *features), limits.min, limits.max) + zero
    rows[..., -1] = newest.astype(state.dtype)
    sums = ((rows.astype(np.int64) - zero) * times.astype(np.int64)).sum(-1).reshape(s.batches, s.units, s.rank).sum(-1)
    if bias is not None:
        sums = sums + bias
    scaled = multiply_by_quantized_multiplier(sums, *outputs) + view.output().zero_point
    return [np.clip(scaled, -128, 127).astype(np.int8)]


def _float(
    view: OperatorView, s: Sizes, x: Array, weights: Array, times: Array, bias: Array | None, rows: Array
) -> Array:
    """The float form, summed in the reference's order."""
    dot, sums = np.zeros((s.batches, s.filters), np.float32), np.zeros((s.batches, s.filters), np.float32)
    with np.errstate(all="ignore"):
        for c in range(s.inputs):
            dot += x[:, c : c + 1] * weights[:, c]
        rows[..., -1] = dot
        for m in range(s.memory):
            sums += rows[..., m] * times[:, m]
        total = np.broadcast_to(np.float32(0) if bias is None else bias, (s.batches, s.units)).astype(np.float32)
        for r in range(s.rank):
            total += sums.reshape(s.batches, s.units, s.rank)[..., r]
    return float_numerics.clamp(total, *float_range(view.attributes.activation))


def lower(view: OperatorView, isa: Isa) -> Lowered:
    s, is_float = sizes(view), view.input().dtype is FLOAT
    weights, times = view.input(WEIGHTS), view.input(TIME_WEIGHTS)
    bias, feature_bias = _biases(view, s)
    size = times.dtype.bytes
    shape: tuple[Argument, ...] = (
        Place(Role.INPUT, 0), _held(weights.constant), _held(times.constant), _held(feature_bias), _held(bias),
        Place(Role.INPUT, STATE), Place(Role.OUTPUT), s.batches, s.units, s.rank,
        s.inputs * weights.dtype.bytes, (s.memory - 1) * size,
    )  # fmt: skip
    quads = isinstance(isa, PairIsa) and not is_float and s.inputs % QUAD == 0
    input_lanes = lanes_of(s.inputs) if not quads else 2 * QUAD if s.inputs % (2 * QUAD) == 0 else QUAD
    lanes = input_lanes, lanes_of(s.memory - 1, 8) if s.memory > 1 else 0
    macs = s.batches * s.filters * (s.inputs + s.memory)
    if is_float:
        kernel = FloatSvdf(isa, *lanes, *float_range(view.attributes.activation))
        return Lowered((KernelCall(kernel, shape),), macs=macs)
    numbers: list[int] = []
    for (multiplier, shift), tensor in zip(scales(view), (view.input(STATE), view.output()), strict=True):
        numbers += [multiplier, *split_shift(shift), tensor.zero_point]
    call = KernelCall(IntegerSvdf(isa, *lanes, ELEMENTS[times.dtype], quads), (*shape, *numbers))
    return Lowered((call,), macs=macs)


def _biases(view: OperatorView, s: Sizes) -> tuple[Array, Array]:
    """The units' bias, and the features': integer ones with what the zero points add to the sums."""
    given = view.optional(BIAS)
    if view.input().dtype is FLOAT:
        bias = np.zeros(s.units, np.float32) if given is None else given.constant
        return bias, np.zeros(1, np.int32)

    def minus_zero_point(tensor: Tensor, weights: Tensor) -> NDArray[np.int64]:
        return np.asarray(-tensor.zero_point * weights.constant.astype(np.int64).sum(1), np.int64)

    bias = minus_zero_point(view.input(STATE), view.input(TIME_WEIGHTS)).reshape(s.units, s.rank).sum(1)
    bias = bias + (0 if given is None else given.constant.astype(np.int64))
    features = minus_zero_point(view.input(), view.input(WEIGHTS))
    return bias.astype(np.int32), features.astype(np.int32)


def _held(array: Array) -> Constant:
    return Constant(np.ascontiguousarray(array).tobytes())


DEFINITIONS = (
    OperatorDefinition(
        "SVDF",
        parse,
        (
            five_inputs,
            types,
            input_is_computed,
            constant(WEIGHTS, "The weights"),
            constant(TIME_WEIGHTS, "The weights over time"),
            constant(BIAS, "The bias"),
            state_is_variable,
            consistent_shapes,
            quantized_per_tensor(0, WEIGHTS, TIME_WEIGHTS, STATE),
            moderate_ratios,
            int16_zero_points_are_zero,
            clamping,
        ),
        reference,
        lower,
        updates=(STATE,),
    ),
)
