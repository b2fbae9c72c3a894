# SPDX-License-Identifier: Apache-2.0
"""What reductions have in common: their options, axes and shapes, and operators that fold elements one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.kernels.portable.arrays import evaluate
from compiler.kernels.portable.fold import Fold, lower_fold
from compiler.kernels.portable.loops import ELEMENTS
from compiler.kernels.portable.reduce import reduction
from compiler.ops.constraints import constant, dtypes, inputs_between, output_dtype_as_input, same_quantization
from compiler.ops.definition import Array, OperatorDefinition, OperatorView


@dataclass(frozen=True)
class ReduceAttributes:
    """Options of reductions; the file states the resulting shape."""

    keep_dims: bool = False


def parse(options: Any) -> ReduceAttributes:
    return ReduceAttributes() if options is None else ReduceAttributes(bool(options.KeepDims()))


def axes_of(view: OperatorView) -> frozenset[int]:
    """The reduced axes, not negative."""
    rank = len(view.input().shape)
    return frozenset(int(axis) % rank for axis in view.input(1).constant.reshape(-1))


def axes_exist(view: OperatorView) -> str | None:
    """The axes are within the input's rank, and there is at least one."""
    rank, axes = len(view.input().shape), view.input(1).constant.reshape(-1).tolist()
    if axes and rank and all(-rank <= axis < rank for axis in axes):
        return None
    return f"axes {axes} of {list(view.input().shape)}"


def reduced_shape(view: OperatorView) -> str | None:
    """The output has the input's shape without the reduced axes, or with 1 in their place."""
    shape, axes, got = view.input().shape, axes_of(view), view.output().shape
    if view.attributes.keep_dims:
        expected = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    else:
        expected = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    return None if got == expected and 0 not in shape else f"input {list(shape)}, output {list(got)}"


def few_loops(view: OperatorView) -> str | None:
    """At most two groups of adjacent axes are reduced, and at most two are kept."""
    found = reduction(view.input().shape, axes_of(view))
    return None if found.is_walkable else f"axes {sorted(axes_of(view))} of {list(view.input().shape)}"


def folding(name: str, folds: Mapping[DType, Fold]) -> OperatorDefinition:
    """A reduction that combines elements as they are, in order, by the fold of their type."""

    def reference(view: OperatorView, inputs: Sequence[Array | None]) -> list[Array]:
        x, axes = inputs[0], sorted(axes_of(view))
        assert x is not None
        fold = folds[view.input().dtype]
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        count = reduction(x.shape, frozenset(axes)).count
        rows = x.transpose([*kept, *axes]).reshape(-1, count)
        total: Array = np.full(len(rows), fold.start, rows.dtype)
        for column in range(count):
            total = evaluate(lambda f, isa, pair, _: fold.combine(f, *pair), [total, rows[:, column]])
        return [total.astype(x.dtype).reshape(view.output().shape)]

    def lower(view: OperatorView, isa: Isa) -> Lowered:
        source = view.input()
        return lower_fold(isa, reduction(source.shape, axes_of(view)), ELEMENTS[source.dtype], folds[source.dtype])

    constraints = (
        inputs_between(2, 2),
        dtypes(0, *folds),
        dtypes(1, DType.INT32),
        output_dtype_as_input(),
        constant(1, "The axes"),
        axes_exist,
        reduced_shape,
        few_loops,
        same_quantization,
    )
    return OperatorDefinition(name, parse, constraints, reference, lower)
