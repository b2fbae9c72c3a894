# SPDX-License-Identifier: Apache-2.0
"""What elementwise operators have in common: each names, for every element type that it accepts, how one element is
computed; definitions, broadcasting, byte tables and interpolated tables come from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import Argument, Constant, Lowered
from compiler.kernels.portable.arrays import evaluate
from compiler.kernels.portable.formula import Emit, Formula, Operand, elementwise
from compiler.kernels.portable.loops import ELEMENTS
from compiler.ops import bands, byte_tables
from compiler.ops.activation import INTEGER_RANGE
from compiler.ops.broadcast import broadcasts_to_output, operand
from compiler.ops.constraints import (
    dtypes,
    inputs_between,
    int16_zero_points_are_zero,
    output_dtype_as_input,
    quantized_per_tensor,
    stated,
)
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView, no_options, rule

QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
Values = Callable[[OperatorView, Sequence[Array]], Array]
"""The exact outputs (any NumPy integer type; floats as float32) of arrays that broadcast against each other."""
Bind = Callable[[OperatorView], tuple[Formula, Sequence[Argument]]]
"""The formula of an operator and its parameters."""


@dataclass(frozen=True)
class Kind:
    """How an operator treats one element type."""

    values: Values
    lower: Callable[[OperatorView, Isa], Lowered]


def bound(values: Values, bind: Bind) -> Kind:
    """A formula whose parameters depend on the operator, beside its values in NumPy."""

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        formula, parameters = bind(view)
        inputs = [
            Operand(operand(view, i), ELEMENTS[view.input(i).dtype], view.input(i).shape)
            for i in range(len(view.inputs))
        ]
        output = view.output()
        return elementwise(isa, formula, inputs, ELEMENTS[output.dtype], output.shape, parameters)

    return Kind(values, lower)


def computed(name: str, emit: Emit, numbers: Callable[[OperatorView], Sequence[int]] = lambda view: (),
             parameters: tuple[str, ...] = (), lanes: int = 1, values: Values | None = None) -> Kind:  # fmt: skip
    """A formula that also gives the values, unless `values` are given. `numbers` are its parameters."""
    formula = Formula(name, emit, parameters, lanes)
    return bound(values or (lambda view, x: evaluate(emit, x, numbers(view))), lambda view: (formula, numbers(view)))


def byte_table(values: Values) -> Kind:
    """One input of 8 bits: a table of all 256 outputs."""

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        source, output = view.input(), view.output()
        table = np.asarray(values(view, [byte_tables.inputs_of(source)])).astype(output.dtype.numpy)
        return byte_tables.lower(isa, source, table)

    return Kind(values, lower)


def definition(
    name: str,
    kinds: Mapping[DType, Kind],
    *constraints: Constraint,
    inputs: int = 1,
    parse: Callable[[Any], Any] = no_options,
    output: DType | None = None,
    typed_by: int = 0,
) -> OperatorDefinition:
    """An operator of `inputs` inputs that broadcast. Inputs from `typed_by` on have one type, which chooses the kind;
    the output has it too, unless it is always `output`."""

    def kind(view: OperatorView) -> Kind:
        return kinds[view.input(typed_by).dtype]

    def reference(view: OperatorView, operands: Sequence[Array | None]) -> list[Array]:
        arrays = [x for x in operands if x is not None]
        found = kind(view).values(view, arrays)
        return [np.broadcast_to(found, view.output().shape).astype(view.output().dtype.numpy)]

    same = (output_dtype_as_input(typed_by),) if output is None else (output_is(output),)
    quantized = any(dtype in QUANTIZED for dtype in kinds)
    return OperatorDefinition(
        name,
        parse,
        (
            inputs_between(inputs, inputs),
            dtypes(typed_by, *kinds),
            *((one_type(typed_by, inputs),) if inputs > typed_by + 1 else ()),
            *same,
            broadcasts_to_output,
            *((_one_scale(typed_by, inputs, output is None), int16_zero_points_are_zero) if quantized else ()),
            *constraints,
        ),
        reference,
        lambda view, isa: kind(view).lower(view, isa),
        bands=bands.elementwise,
    )


def one_type(first: int, count: int) -> Constraint:
    """Inputs `first` to `count` - 1 have one type."""

    def check(view: OperatorView) -> str | None:
        names = [view.input(i).dtype.name for i in range(first, count)]
        return None if len(set(names)) == 1 else " and ".join(names)

    return stated(f"Inputs {' and '.join(map(str, range(first, count)))} have one type.", check)


def output_is(dtype: DType) -> Constraint:
    def check(view: OperatorView) -> str | None:
        return None if view.output().dtype is dtype else f"the output is {view.output().dtype.name}"

    return stated(f"The output is {dtype.name}.", check)


def _one_scale(first: int, count: int, with_output: bool) -> Constraint:
    check = quantized_per_tensor(*range(first, count))
    return stated(rule(check), lambda view: check(view) if view.input(first).dtype in QUANTIZED else None)


def one_quantization(first: int = 0) -> Constraint:
    """Inputs from `first` on and the output have one scale and zero point."""

    def check(view: OperatorView) -> str | None:
        tensors = [*(view.input(i) for i in range(first, len(view.inputs))), view.output()]
        if tensors[0].dtype not in QUANTIZED:
            return None
        found = [(t.scale, t.zero_point) for t in tensors]
        return None if len(set(found)) == 1 else ", ".join(f"scale {s:g} zero point {z}" for s, z in found)

    return stated("Quantised inputs and the output have one scale and zero point.", check)


def clipped(values: Array, output: Tensor) -> Array:
    """Integers clamped to the range of a tensor's type."""
    return np.clip(values, *INTEGER_RANGE[output.dtype])


def centred(view: OperatorView, inputs: Sequence[Array], position: int = 0) -> Array:
    """A quantised input less its zero point, as int64."""
    return np.asarray(inputs[position].astype(np.int64) - view.input(position).zero_point)


def constant_table(table: Array) -> Constant:
    """A table of little-endian int16."""
    return Constant(np.asarray(table).astype("<i2").tobytes(), 2)
