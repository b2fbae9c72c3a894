# SPDX-License-Identifier: Apache-2.0
"""GELU: x * (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh. int8 by a table.

Source: TensorFlow Lite, kernels/gelu.cc, kernels/internal/reference/gelu.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.floats.errors import erf
from compiler.kernels.floats.functions import tanh
from compiler.ops.definition import Array, OperatorView
from compiler.ops.elementwise import Kind, computed, definition
from compiler.ops.tables import looked_up

CUBIC = 0.044715


@dataclass(frozen=True)
class GeluAttributes:
    """Options of GELU: `approximate` chooses tanh."""

    approximate: bool = False


def parse(options: Any) -> GeluAttributes:
    return GeluAttributes() if options is None else GeluAttributes(bool(options.Approximate()))


def _real(view: OperatorView, x: float) -> float:
    if view.attributes.approximate:
        inner = math.sqrt(2 / math.pi) * (x + CUBIC * x**3)
        return 0.5 * x * (1 + float(np.float32(math.tanh(inner))))
    return 0.5 * x * (1 + float(np.float32(math.erf(x * math.sqrt(0.5)))))


def _exact(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    (x,) = operands
    return _gated(f, x, erf(f, isa, f.fmul(x, f.float(_single(math.sqrt(0.5))))))


def _approximate(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    (x,) = operands
    cube = f.fmul(f.fmul(x, f.fmul(x, x)), f.float(_single(CUBIC)))
    return _gated(f, x, tanh(f, isa, f.fmul(f.fadd(x, cube), f.float(_single(math.sqrt(2 / math.pi))))))


def _gated(f: Function, x: Value, gate: Value) -> Value:
    return f.fmul(f.fmul(x, f.float(0.5)), f.fadd(f.float(1.0), gate))


def _single(value: float) -> float:
    return float(np.float32(value))


def _float() -> Kind:
    kinds = {False: computed("gelu", _exact), True: computed("gelu_tanh", _approximate)}

    def values(view: OperatorView, inputs: Sequence[Array]) -> Array:
        return kinds[view.attributes.approximate].values(view, inputs)

    return Kind(values, lambda view, isa: kinds[view.attributes.approximate].lower(view, isa))


DEFINITIONS = (definition("GELU", {**looked_up(_real, DType.INT8), DType.FLOAT32: _float()}, parse=parse),)
