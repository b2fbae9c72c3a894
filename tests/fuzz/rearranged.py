# SPDX-License-Identifier: Apache-2.0
"""More operators that move or repeat elements, and a few numeric ones, by chance."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.fuzz.draft import LARGEST, Draft
from tests.tflite_files import FileTensor

MOVED = ("int8", "int16", "float32")


def tile(draft: Draft, index: int, x: FileTensor) -> bool:
    counts = [draft.choice(1, 1, 2, 3) for _ in x.shape]
    shape = [n * c for n, c in zip(x.shape, counts, strict=True)]
    if x.dtype not in ("int8", "float32") or prod(shape) > LARGEST:
        return False
    return draft.operator("TILE", (index, draft.ints(*counts)), (draft.add(shape, x.dtype, x),), "TileOptions")


def broadcast_to(draft: Draft, index: int, x: FileTensor) -> bool:
    shape = [draft.integer(2, 4) if n == 1 else n for n in x.shape]
    if draft.chance(0.4) and len(shape) < 4:
        shape.insert(0, 2)
    if x.dtype not in MOVED or prod(shape) > LARGEST:
        return False
    y = draft.add(shape, x.dtype, x)
    return draft.operator("BROADCAST_TO", (index, draft.ints(*shape)), (y,), "BroadcastToOptions")


def reverse(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED:
        return False
    y = draft.add(x.shape, x.dtype, x)
    axis = draft.ints(draft.integer(0, len(x.shape) - 1))
    return draft.operator("REVERSE_V2", (index, axis), (y,), "ReverseV2Options")


def slice_(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED or len(x.shape) > 4:
        return False
    begin = [draft.integer(0, n - 1) for n in x.shape]
    size = [draft.integer(1, n - b) for n, b in zip(x.shape, begin, strict=True)]
    given = [-1 if b + s == n and draft.chance(0.3) else s for b, s, n in zip(begin, size, x.shape, strict=True)]
    y = draft.add(size, x.dtype, x)
    return draft.operator("SLICE", (index, draft.ints(*begin), draft.ints(*given)), (y,), "SliceOptions")


def split_v(draft: Draft, index: int, x: FileTensor) -> bool:
    axes = [i for i, n in enumerate(x.shape) if n > 1]
    if x.dtype not in MOVED or not axes:
        return False
    axis = draft.choice(*axes)
    first = draft.integer(1, x.shape[axis] - 1)
    sizes = (first, x.shape[axis] - first)
    outputs = [draft.add((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x) for n in sizes]
    inputs = (index, draft.ints(*sizes), draft.ints(axis))
    return draft.operator("SPLIT_V", inputs, outputs, "SplitVOptions", NumSplits=2)


def unpack(draft: Draft, index: int, x: FileTensor) -> bool:
    axis = draft.integer(0, len(x.shape) - 1)
    if x.dtype not in MOVED or len(x.shape) < 2 or x.shape[axis] > 4:
        return False
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    outputs = [draft.add(shape, x.dtype, x) for _ in range(x.shape[axis])]
    return draft.operator("UNPACK", (index,), outputs, "UnpackOptions", Num=x.shape[axis], Axis=axis)


def space_to_batch(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in ("int8", "float32"):
        return False
    b, h, w, c = x.shape
    block = (draft.integer(1, 3), draft.integer(1, 2))
    margins = np.array([[0, -h % block[0]], [0, -w % block[1]]], np.int32)
    shape = (b * prod(block), -(-h // block[0]), -(-w // block[1]), c)
    if prod(shape) > LARGEST:
        return False
    inputs = (index, draft.ints(*block), draft.constant(margins))
    return draft.operator("SPACE_TO_BATCH_ND", inputs, (draft.add(shape, x.dtype, x),), "SpaceToBatchNDOptions")


def cumsum(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    axis = draft.integer(0, len(x.shape) - 1)
    y = draft.add(x.shape, x.dtype, scale=x.scale * x.shape[axis] ** 0.5)
    options = {"Exclusive": draft.chance(0.5), "Reverse": draft.chance(0.5)}
    return draft.operator("CUMSUM", (index, draft.ints(axis)), (y,), "CumsumOptions", **options)


def add_n(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    parts = [index]
    for _ in range(draft.integer(1, 4)):
        other = draft.constant(draft.values(x.shape, x.dtype), x.scale, zero_point=x.zero_point)
        parts.append(draft.choice(index, other))
    y = draft.add(x.shape, x.dtype, scale=x.scale * len(parts) ** 0.5)
    return draft.operator("ADD_N", parts, (y,), "AddNOptions")


def squared_difference(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    scale = draft.scale() if x.scale else 0.0
    other = draft.constant(draft.values(x.shape, x.dtype), scale)
    y = draft.add(x.shape, x.dtype, scale=200 * max(x.scale, scale) ** 2)
    return draft.operator("SQUARED_DIFFERENCE", (index, other), (y,), "SquaredDifferenceOptions")


def normalised(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    y = draft.add(x.shape, x.dtype)
    if x.dtype == "int8":
        draft.tensors[y] = FileTensor(f"t{y}", x.shape, x.dtype, 1 / 128)
    return draft.operator("L2_NORMALIZATION", (index,), (y,), "L2NormOptions")


def cast(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "int16"):
        return False
    y = draft.add(x.shape, "float32")
    return draft.operator("CAST", (index,), (y,), "CastOptions", InDataType=9 if x.dtype == "int8" else 7)


STEPS = {
    "tile": tile,
    "broadcast_to": broadcast_to,
    "reverse": reverse,
    "slice": slice_,
    "split_v": split_v,
    "unpack": unpack,
    "space_to_batch": space_to_batch,
    "cumsum": cumsum,
    "add_n": add_n,
    "squared_difference": squared_difference,
    "normalised": normalised,
    "cast": cast,
}
