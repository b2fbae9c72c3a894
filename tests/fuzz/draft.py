# SPDX-License-Identifier: Apache-2.0
"""A random model while it is made: tensors, operators, and the dice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.tflite_files import FileOperator, FileTensor, tflite_file

LARGEST = 2048
"""Elements of a tensor."""
INTEGERS = ("int8", "int16", "uint8")


@dataclass
class Draft:
    """`frontier` holds the tensors that further operators may read, which are no scalars; `inputs` those of the
    model."""

    random: np.random.Generator
    tensors: list[FileTensor] = field(default_factory=list)
    operators: list[FileOperator] = field(default_factory=list)
    frontier: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    # -- dice -----------------------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        """low <= value <= high."""
        return int(self.random.integers(low, high + 1))

    def choice(self, *options: Any) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def scale(self, low: float = 1e-3, high: float = 0.2) -> float:
        """Evenly on a logarithmic axis, as float32."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def zero_point(self, dtype: str) -> int:
        if dtype not in ("int8", "uint8"):
            return 0
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        return int(self.choice(low, high, self.integer(low, high), (low + high) // 2))

    # -- tensors --------------------------------------------------------------------------------------------------

    def add(self, shape: Sequence[int], dtype: str, like: FileTensor | None = None, scale: float = 0.0) -> int:
        """A tensor that an operator computes. It has the quantisation of `like`, or one by chance around `scale`."""
        index = len(self.tensors)
        if like is not None:
            made = FileTensor(f"t{index}", tuple(shape), dtype, like.scale, zero_point=like.zero_point)
        elif dtype in INTEGERS:
            scale = float(np.float32(scale * self.scale(0.3, 2.0))) if scale else self.scale()
            made = FileTensor(f"t{index}", tuple(shape), dtype, scale, zero_point=self.zero_point(dtype))
        else:
            made = FileTensor(f"t{index}", tuple(shape), dtype)
        self.tensors.append(made)
        return index

    def constant(
        self,
        data: NDArray[Any] | np.generic,
        scale: float = 0.0,
        scales: tuple[float, ...] = (),
        axis: int = 0,
        zero_point: int = 0,
        dtype: str = "",
    ) -> int:
        data = np.asarray(data)
        made = FileTensor(f"t{len(self.tensors)}", data.shape, dtype or str(data.dtype), scale, data)
        self.tensors.append(replace(made, scales=scales, axis=axis, zero_point=zero_point))
        return len(self.tensors) - 1

    def variable(self, shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> int:
        """State that survives between runs."""
        made = FileTensor(f"t{len(self.tensors)}", tuple(shape), dtype, scale, zero_point=zero_point, is_variable=True)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def ints(self, *values: int) -> int:
        return self.constant(np.array(values, np.int32))

    def values(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """Elements over the whole range of the type; floats around 0."""
        if dtype == "float32":
            return self.random.normal(0, 1, shape).astype(np.float32)
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        info = np.iinfo(dtype) if dtype in INTEGERS else np.iinfo(np.int8)
        return self.random.integers(info.min, info.max + 1, shape).astype(dtype)

    # -- operators ------------------------------------------------------------------------------------------------

    def operator(self, op: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "", **options: Any) -> bool:
        """Adds an operator; -1 stands for an absent input. A bias that is absent may be left out."""
        shortened = inputs[-1] < 0 and len(inputs) <= 4 and self.chance(0.5)
        given = inputs[:-1] if shortened else inputs
        self.operators.append(FileOperator(op, tuple(given), tuple(outputs), table, options))
        self.frontier += [i for i in outputs if self.tensors[i].shape]
        return True

    def finish(self, more: Sequence[int] = ()) -> bytes:
        """The file. What no operator reads is an output, and `more`."""
        read = {i for operator in self.operators for i in operator.inputs}
        outputs = [i for operator in self.operators for i in operator.outputs if i not in read]
        return tflite_file(self.tensors, self.operators, self.inputs, list(dict.fromkeys([*outputs, *more])))


Step = Callable[[Draft, int, FileTensor], bool]
"""Adds an operator that reads tensor `index`; False where it does not fit."""
Steps = Mapping[str, Step]


def clamp(draft: Draft) -> int:
    """A fused activation that is a clamp: ActivationFunctionType."""
    return int(draft.choice(0, 0, 1, 2, 3))


def extent(size: int, kernel: int, stride: int, dilation: int, same: bool) -> int:
    """Outputs of a window along an axis; 0 where there is none."""
    if same:
        return -(-size // stride)
    return max(0, -(-(size - (kernel - 1) * dilation) // stride))
