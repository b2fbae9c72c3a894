# SPDX-License-Identifier: Apache-2.0
"""What operators that only move elements have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from compiler.arena import ALIGNMENT
from compiler.graph import DType, Tensor
from compiler.isa import Isa
from compiler.kernels.kernel import Constant, KernelCall, Lowered, Place, Role
from compiler.kernels.portable.copies import Axis, copy, fill
from compiler.kernels.portable.index_maps import OUTSIDE, contiguous_start, copy_axes, numbered, scatter_cells
from compiler.ops.constraints import stated
from compiler.ops.definition import Array, Constraint, OperatorDefinition, OperatorView

MOVABLE = (
    DType.FLOAT32,
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.BOOL,
)
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
INDICES = (DType.INT32, DType.INT64)
VALUE = 2
"""The position of what an operator pads with, where it is told."""


def steps(shape: tuple[int, ...], element_bytes: int) -> list[int]:
    """The bytes from one cell to the next along each axis of a contiguous tensor."""
    return [prod(shape[axis + 1 :]) * element_bytes for axis in range(len(shape))]


def block_axes(counts: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], size: int) -> list[Axis]:
    """The copy of a block of `counts` cells between contiguous tensors of shapes `source` and `target`."""
    return [Axis(*axis) for axis in zip(counts, steps(source, size), steps(target, size), strict=True)]


def movable(view: OperatorView) -> str | None:
    """Elements are FLOAT32, INT8, UINT8, INT16, INT32, UINT32, INT64 or BOOL."""
    kind = view.output().dtype
    return None if kind in MOVABLE else kind.name


def inputs_as_output(view: OperatorView) -> str | None:
    """All inputs have the type, scale and zero point of the output."""
    output = view.output()
    for position, tensor in enumerate(view.inputs):
        if tensor is None:
            return f"input {position} is absent"
        if tensor.dtype is not output.dtype:
            return f"input {position} is {tensor.dtype.name}, the output {output.dtype.name}"
        if tensor.quantization != output.quantization and tensor.dtype.is_integer:
            return f"input {position} '{tensor.name}' is quantised differently"
    return None


Move = Callable[[OperatorView, Array], list[Array]]
"""`move(view, x)`: the outputs of an operator whose moved input is `x`, by NumPy functions that suit every element
type. It is applied to values, and to the numbers of the elements."""


Pad = Callable[[OperatorView, Array, Any], Array]
"""`pad(view, x, value)`: like a move, with one output, some of whose elements are `value`."""


def moving(
    name: str, parse: Callable[[Any], Any], constraints: Iterable[Constraint], move: Move, position: int = 0
) -> OperatorDefinition:
    """The operator `name` that moves the elements of input `position`; all else that it reads is constant."""
    return _moving(name, parse, constraints, lambda view, x, value: move(view, x), position, _zero_point)


def padding(
    name: str,
    parse: Callable[[Any], Any],
    constraints: Iterable[Constraint],
    pad: Pad,
    value_of: Callable[[OperatorView], Array] | None = None,
) -> OperatorDefinition:
    """The operator `name` that moves the elements of input 0 and pads with the scalar that `value_of` gives (in the
    output's type), or else with the zero point."""
    return _moving(name, parse, constraints, lambda view, x, v: [pad(view, x, v)], 0, value_of or _zero_point)


def _moving(
    name: str,
    parse: Callable[[Any], Any],
    constraints: Iterable[Constraint],
    move: Callable[[OperatorView, Array, Any], list[Array]],
    position: int,
    value_of: Callable[[OperatorView], Array],
) -> OperatorDefinition:
    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        x = inputs[position]
        assert x is not None
        return move(view, x, value_of(view))

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        cells = move(view, numbered(view.input(position).shape), OUTSIDE)
        return lower_cells(view, isa, cells, position, value_of(view))

    def moved_shapes(view: OperatorView) -> str | None:
        """The outputs have the shapes that follow from the input and the options, and are not empty."""
        blank = np.broadcast_to(np.int8(0), view.input(position).shape)
        found = [list(x.shape) for x in move(view, blank, 0)] if blank.size else []
        wanted = [list(view.graph.tensor(output).shape) for output in view.operator.outputs]
        return None if found == wanted and blank.size else f"{wanted} for {found} from {list(blank.shape)}"

    rules = (
        _operands(position, VALUE if value_of is not _zero_point else None),
        *constraints,
        of_type(position),
        moderate_size,
        quantized_as(position),
        moved_shapes,
    )
    return OperatorDefinition(name, parse, rules, reference, lower)


def _operands(position: int, value: int | None) -> Constraint:
    """Input `position` is moved, and input `value`, if any, pads; the others tell how."""

    def check(view: OperatorView) -> str | None:
        if view.optional(position) is None:
            return f"input {position} is absent"
        others = [(i, t) for i, t in enumerate(view.inputs) if t is not None and i not in (position, value)]
        return next((f"input {i} is {t.dtype.name}" for i, t in others if t.dtype not in INDICES), None)

    but = f" but {value}" if value is not None else ""
    return stated(f"Input {position} is there, and all others{but} are INT32 or INT64.", check)


def moderate_size(view: OperatorView) -> str | None:
    """Each tensor takes less than 64 MiB."""
    tensors = [*view.inputs, *(view.graph.tensor(output) for output in view.operator.outputs)]
    large = [t for t in tensors if t is not None and (t.elements < 0 or t.bytes >= 1 << 26)]
    return f"'{large[0].name}' has shape {list(large[0].shape)}" if large else None


def lower_cells(
    view: OperatorView, isa: Isa, maps: Sequence[Array], position: int = 0, value: Array | None = None
) -> Lowered:
    """Copies from input `position` by index maps, one an output; what lies outside the input becomes `value`. Nothing
    where the outputs are parts of the input that start on the alignment of buffers."""
    tensor = view.input(position)
    size = tensor.dtype.bytes
    starts = [contiguous_start(cells) for cells in maps]
    if all(start is not None and start * size % ALIGNMENT == 0 for start in starts):
        return Lowered((), aliases=tuple(Place(Role.INPUT, position, (start or 0) * size) for start in starts))
    calls = []
    for number, cells in enumerate(maps):
        source, target = Place(Role.INPUT, position), Place(Role.OUTPUT, number)
        if value is not None and (cells == OUTSIDE).any():
            calls.append(fill_with(isa, target, cells.size, value))
            targets = scatter_cells(cells, tensor.shape)
            target = replace(target, offset=int(targets.reshape(-1)[0]) * size)
            axes = [axis.swapped for axis in copy_axes(targets)]
        else:
            source = replace(source, offset=int(cells.reshape(-1)[0]) * size)
            axes = copy_axes(cells)
        calls.append(copy(isa, source, target, [axis.times(size) for axis in axes], size))
    return Lowered(tuple(calls))


def fill_with(isa: Isa, target: Place, count: int, value: Array) -> KernelCall:
    """The call that stores a scalar `count` times."""
    size = value.dtype.itemsize
    if size == 8:
        return copy(isa, Constant(value.tobytes()), target, [Axis(count, 0, size)], size)
    return fill(isa, target, count, int.from_bytes(value.tobytes(), "little"), size)


def _zero_point(view: OperatorView) -> Array:
    """What stands for 0 in the output, as a scalar."""
    output = view.output()
    per_tensor = output.dtype in QUANTIZED and output.quantization and len(output.quantization.zero_points) == 1
    return np.array(output.zero_point if per_tensor else 0, output.dtype.numpy)


def _parameters(tensor: Tensor) -> tuple[tuple[float, ...], tuple[int, ...]]:
    quantization = tensor.quantization
    return (quantization.scales, quantization.zero_points) if quantization else ((), ())


def of_type(position: int) -> Constraint:
    """Input `position` can be moved, and the outputs have its type."""

    def check(view: OperatorView) -> str | None:
        moved = view.input(position)
        kinds = [view.graph.tensor(output).dtype for output in view.operator.outputs]
        if moved.dtype not in MOVABLE:
            return f"input {position} is {moved.dtype.name}"
        others = [kind for kind in kinds if kind is not moved.dtype]
        return f"input {position} is {moved.dtype.name}, an output {others[0].name}" if others else None

    names = ", ".join(kind.name for kind in MOVABLE[:-1])
    return stated(f"Input {position} and the outputs are of one type: {names} or {MOVABLE[-1].name}.", check)


def quantized_as(position: int) -> Constraint:
    """Quantised outputs are quantised as input `position`."""

    def check(view: OperatorView) -> str | None:
        moved = view.input(position)
        for output in view.operator.outputs:
            tensor = view.graph.tensor(output)
            if moved.dtype in QUANTIZED and _parameters(tensor) != _parameters(moved):
                return f"'{tensor.name}' has {_parameters(tensor)}, the input {_parameters(moved)}"
        return None

    return stated(f"Quantised outputs have the scale and zero point of input {position}.", check)
