# SPDX-License-Identifier: Apache-2.0
"""Functions of floats, comparisons and logic, shapes as values, and rarer movements, by chance."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.fuzz.draft import LARGEST, Draft, clamp
from tests.fuzz.elementwise import other_operand
from tests.tflite_files import FileTensor

SMOOTH = {
    "COS": "CosOptions", "EXP": "ExpOptions", "GELU": "GeluOptions", "LOG_SOFTMAX": "LogSoftmaxOptions", "SIN": "",
    "SQUARE": "SquareOptions", "RELU_0_TO_1": "", "RELU_N1_TO_1": "",
}  # fmt: skip
POSITIVE = ("LOG", "RSQRT", "SQRT")
STEPPED = {"CEIL": "", "FLOOR": "", "ROUND": "", "SIGN": "SignOptions"}
COMPARED = {"EQUAL": "EqualOptions", "GREATER_EQUAL": "GreaterEqualOptions", "LESS": "LessOptions"}
MOVED = ("int8", "int16", "float32")


def smooth(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype != "float32":
        return False
    op = draft.choice(*SMOOTH)
    return draft.operator(op, (index,), (draft.add(x.shape, x.dtype),), SMOOTH[op])


def positive(draft: Draft, index: int, x: FileTensor) -> bool:
    """Behind a square with something added, so that no value is near zero."""
    if x.dtype != "float32":
        return False
    squared, moved, y = (draft.add(x.shape, x.dtype) for _ in range(3))
    draft.operator("SQUARE", (index,), (squared,), "SquareOptions")
    draft.operator("ADD", (squared, draft.constant(np.array([0.25], np.float32))), (moved,), "AddOptions")
    return draft.operator(draft.choice(*POSITIVE), (moved,), (y,))


def stepped(draft: Draft, index: int, x: FileTensor) -> bool:
    """Of inputs of the model alone: behind an operator, values that differ in their last place take another step."""
    if x.dtype != "float32" or index not in draft.inputs:
        return False
    op = draft.choice(*STEPPED)
    return draft.operator(op, (index,), (draft.add(x.shape, x.dtype),), STEPPED[op])


def divided(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype != "float32":
        return False
    by = draft.constant((draft.random.uniform(0.5, 3, x.shape[-1:]) * draft.choice(-1, 1)).astype(np.float32))
    op, table = draft.choice(("DIV", "DivOptions"), ("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions"))
    if op != "DIV" and index not in draft.inputs:
        return False
    options = {"FusedActivationFunction": clamp(draft)} if op == "DIV" else {}
    return draft.operator(op, (index, by), (draft.add(x.shape, x.dtype),), table, **options)


def power(draft: Draft, index: int, x: FileTensor) -> bool:
    """Of a positive base; FILL and SHAPE make the exponent."""
    if x.dtype != "float32":
        return False
    positive_, y, shape = draft.add(x.shape, x.dtype), draft.add(x.shape, x.dtype), draft.add((len(x.shape),), "int32")
    exponents = draft.add(x.shape, x.dtype)
    draft.operator("EXP", (index,), (positive_,), "ExpOptions")
    draft.operator("SHAPE", (index,), (shape,), "ShapeOptions", OutType=2)
    draft.operator("FILL", (shape, draft.constant(np.float32(draft.choice(0.5, -1.0, 2.0)))), (exponents,))
    return draft.operator("POW", (positive_, exponents), (y,), "PowOptions")


def logic(draft: Draft, index: int, x: FileTensor) -> bool:
    """Two comparisons, joined, and what they choose; SELECT wants one shape."""
    if x.dtype not in ("int8", "float32") or (x.dtype == "float32" and index not in draft.inputs):
        return False
    op = draft.choice(*COMPARED)
    first, second, joined, not_ = (draft.add(x.shape, "bool") for _ in range(4))
    draft.operator(op, (index, other_operand(draft, index, x)), (first,), COMPARED[op])
    draft.operator("LESS", (other_operand(draft, index, x), index), (second,), "LessOptions")
    both, table = draft.choice(("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions"))
    draft.operator(both, (first, second), (joined,), table)
    draft.operator("LOGICAL_NOT", (joined,), (not_,), "LogicalNotOptions")
    for condition in (first, second, joined, not_):
        draft.frontier.remove(condition)
    if draft.chance(0.3):
        axis = draft.integer(0, len(x.shape) - 1)
        y = draft.add([1 if i == axis else n for i, n in enumerate(x.shape)], "bool")
        draft.operator(
            draft.choice("REDUCE_ALL", "REDUCE_ANY"), (not_, draft.ints(axis)), (y,), "ReducerOptions", KeepDims=True
        )
        draft.frontier.remove(y)
        return True
    y = draft.add(x.shape, x.dtype, x)
    zeros = draft.constant(np.zeros(x.shape, x.dtype), x.scale, zero_point=x.zero_point)
    return draft.operator("SELECT", (not_, index, zeros), (y,), "SelectOptions")


def product(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype != "float32" or len(x.shape) < 2:
        return False
    axis = draft.integer(0, len(x.shape) - 1)
    y = draft.add([n for i, n in enumerate(x.shape) if i != axis], x.dtype)
    return draft.operator("REDUCE_PROD", (index, draft.ints(axis)), (y,), "ReducerOptions", KeepDims=False)


def more_axes(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in MOVED:
        return False
    if len(x.shape) < 4 and draft.chance(0.6):
        axis = draft.integer(0, len(x.shape))
        y = draft.add((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype, x)
        return draft.operator("EXPAND_DIMS", (index, draft.ints(axis)), (y,), "ExpandDimsOptions")
    ones = [i for i, n in enumerate(x.shape) if n == 1]
    if not ones or len(x.shape) < 3:
        return False
    axis = draft.choice(*ones)
    y = draft.add((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, x)
    return draft.operator("SQUEEZE", (index,), (y,), "SqueezeOptions", SqueezeDims=(axis,))


def padded(draft: Draft, index: int, x: FileTensor) -> bool:
    pads = [(draft.integer(0, 2), draft.integer(0, 2)) for _ in x.shape]
    shape = [n + a + b for n, (a, b) in zip(x.shape, pads, strict=True)]
    if x.dtype not in ("int8", "float32") or prod(shape) > LARGEST or len(shape) > 4:
        return False
    value = draft.constant(draft.values((), x.dtype), x.scale, zero_point=x.zero_point)
    y = draft.add(shape, x.dtype, x)
    return draft.operator("PADV2", (index, draft.constant(np.array(pads, np.int32)), value), (y,), "PadV2Options")


def gathered(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32") or len(x.shape) < 2:
        return False
    depth, count = draft.integer(1, len(x.shape) - 1), draft.integer(1, 4)
    where = np.stack([draft.random.integers(0, n, count) for n in x.shape[:depth]], axis=-1).astype(np.int32)
    y = draft.add((count, *x.shape[depth:]), x.dtype, x)
    return draft.operator("GATHER_ND", (index, draft.constant(where)), (y,), "GatherNdOptions")


def looked_up(draft: Draft, index: int, x: FileTensor) -> bool:
    """A constant table by the positions of the largest elements."""
    if x.dtype not in ("int8", "float32") or len(x.shape) != 2:
        return False
    found, width = draft.add(x.shape[:1], "int32"), draft.integer(1, 6)
    draft.operator("ARG_MAX", (index, draft.ints(1)), (found,), "ArgMaxOptions", OutputType=2)
    draft.frontier.remove(found)
    if draft.chance(0.5):
        cells = draft.integer(2, 9)
        operands = (
            found,
            draft.constant(np.int32(cells)),
            draft.constant(np.float32(2.5)),
            draft.constant(np.float32(-1)),
        )
        y = draft.add((*x.shape[:1], cells), "float32")
        return draft.operator("ONE_HOT", operands, (y,), "OneHotOptions", Axis=-1)
    table = draft.constant(draft.values((x.shape[1], width), "float32"))
    return draft.operator("EMBEDDING_LOOKUP", (found, table), (draft.add((x.shape[0], width), "float32"),))


def largest(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    count = draft.integer(1, x.shape[-1])
    values, places = draft.add((*x.shape[:-1], count), x.dtype, x), draft.add((*x.shape[:-1], count), "int32")
    draft.operator("TOPK_V2", (index, draft.constant(np.int32(count))), (values, places), "TopKV2Options")
    draft.frontier.remove(places)
    return True


def batches(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32") or len(x.shape) != 4:
        return False
    blocks = [(a, b) for a in (1, 2, 3) for b in (1, 2) if x.shape[0] % (a * b) == 0]
    block = draft.choice(*blocks)
    shape = (x.shape[0] // prod(block), x.shape[1] * block[0], x.shape[2] * block[1], x.shape[3])
    crops = [(draft.integer(0, 1), 0) if n > 2 else (0, 0) for n in shape[1:3]]
    cropped = (shape[0], shape[1] - sum(crops[0]), shape[2] - sum(crops[1]), shape[3])
    y = draft.add(cropped, x.dtype, x)
    operands = (index, draft.ints(*block), draft.constant(np.array(crops, np.int32)))
    return draft.operator("BATCH_TO_SPACE_ND", operands, (y,), "BatchToSpaceNDOptions")


def updated(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    size = [draft.integer(1, n) for n in x.shape]
    start = draft.ints(*(draft.integer(0, n - s) for n, s in zip(x.shape, size, strict=True)))
    update = draft.constant(draft.values(size, x.dtype), x.scale, zero_point=x.zero_point)
    y = draft.add(x.shape, x.dtype, x)
    return draft.operator("DYNAMIC_UPDATE_SLICE", (index, update, start), (y,), "DynamicUpdateSliceOptions")


def zeros(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype != "float32":
        return False
    nothing, y = draft.add(x.shape, x.dtype), draft.add(x.shape, x.dtype)
    draft.operator("ZEROS_LIKE", (index,), (nothing,), "ZerosLikeOptions")
    return draft.operator("MAXIMUM", (index, nothing), (y,), "MaximumMinimumOptions")


STEPS = {
    "smooth": smooth,
    "positive": positive,
    "stepped": stepped,
    "divided": divided,
    "power": power,
    "logic": logic,
    "product": product,
    "more_axes": more_axes,
    "padded": padded,
    "gathered": gathered,
    "looked_up": looked_up,
    "largest": largest,
    "batches": batches,
    "updated": updated,
    "zeros": zeros,
}
