# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, by chance."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.fuzz.draft import LARGEST, Draft
from tests.tflite_files import FileTensor

MOVED = ("int8", "int16", "float32")


def pad(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED or len(x.shape) > 4:
        return False
    mirror = draft.chance(0.3) and x.dtype != "int16"
    pads = np.array([[draft.integer(0, min(2, n - 1) if mirror else 2) for _ in "ab"] for n in x.shape], np.int32)
    shape = [n + int(p.sum()) for n, p in zip(x.shape, pads, strict=True)]
    if prod(shape) > LARGEST:
        return False
    y = draft.add(shape, x.dtype, x)
    if mirror:
        mode = draft.integer(0, 1)
        return draft.operator("MIRROR_PAD", (index, draft.constant(pads)), (y,), "MirrorPadOptions", Mode=mode)
    return draft.operator("PAD", (index, draft.constant(pads)), (y,), "PadOptions")


def concatenation(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED:
        return False
    axis = draft.integer(0, len(x.shape) - 1)
    alike = [
        i
        for i in draft.frontier
        if draft.tensors[i].dtype == x.dtype
        and (draft.tensors[i].scale, draft.tensors[i].zero_point) == (x.scale, x.zero_point)
        and len(draft.tensors[i].shape) == len(x.shape)
        and all(a == b for k, (a, b) in enumerate(zip(draft.tensors[i].shape, x.shape, strict=True)) if k != axis)
    ]
    parts = [index, *(draft.choice(index, *alike) for _ in range(draft.integer(1, 2)))]
    shape = list(x.shape)
    shape[axis] = sum(draft.tensors[i].shape[axis] for i in parts)
    if prod(shape) > LARGEST:
        return False
    y = draft.add(shape, x.dtype, x)
    given = axis - len(shape) if draft.chance(0.3) else axis
    return draft.operator("CONCATENATION", parts, (y,), "ConcatenationOptions", Axis=given)


def split(draft: Draft, index: int, x: FileTensor) -> bool:
    axes = [i for i, n in enumerate(x.shape) if n > 1]
    if x.dtype not in MOVED or not axes:
        return False
    axis = draft.choice(*axes)
    count = draft.choice(*(k for k in range(2, x.shape[axis] + 1) if x.shape[axis] % k == 0))
    shape = [n // count if i == axis else n for i, n in enumerate(x.shape)]
    if count > 6:
        return False
    outputs = [draft.add(shape, x.dtype, x) for _ in range(count)]
    return draft.operator("SPLIT", (draft.ints(axis), index), outputs, "SplitOptions", NumSplits=count)


def strided_slice(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED or len(x.shape) > 4:
        return False
    begin, end, step, shape = [], [], [], []
    for n in x.shape:
        s, b = draft.choice(1, 1, 2, 3), draft.integer(0, n - 1)
        e = draft.integer(b + 1, n)
        begin.append(b)
        end.append(e)
        step.append(s)
        shape.append(-(-(e - b) // s))
    y = draft.add(shape, x.dtype, x)
    inputs = (index, draft.ints(*begin), draft.ints(*end), draft.ints(*step))
    return draft.operator("STRIDED_SLICE", inputs, (y,), "StridedSliceOptions")


def transpose(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED:
        return False
    order = [int(i) for i in draft.random.permutation(len(x.shape))]
    y = draft.add([x.shape[i] for i in order], x.dtype, x)
    return draft.operator("TRANSPOSE", (index, draft.ints(*order)), (y,), "TransposeOptions")


def reshape(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED:
        return False
    size, shape = prod(x.shape), []
    for _ in range(draft.integer(1, 3)):
        divisor = draft.choice(*(k for k in range(1, min(size, 12) + 1) if size % k == 0))
        shape.append(divisor)
        size //= divisor
    shape.append(size)
    y = draft.add(shape, x.dtype, x)
    return draft.operator("RESHAPE", (index, draft.ints(*shape)), (y,), "ReshapeOptions", NewShape=tuple(shape))


def resize(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in ("int8", "float32"):
        return False
    sizes = (draft.integer(1, 9), draft.integer(1, 9))
    if x.shape[0] * prod(sizes) * x.shape[3] > LARGEST:
        return False
    corners, centers = draft.choice((False, False), (True, False), (False, True))
    op, table = draft.choice(
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
    )
    y = draft.add((x.shape[0], *sizes, x.shape[3]), x.dtype, x)
    options = {"AlignCorners": corners, "HalfPixelCenters": centers}
    return draft.operator(op, (index, draft.ints(*sizes)), (y,), table, **options)


def depth(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in ("int8", "float32"):
        return False
    b, h, w, c = x.shape
    if h % 2 == w % 2 == 0:
        y = draft.add((b, h // 2, w // 2, 4 * c), x.dtype, x)
        return draft.operator("SPACE_TO_DEPTH", (index,), (y,), "SpaceToDepthOptions", BlockSize=2)
    if c % 4 == 0:
        y = draft.add((b, 2 * h, 2 * w, c // 4), x.dtype, x)
        return draft.operator("DEPTH_TO_SPACE", (index,), (y,), "DepthToSpaceOptions", BlockSize=2)
    return False


def gather(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    axis = draft.integer(0, len(x.shape) - 1)
    picks = draft.random.integers(0, x.shape[axis], draft.integer(1, 5)).astype(np.int32)
    shape = [len(picks) if i == axis else n for i, n in enumerate(x.shape)]
    if prod(shape) > LARGEST:
        return False
    y = draft.add(shape, x.dtype, x)
    return draft.operator("GATHER", (index, draft.constant(picks)), (y,), "GatherOptions", Axis=axis)


def pack(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED or len(x.shape) > 3 or 2 * prod(x.shape) > LARGEST:
        return False
    axis = draft.integer(0, len(x.shape))
    y = draft.add((*x.shape[:axis], 2, *x.shape[axis:]), x.dtype, x)
    return draft.operator("PACK", (index, index), (y,), "PackOptions", Axis=axis, ValuesCount=2)


STEPS = {
    "pad": pad,
    "concatenation": concatenation,
    "split": split,
    "strided_slice": strided_slice,
    "transpose": transpose,
    "reshape": reshape,
    "resize": resize,
    "depth": depth,
    "gather": gather,
    "pack": pack,
}
