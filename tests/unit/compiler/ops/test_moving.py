# SPDX-License-Identifier: Apache-2.0
"""Operators that move or choose elements: what they compute, what they refuse, and the same bytes on cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import DType, Tensor
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.ops.definition import OperatorView
from compiler.ops.gather import GatherAttributes
from compiler.ops.one_hot import OneHotAttributes
from compiler.ops.strided_slice import StridedSliceAttributes
from tests.unit.compiler.ops.build import evaluate, refusal, tensor, view
from tests.unit.compiler.ops.together import check_together

I32, I64, FLOAT, Q8 = DType.INT32, DType.INT64, DType.FLOAT32, DType.INT8


def numbers(index: int, *values: int, dtype: DType = I32) -> Tensor:
    """A constant vector."""
    return tensor(index, (len(values),), dtype, None, data=values)


def gather(
    data: tuple[int, ...], indices: tuple[int, ...], output: tuple[int, ...], *, axis: int = 0, batch: int = 0,
    dtype: DType = Q8, by: DType = I32, known: Any = None,
) -> OperatorView:  # fmt: skip
    inputs = [tensor(0, data, dtype), tensor(1, indices, by, None, data=known)]
    return view("GATHER", inputs, tensor(2, output, dtype), GatherAttributes(axis, batch))


def gather_nd(data: tuple[int, ...], indices: tuple[int, ...], dtype: DType, by: DType = I32) -> OperatorView:
    output = (*indices[:-1], *data[indices[-1] :])
    return view("GATHER_ND", [tensor(0, data, dtype), tensor(1, indices, by, None)], tensor(2, output, dtype))


def update(data: tuple[int, ...], block: tuple[int, ...], dtype: DType, by: DType = I32) -> OperatorView:
    inputs = [tensor(0, data, dtype), tensor(1, block, dtype), tensor(2, (len(data),), by, None)]
    return view("DYNAMIC_UPDATE_SLICE", inputs, tensor(3, data, dtype))


def choose(
    op: str, condition: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...], output: tuple[int, ...],
    dtype: DType = Q8,
) -> OperatorView:  # fmt: skip
    inputs = [tensor(0, condition, DType.BOOL, None), tensor(1, first, dtype), tensor(2, second, dtype)]
    return view(op, inputs, tensor(3, output, dtype))


def test_gather_is_take() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    v = gather((2, 3, 4), (2,), (2, 2, 4), axis=-2, known=[2, 0])
    np.testing.assert_array_equal(evaluate(v, x), x.take([2, 0], 1))
    batched = gather((2, 3, 4), (2, 2), (2, 2, 4), axis=1, batch=1)
    np.testing.assert_array_equal(evaluate(batched, x, [[0, 2], [1, 1]]), np.stack([x[0, [0, 2]], x[1, [1, 1]]]))


def test_gather_refuses() -> None:
    assert "of 3 cells" in str(refusal(gather((3, 4), (2,), (2, 4), known=[0, 3])))
    assert "of 3 cells" in str(refusal(gather((3, 4), (2,), (2, 4), known=[0, -1])))
    assert "axis 2" in str(refusal(gather((3, 4), (2,), (2, 4), axis=2)))
    assert "output" in str(refusal(gather((3, 4), (2,), (4, 2))))
    assert "INT16" in str(refusal(gather((3, 4), (2,), (2, 4), by=DType.INT16)))


def test_indices_outside_are_clamped() -> None:
    assert evaluate(gather((3,), (4,), (4,)), [5, 6, 7], [-1, 3, 1, 1 << 30]).tolist() == [5, 7, 6, 7]
    v = gather_nd((2, 2), (2, 2), Q8)
    assert evaluate(v, [[1, 2], [3, 4]], [[9, 0], [-9, 9]]).tolist() == [3, 2]


def test_update_is_clamped() -> None:
    v = update((3, 4), (2, 2), Q8)
    changed = evaluate(v, np.zeros((3, 4)), [[1, 2], [3, 4]], [7, -7])
    assert changed.tolist() == [[0, 0, 0, 0], [1, 2, 0, 0], [3, 4, 0, 0]]
    assert "in INT8 [3, 4]" in str(refusal(update((3, 4), (2, 5), Q8)))


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4f", "rv32imac"])
def test_indexed_on_cores(core: str, tmp_path: Path) -> None:
    views = {
        "rows": gather((8, 3), (5,), (5, 3)),
        "words": gather((8, 4), (5,), (5, 4), by=I64),
        "middle axis": gather((2, 5, 2), (3,), (2, 3, 2), axis=1, dtype=FLOAT),
        "batches": gather((2, 3, 5, 2), (2, 4), (2, 3, 4, 2), axis=2, batch=1, dtype=DType.INT16),
        "long": gather((6, 2), (4,), (4, 2), dtype=I64),
        "cells": gather_nd((3, 4, 2), (5, 2), Q8),
        "elements": gather_nd((3, 4, 2), (5, 3), FLOAT, I64),
        "update": update((5, 8), (2, 4), Q8),
        "whole rows": update((5, 8), (2, 8), DType.INT16, I64),
        "update of longs": update((4, 3, 2), (1, 2, 2), I64),
    }
    rng = np.random.default_rng(7)
    inputs = []
    for v in views.values():
        for position, t in enumerate(v.inputs):
            assert t is not None
            is_index = position == len(v.inputs) - 1
            inputs.append(rng.integers(-3 if is_index else -100, 9 if is_index else 100, t.shape).astype(t.dtype.numpy))
    check_together(core, views, inputs, tmp_path)


def test_select_by_rows_and_by_broadcasting() -> None:
    first, second = np.arange(6).reshape(3, 2), -np.arange(6).reshape(3, 2)
    rows = choose("SELECT", (3,), (3, 2), (3, 2), (3, 2))
    assert evaluate(rows, [True, False, True], first, second).tolist() == [[0, 1], [-2, -3], [4, 5]]
    columns = choose("SELECT_V2", (2,), (3, 2), (1,), (3, 2))
    assert evaluate(columns, [True, False], first, [9]).tolist() == [[0, 9], [2, 9], [4, 9]]
    assert "to [3, 2]" in str(refusal(choose("SELECT_V2", (3,), (3, 2), (3, 2), (3, 2))))
    unlike = [tensor(0, (2,), DType.BOOL, None), tensor(1, (2,)), tensor(2, (2,), scale=2.0)]
    assert "scale and zero point of the output" in str(refusal(view("SELECT", unlike, tensor(3, (2,)))))


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4f", "rv32imac"])
def test_select_on_cores(core: str, tmp_path: Path) -> None:
    views = {
        "elements": choose("SELECT", (3, 5), (3, 5), (3, 5), (3, 5)),
        "rows": choose("SELECT", (3,), (3, 5), (3, 5), (3, 5), FLOAT),
        "one": choose("SELECT_V2", (1,), (3, 5), (3, 5), (3, 5), DType.INT16),
        "mixed": choose("SELECT_V2", (2, 1, 3, 1), (4, 1, 5), (2, 1, 3, 5), (2, 4, 3, 5)),
        "long": choose("SELECT_V2", (2, 1), (3,), (2, 3), (2, 3), I64),
    }
    rng = np.random.default_rng(11)
    operands = [t for v in views.values() for t in v.inputs if t is not None]
    bounds = [(0, 2) if t.dtype is DType.BOOL else (-100, 100) for t in operands]
    inputs = [rng.integers(*b, t.shape).astype(t.dtype.numpy) for b, t in zip(bounds, operands, strict=True)]
    check_together(core, views, inputs, tmp_path)


def one_hot(indices: tuple[int, ...], depth: int, axis: int, output: tuple[int, ...], by: DType = I32) -> OperatorView:
    values = [tensor(i, (), kind, None, data=v) for i, kind, v in ((1, I32, depth), (2, FLOAT, 2.5), (3, FLOAT, -1.0))]
    made = tensor(4, output, FLOAT, None)
    return view("ONE_HOT", [tensor(0, indices, by, None), *values], made, OneHotAttributes(axis))


def test_one_hot() -> None:
    v = one_hot((2,), 3, -1, (2, 3))
    assert evaluate(v, [1, -1]).tolist() == [[-1, 2.5, -1], [-1, -1, -1]]
    assert evaluate(one_hot((2,), 3, 0, (3, 2)), [1, 3]).tolist() == [[-1, -1], [2.5, -1], [-1, -1]]
    assert "by 3 at 0" in str(refusal(one_hot((2,), 3, 0, (2, 3))))


def joined(axis: int, output: tuple[int, ...], *shapes: tuple[int, ...], dtype: DType = Q8) -> OperatorView:
    inputs = [tensor(i, shape, dtype) for i, shape in enumerate(shapes)]
    return view("CONCATENATION", inputs, tensor(9, output, dtype), ConcatenationAttributes(axis))


def test_bytes_are_requantized_when_joined() -> None:
    inputs = [tensor(0, (3,), DType.UINT8, 0.5, 10), tensor(1, (4,), DType.UINT8, 1.0, 0)]
    v = view("CONCATENATION", inputs, tensor(2, (7,), DType.UINT8, 1.0, 0), ConcatenationAttributes(0))
    # (11 - 10) / 2 and (9 - 10) / 2 are ties: away from zero.
    assert evaluate(v, [11, 9, 255], [0, 7, 200, 255]).tolist() == [1, 0, 123, 0, 7, 200, 255]
    assert refusal(v) is None
    unlike = [tensor(0, (3,), scale=0.5), tensor(1, (4,))]
    assert "UINT8" in str(refusal(view("CONCATENATION", unlike, tensor(2, (7,)), ConcatenationAttributes(0))))


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4f", "rv32imac"])
def test_joins_and_marks_on_cores(core: str, tmp_path: Path) -> None:
    unlike = [tensor(0, (2, 3), DType.UINT8, 0.3, 12), tensor(1, (2, 2), DType.UINT8, 0.7, 99)]
    views = {
        "requantized": view(
            "CONCATENATION", unlike, tensor(2, (2, 5), DType.UINT8, 0.7, 99), ConcatenationAttributes(1)
        ),
        "bytes": joined(1, (2, 5, 3), (2, 2, 3), (2, 3, 3)),
        "longs": joined(-1, (2, 3), (2, 1), (2, 2), dtype=I64),
        "truths": joined(0, (5,), (2,), (3,), dtype=DType.BOOL),
        "last axis": one_hot((3, 2), 5, -1, (3, 2, 5)),
        "middle axis": one_hot((3, 2), 5, 1, (3, 5, 2), I64),
    }
    rng = np.random.default_rng(5)
    operands = [t for v in views.values() for t in v.inputs if t is not None and not t.is_constant]
    bounds = [(0, 256) if t.dtype is DType.UINT8 else (0, 2) if t.dtype is DType.BOOL else (-3, 9) for t in operands]
    inputs = [rng.integers(*b, t.shape).astype(t.dtype.numpy) for b, t in zip(bounds, operands, strict=True)]
    check_together(core, views, inputs, tmp_path)


def sliced(shape: tuple[int, ...], *entries: Any) -> OperatorView:
    """The operator for NumPy's x[entries]."""
    bounds, masks = [], dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    for i, entry in enumerate(entries):
        bit, bound = 1 << i, (0, 0, 1)
        if entry is Ellipsis:
            masks["ellipsis"] |= bit
        elif entry is None:
            masks["new_axis"] |= bit
        elif isinstance(entry, int):
            masks["shrink_axis"] |= bit
            bound = entry, entry + 1, 1
        else:
            masks["begin"] |= bit if entry.start is None else 0
            masks["end"] |= bit if entry.stop is None else 0
            bound = entry.start or 0, entry.stop or 0, entry.step or 1
        bounds.append(bound)
    inputs = [tensor(0, shape), *(numbers(1 + i, *column) for i, column in enumerate(zip(*bounds, strict=True)))]
    attributes = StridedSliceAttributes(**{f"{name}_mask": mask for name, mask in masks.items()})
    return view("STRIDED_SLICE", inputs, tensor(9, np.empty(shape)[entries].shape), attributes)


@pytest.mark.parametrize(
    "entries",
    [
        (slice(1, 3),),
        (slice(None, None, -1), slice(-2, -9, -2)),
        (2, Ellipsis, slice(None, 2)),
        (None, slice(0, 9, 3), -1),
        (Ellipsis, None, slice(4, None, -3)),
        (0, slice(None), slice(1, 2), Ellipsis),
    ],
    ids=str,
)
def test_strided_slice_is_numpys(entries: tuple[Any, ...]) -> None:
    x = np.arange(60).reshape(3, 4, 5)
    v = sliced((3, 4, 5), *entries)
    assert refusal(v) is None
    np.testing.assert_array_equal(evaluate(v, x), x[entries])


def test_strided_slice_refuses() -> None:
    for v in (sliced((3, 4), Ellipsis, 0, slice(1, 2)), sliced((3, 4), slice(1, 2), Ellipsis, slice(1, 2), None)):
        assert "which is last or stands for an axis" in str(refusal(v))
    assert "0 cells" in str(refusal(sliced((3, 4), slice(2, 1))))


def test_known_results() -> None:
    x = tensor(0, (2, 3))
    assert evaluate(view("RANK", [x], tensor(1, (), I32, None)), np.zeros((2, 3))) == 2
    assert evaluate(view("ZEROS_LIKE", [x], tensor(1, (2, 3))), np.ones((2, 3))).tolist() == [[0] * 3] * 2
    assert "(3,)" in str(refusal(view("ZEROS_LIKE", [x], tensor(1, (2, 3), zero_point=3))))
    shapes = [numbers(0, 3, 1), numbers(1, 2, 1, 4)]
    assert evaluate(view("BROADCAST_ARGS", shapes, tensor(2, (3,), I32, None))).tolist() == [2, 3, 4]
    assert refusal(view("BROADCAST_ARGS", [numbers(0, 3, 2), numbers(1, 3)], tensor(2, (2,), I32, None)))


def ranged(start: float, limit: float, delta: float, count: int, dtype: DType = I32) -> OperatorView:
    inputs = [tensor(i, (), dtype, None, data=value) for i, value in enumerate((start, limit, delta))]
    return view("RANGE", inputs, tensor(3, (count,), dtype, None))


def test_range() -> None:
    assert evaluate(ranged(2, 9, 3, 3)).tolist() == [2, 5, 8]
    assert evaluate(ranged(5, 0, -2, 3)).tolist() == [5, 3, 1]
    want, value = [], np.float32(0)
    for _ in range(10):
        want.append(value)
        value += np.float32(0.1)
    assert evaluate(ranged(0, 0.95, 0.1, 10, FLOAT)).tolist() == want
    assert "delta leads" in str(refusal(ranged(0, 5, -1, 5))) and refusal(ranged(0, 5, 0, 5))
    assert "output [3]" in str(refusal(ranged(0, 5, 1, 3)))
