# SPDX-License-Identifier: Apache-2.0
"""SELECT and SELECT_V2: the second input where the first is true, else the third. SELECT_V2 broadcasts.

Source: TensorFlow Lite, kernels/select.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.builder import Function, Value
from compiler.graph import DType
from compiler.isa import Isa
from compiler.ops.constraints import dtypes
from compiler.ops.definition import OperatorView
from compiler.ops.elementwise import computed, definition, one_quantization


def _select(f: Function, isa: Isa, operands: Sequence[Value], parameters: Sequence[Value]) -> Value:
    condition, yes, no = operands
    return f.select(f.compare("!=", condition, 0), yes, no)


def one_shape(view: OperatorView) -> str | None:
    """All inputs have the output's shape; the condition may be one element."""
    output = view.output().shape
    shapes = [view.input(i).shape for i in range(3)]
    if shapes[1] == shapes[2] == output and (shapes[0] == output or view.input(0).elements == 1):
        return None
    return f"{', '.join(str(list(shape)) for shape in shapes)} to {list(output)}"


TYPES = (
    DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL, DType.FLOAT32,
)  # fmt: skip
KINDS = dict.fromkeys(TYPES, computed("select", _select, lanes=4))
COMMON = (dtypes(0, DType.BOOL), one_quantization(1))
DEFINITIONS = (
    definition("SELECT", KINDS, *COMMON, one_shape, inputs=3, typed_by=1),
    definition("SELECT_V2", KINDS, *COMMON, inputs=3, typed_by=1),
)
