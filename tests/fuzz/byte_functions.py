# SPDX-License-Identifier: Apache-2.0
"""Every operator of one 8-bit input over all of its 256 values, for 20 pairs of scales and zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.model import Model
from tests.fuzz.draft import Draft
from tests.fuzz.models import Random
from tests.tflite_files import FileOperator, FileTensor, tflite_file

PAIRS = 20
TOGETHER = 4
"""So many pairs in a model on cores, which saves time; more would take long to order."""


@dataclass(frozen=True)
class ByteFunction:
    """An operator with what its tensors have to be. `output` is its scale and zero point where the operator fixes them;
    `zero_point` that of the input; `same` output is quantised as the input."""

    op: str
    dtype: str = "int8"
    target: str = ""
    output: tuple[float, int] | None = None
    zero_point: int | None = None
    same: bool = False
    table: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


FUNCTIONS = (
    ByteFunction("ABS"),
    ByteFunction("DEQUANTIZE", target="float32"),
    ByteFunction("DEQUANTIZE", "uint8", target="float32"),
    ByteFunction("ELU"),
    ByteFunction("EXP"),
    ByteFunction("GELU", table="GeluOptions", options={"Approximate": False}),
    ByteFunction("GELU", table="GeluOptions", options={"Approximate": True}),
    ByteFunction("HARD_SWISH"),
    ByteFunction("HARD_SWISH", "uint8"),
    ByteFunction("LEAKY_RELU", table="LeakyReluOptions", options={"Alpha": 0.3}),
    ByteFunction("LEAKY_RELU", table="LeakyReluOptions", options={"Alpha": 1.5}),
    ByteFunction("LEAKY_RELU", "uint8", table="LeakyReluOptions", options={"Alpha": 0.1}),
    ByteFunction("LOG", zero_point=-128),
    ByteFunction("LOGISTIC", output=(1 / 256, -128)),
    ByteFunction("LOGISTIC", "uint8", output=(1 / 256, 0)),
    ByteFunction("NEG", zero_point=0, same=True),
    ByteFunction("QUANTIZE"),
    ByteFunction("QUANTIZE", target="uint8"),
    ByteFunction("QUANTIZE", target="int16"),
    ByteFunction("QUANTIZE", "uint8", target="int8"),
    ByteFunction("RELU"),
    ByteFunction("RELU", "uint8"),
    ByteFunction("RELU6"),
    ByteFunction("RELU6", "uint8"),
    ByteFunction("RELU_0_TO_1"),
    ByteFunction("RELU_N1_TO_1"),
    ByteFunction("RSQRT", zero_point=-128),
    ByteFunction("SQRT", zero_point=-128),
    ByteFunction("TANH", output=(1 / 128, 0)),
    ByteFunction("TANH", "uint8", output=(1 / 128, 128)),
)
COUNT = PAIRS * len(FUNCTIONS)


def byte_function(number: int) -> Random:
    """The model of a function and a pair, 0 <= number < COUNT. Its one row is all values."""
    return _model(FUNCTIONS[number // PAIRS], [number])


def byte_functions(number: int) -> Random:
    """The model of TOGETHER pairs of a function, 0 <= number < COUNT / TOGETHER: as many inputs and outputs."""
    seeds = range(TOGETHER * number, TOGETHER * (number + 1))
    return _model(FUNCTIONS[seeds[0] // PAIRS], seeds)


def _model(function: ByteFunction, seeds: Sequence[int]) -> Random:
    tensors, operators = [], []
    for at, seed in enumerate(seeds):
        tensors += _tensors(function, Draft(np.random.default_rng(seed)), 2 * at)
        operators.append(FileOperator(function.op, (2 * at,), (2 * at + 1,), function.table, function.options))
    inputs = range(0, len(tensors), 2)
    name = f"{function.op.lower()}_{function.dtype}_{seeds[0]}.tflite"
    values = np.arange(256).astype(np.uint8).view(function.dtype)
    data = tflite_file(tensors, operators, inputs, [i + 1 for i in inputs])
    return Random(Model(name, data), (values[None],) * len(inputs))


def _tensors(function: ByteFunction, draft: Draft, index: int) -> list[FileTensor]:
    """The input and the output of an operator: tensors `index` and the one after it."""
    scale, zero_point = draft.scale(2**-7, 2**-2), draft.zero_point(function.dtype)
    if function.zero_point is not None:
        zero_point = function.zero_point
    target = function.target or function.dtype
    out_scale, out_zero_point = draft.scale(2**-7, 2**-2), draft.zero_point(target)
    if function.output is not None:
        out_scale, out_zero_point = function.output
    elif function.same:
        out_scale, out_zero_point = scale, zero_point
    elif target == "float32":
        out_scale = 0.0
    return [
        FileTensor(f"x{index}", (256,), function.dtype, scale, zero_point=zero_point),
        FileTensor(f"y{index}", (256,), target, out_scale, zero_point=out_zero_point),
    ]
