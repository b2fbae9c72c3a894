# SPDX-License-Identifier: Apache-2.0
"""A small stateful graph: a window of the last rows, as streaming models keep it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.ops.strided_slice import StridedSliceAttributes

ROW, KEPT = 5, 3
FIRST = np.arange(1, KEPT * ROW + 1, dtype=np.int8).reshape(1, KEPT, ROW)


def window_graph() -> Graph:
    """x [1, 1, ROW] and the last KEPT rows give [1, KEPT + 1, ROW]; the rows are FIRST after a reset."""
    quantization = Quantization((0.5,), (0,))

    def activation(index: int, rows: int, name: str) -> Tensor:
        return Tensor(index, name, DType.INT8, (1, rows, ROW), quantization)

    def numbers(index: int, *values: int) -> Tensor:
        return Tensor(index, f"n{index}", DType.INT32, (3,), None, np.array(values, np.int32))

    state = Tensor(1, "rows", DType.INT8, (1, KEPT, ROW), quantization, None, True, FIRST)
    tensors = [
        activation(0, 1, "x"), state, activation(2, KEPT + 1, "window"), activation(3, KEPT, "next"),
        numbers(4, 0, 1, 0), numbers(5, 1, KEPT + 1, ROW), numbers(6, 1, 1, 1),
    ]  # fmt: skip
    operators = (
        Operator(0, "CONCATENATION", (1, 0), (2,), ConcatenationAttributes(1)),
        Operator(1, "STRIDED_SLICE", (2, 4, 5, 6), (3,), StridedSliceAttributes()),
        Operator(2, "ASSIGN_VARIABLE", (1, 3), ()),
    )
    return Graph("window", {t.index: t for t in tensors}, operators, (0,), (2,))


def expected_windows(rows: NDArray[np.int8]) -> list[NDArray[np.int8]]:
    """The outputs for consecutive inputs [n, ROW] after a reset."""
    history = np.concatenate([FIRST[0], rows])
    return [history[i : i + KEPT + 1][None] for i in range(len(rows))]
