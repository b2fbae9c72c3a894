# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators, activations, reductions and conversions by chance."""

from __future__ import annotations

from math import prod

from tests.fuzz.draft import INTEGERS, Draft, clamp
from tests.tflite_files import FileTensor

ARITHMETIC = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
FIXED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}
"""The quantisation of int8 outputs: scale and zero point. int16 ones have 1 / 32768 and 0."""


def arithmetic(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "int16", "uint8", "float32"):
        return False
    op = draft.choice(*ARITHMETIC)
    other = other_operand(draft, index, x)
    scale = x.scale * draft.tensors[other].scale * 60 if op == "MUL" else 2 * max(x.scale, draft.tensors[other].scale)
    y = draft.add(x.shape, x.dtype, scale=scale)
    pair = (other, index) if draft.chance(0.3) else (index, other)
    return draft.operator(op, pair, (y,), ARITHMETIC[op], FusedActivationFunction=clamp(draft))


def extremes(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    other = draft.constant(draft.values(_part(draft, x.shape), x.dtype), x.scale)
    if x.dtype == "int8":
        draft.tensors[other] = _with_zero_point(draft.tensors[other], x.zero_point)
    y = draft.add(x.shape, x.dtype, x)
    return draft.operator(draft.choice("MAXIMUM", "MINIMUM"), (index, other), (y,), "MaximumMinimumOptions")


def compared(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    op, table = draft.choice(
        ("GREATER", "GreaterOptions"), ("LESS_EQUAL", "LessEqualOptions"), ("NOT_EQUAL", "NotEqualOptions")
    )
    other = other_operand(draft, index, x)
    condition = draft.add(x.shape, "bool")
    draft.operator(op, (index, other), (condition,), table)
    draft.frontier.remove(condition)
    third = draft.constant(draft.values(x.shape, x.dtype), x.scale)
    draft.tensors[third] = _with_zero_point(draft.tensors[third], x.zero_point)
    y = draft.add(x.shape, x.dtype, x)
    return draft.operator("SELECT_V2", (condition, index, third), (y,), "SelectV2Options")


def activation(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "int16", "float32"):
        return False
    op = draft.choice("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS", "NEG", "ELU")
    if x.dtype == "int16" and op not in ("LEAKY_RELU", "RELU", "ABS"):
        return False
    if op == "NEG" and x.zero_point:
        return False
    like = x if op in ("ABS", "NEG") or draft.chance(0.5) else None
    y = draft.add(x.shape, x.dtype, like, 0.0 if like else x.scale)
    if op == "LEAKY_RELU":
        return draft.operator(op, (index,), (y,), "LeakyReluOptions", Alpha=float(draft.random.uniform(0.01, 0.9)))
    table = {"HARD_SWISH": "HardSwishOptions", "ABS": "AbsOptions", "NEG": "NegOptions"}.get(op, "")
    return draft.operator(op, (index,), (y,), table)


def squashing(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "int16", "float32"):
        return False
    op = draft.choice(*FIXED)
    y = draft.add(x.shape, x.dtype)
    if x.dtype != "float32":
        scale, zero_point = FIXED[op] if x.dtype == "int8" else (1 / 32768, 0)
        draft.tensors[y] = FileTensor(f"t{y}", x.shape, x.dtype, scale, zero_point=zero_point)
    if op == "SOFTMAX":
        return draft.operator(op, (index,), (y,), "SoftmaxOptions", Beta=1.0)
    return draft.operator(op, (index,), (y,))


def prelu(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) != 4 or x.dtype not in ("int8", "float32"):
        return False
    alpha = draft.values((1, 1, x.shape[-1]), x.dtype)
    y = draft.add(x.shape, x.dtype, scale=x.scale)
    return draft.operator("PRELU", (index, draft.constant(alpha, draft.scale() if x.scale else 0.0)), (y,))


def reduced(draft: Draft, index: int, x: FileTensor) -> bool:
    if len(x.shape) < 2 or x.dtype not in ("int8", "int16", "float32"):
        return False
    op = draft.choice("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    axes = sorted({draft.integer(0, len(x.shape) - 1) for _ in range(draft.integer(1, 2))})
    if op in ("REDUCE_MAX", "REDUCE_MIN", "SUM") and x.dtype == "int16":
        return False
    keep = draft.chance(0.5)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
    count = prod(x.shape[i] for i in axes)
    like = x if op.startswith("REDUCE") else None
    y = draft.add(shape, x.dtype, like, 0.0 if like else x.scale * (count**0.5 if op == "SUM" else 1.0))
    axis = draft.ints(*(a - len(x.shape) if draft.chance(0.2) else a for a in axes))
    return draft.operator(op, (index, axis), (y,), "ReducerOptions", KeepDims=keep)


def positions(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype not in ("int8", "float32"):
        return False
    op, table = draft.choice(("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
    axis = draft.integer(0, len(x.shape) - 1)
    y = draft.add([n for i, n in enumerate(x.shape) if i != axis], "int32")
    return draft.operator(op, (index, draft.ints(axis)), (y,), table, OutputType=2)


def converted(draft: Draft, index: int, x: FileTensor) -> bool:
    if x.dtype == "float32":
        dtype = draft.choice("int8", "int16")
        scale = 0.03 if dtype == "int8" else 1e-4
        return draft.operator("QUANTIZE", (index,), (draft.add(x.shape, dtype, scale=scale),))
    if x.dtype not in INTEGERS:
        return False
    if draft.chance(0.3):
        return draft.operator("DEQUANTIZE", (index,), (draft.add(x.shape, "float32"),))
    dtype = "int16" if x.dtype == "int16" else draft.choice("int8", "uint8", x.dtype)
    return draft.operator("QUANTIZE", (index,), (draft.add(x.shape, dtype, scale=x.scale),))


def other_operand(draft: Draft, index: int, x: FileTensor) -> int:
    """A second operand: a tensor of the same shape and type, the first itself, or a constant that broadcasts."""
    alike = [i for i in draft.frontier if draft.tensors[i].shape == x.shape and draft.tensors[i].dtype == x.dtype]
    if draft.chance(0.6):
        return int(draft.choice(index, *alike))
    scale = draft.scale() if x.dtype in INTEGERS else 0.0
    made = draft.constant(draft.values(_part(draft, x.shape), x.dtype), scale)
    draft.tensors[made] = _with_zero_point(draft.tensors[made], draft.zero_point(x.dtype))
    return made


def _part(draft: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    part = tuple(1 if draft.chance(0.4) else n for n in shape)
    return part[draft.integer(0, len(part) - 1) :] if draft.chance(0.3) else part


def _with_zero_point(tensor: FileTensor, zero_point: int) -> FileTensor:
    return FileTensor(tensor.name, tensor.shape, tensor.dtype, tensor.scale, tensor.data, zero_point=zero_point)


STEPS = {
    "arithmetic": arithmetic,
    "extremes": extremes,
    "compared": compared,
    "activation": activation,
    "squashing": squashing,
    "prelu": prelu,
    "reduced": reduced,
    "positions": positions,
    "converted": converted,
}
