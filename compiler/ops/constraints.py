# SPDX-License-Identifier: Apache-2.0
"""Constraints that many operators share, each made with the sentence that states it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compiler.graph import DType, Quantization, Tensor
from compiler.ops.definition import Constraint, OperatorView

Q8, Q16, FLOAT = DType.INT8, DType.INT16, DType.FLOAT32


def stated(sentence: str, check: Callable[[OperatorView], str | None]) -> Constraint:
    """`check` as a constraint whose rule is `sentence`."""

    def constraint(view: OperatorView) -> str | None:
        return check(view)

    constraint.__doc__ = sentence
    return constraint


def inputs_between(least: int, most: int) -> Constraint:
    """The operator has from `least` to `most` inputs, the first `least` of them present."""
    count = f"{least}" if least == most else f"{least} to {most}"

    def check(view: OperatorView) -> str | None:
        inputs = view.inputs
        if not least <= len(inputs) <= most:
            return f"{len(inputs)} inputs"
        absent = [i for i in range(least) if inputs[i] is None]
        return f"input {absent[0]} is absent" if absent else None

    there = "There is 1 input" if count == "1" else f"There are {count} inputs"
    return stated(f"{there} and one output.", lambda v: check(v) or _one_output(v))


def dtypes(position: int, *allowed: DType) -> Constraint:
    """Input `position`, where present, is of one of the types."""
    names = _listed(kind.name for kind in allowed)

    def check(view: OperatorView) -> str | None:
        tensor = view.optional(position)
        return None if tensor is None or tensor.dtype in allowed else f"input {position} is {tensor.dtype.name}"

    return stated(f"Input {position} is {names}.", check)


def output_dtype_as_input(position: int = 0) -> Constraint:
    """The output has the type of input `position`."""

    def check(view: OperatorView) -> str | None:
        got, wanted = view.output().dtype, view.input(position).dtype
        return None if got is wanted else f"input {position} is {wanted.name}, the output {got.name}"

    return stated(f"The output has the type of input {position}.", check)


def constant(position: int, what: str) -> Constraint:
    """Input `position`, where present, is constant."""

    def check(view: OperatorView) -> str | None:
        tensor = view.optional(position)
        return (
            None
            if tensor is None or tensor.is_constant
            else f"input {position} '{tensor.name}' is computed at run time"
        )

    return stated(f"{what} must be constant.", check)


def input_is_computed(view: OperatorView) -> str | None:
    """The input is no constant: with a state, the outputs would change from run to run all the same."""
    return f"'{view.input().name}' is constant" if view.input().is_constant else None


def rank(position: int, *allowed: int) -> Constraint:
    """Input `position` has one of the ranks."""

    def check(view: OperatorView) -> str | None:
        shape = view.input(position).shape
        return None if len(shape) in allowed else f"input {position} has shape {list(shape)}"

    return stated(f"Input {position} has rank {_listed(map(str, allowed))}.", check)


def quantized_per_tensor(*positions: int) -> Constraint:
    """The integer operands at `positions` and the output have one positive scale and one zero point of their range."""

    def check(view: OperatorView) -> str | None:
        tensors = [view.optional(p) for p in positions] + [view.output()]
        return next((got for t in tensors if t is not None and (got := _per_tensor_fault(t))), None)

    return stated("Quantised inputs and the output have one scale above zero and one zero point.", check)


def same_shape(view: OperatorView) -> str | None:
    """The output has the shape of input 0."""
    got, wanted = view.output().shape, view.input().shape
    return None if got == wanted else f"input {list(wanted)}, output {list(got)}"


def same_elements(view: OperatorView) -> str | None:
    """The output has as many elements as input 0."""
    got, wanted = view.output(), view.input()
    return None if got.elements == wanted.elements else f"input {list(wanted.shape)}, output {list(got.shape)}"


def int16_zero_points_are_zero(view: OperatorView) -> str | None:
    """INT16 tensors are quantised symmetrically: zero point 0."""
    for tensor in (*view.inputs, view.output()):
        if tensor is not None and tensor.dtype is Q16 and tensor.quantization and any(tensor.quantization.zero_points):
            return f"'{tensor.name}' has zero point {tensor.quantization.zero_points[0]}"
    return None


def same_quantization(view: OperatorView) -> str | None:
    """A quantised output has the scale and zero point of input 0."""
    source, output = view.input(), view.output()
    if not source.dtype.is_integer or _pair(source.quantization) == _pair(output.quantization):
        return None
    return f"input {_described(source.quantization)}, output {_described(output.quantization)}"


def near_quantization(view: OperatorView) -> str | None:
    """A quantised output has the scale of input 0 up to 0.000001, and its zero point."""
    source, output = view.input(), view.output()
    if not source.dtype.is_integer:
        return None
    if source.zero_point == output.zero_point and abs(source.scale - output.scale) <= 1e-6:
        return None
    return f"input {_described(source.quantization)}, output {_described(output.quantization)}"


def _pair(quantization: Quantization | None) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
    return None if quantization is None else (quantization.scales, quantization.zero_points)


def _described(quantization: Quantization | None) -> str:
    if quantization is None:
        return "is not quantised"
    return f"scale {quantization.scales[0]:.6g} zero point {quantization.zero_points[0]}"


def _per_tensor_fault(tensor: Tensor) -> str | None:
    if not tensor.dtype.is_integer:
        return None
    quantization = tensor.quantization
    if quantization is None:
        return f"'{tensor.name}' has no quantisation"
    if len(quantization.scales) != 1 or len(quantization.zero_points) != 1:
        return f"'{tensor.name}' has {len(quantization.scales)} scales"
    if not 0 < quantization.scale < float("inf"):
        return f"'{tensor.name}' has scale {quantization.scale:g}"
    low, high = -(1 << (8 * tensor.dtype.bytes - 1)), (1 << (8 * tensor.dtype.bytes - 1)) - 1
    if tensor.dtype.name.startswith("UINT"):
        low, high = 0, 2 * high + 1
    if not low <= quantization.zero_point <= high:
        return f"'{tensor.name}' has zero point {quantization.zero_point}"
    return None


def _one_output(view: OperatorView) -> str | None:
    count = len(view.operator.outputs)
    return None if count == 1 else f"{count} outputs"


def _listed(names: Iterable[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last
