# SPDX-License-Identifier: Apache-2.0
"""The typed graph that every stage of the compiler passes on: frozen values that print as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DType(Enum):
    """Element types, by their TFLite `TensorType` name; the value is the NumPy name (None: not storable)."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT64 = "float64"
    INT4 = "int4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    STRING = "string"
    RESOURCE = "resource"
    VARIANT = "variant"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of unpacked elements (INT4 unpacks to int8); raises TypeError for unstorable types."""
        return np.dtype("int8" if self is DType.INT4 else self.value)

    @property
    def bytes(self) -> int:
        """Bytes of one unpacked element."""
        return self.numpy.itemsize

    @property
    def is_integer(self) -> bool:
        return "int" in self.value


@dataclass(frozen=True)
class Quantization:
    """Affine quantisation: real = scale * (q - zero_point); one entry, or one for each index along `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @property
    def scale(self) -> float:
        """The per-tensor scale; raises ValueError on a per-channel tensor."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The per-tensor zero point; raises ValueError on a per-channel tensor."""
        (zero_point,) = self.zero_points
        return zero_point


@dataclass(frozen=True)
class Tensor:
    """A value of the graph. `index` is its number in the model file (new tensors continue the count).

    A variable keeps its elements from one run to the next; `initial` holds them after a reset, where the model file
    gives them.
    """

    index: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    quantization: Quantization | None = None
    data: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    is_variable: bool = False
    initial: NDArray[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the tensor's elements, unpacked and without padding."""
        return self.elements * self.dtype.bytes

    @property
    def quant(self) -> Quantization:
        """The quantisation of a tensor that must have one (guaranteed by the operator's constraints)."""
        if self.quantization is None:
            raise ValueError(f"tensor {self.index} '{self.name}' has no quantisation")
        return self.quantization

    @property
    def scale(self) -> float:
        return self.quant.scale

    @property
    def zero_point(self) -> int:
        return self.quant.zero_point

    @property
    def constant(self) -> NDArray[Any]:
        """The elements of a tensor that must be constant (guaranteed by the operator's constraints)."""
        if self.data is None:
            raise ValueError(f"tensor {self.index} '{self.name}' is not constant")
        return self.data

    @property
    def reset_value(self) -> NDArray[Any]:
        """A variable's elements after a reset: `initial`, else the zero point of INT8 and zero of other types.

        Source: TensorFlow Lite Micro, micro_interpreter_graph.cc, ResetVariableTensors.
        """
        if self.initial is not None:
            return self.initial
        zero = self.zero_point if self.dtype is DType.INT8 and self.quantization else 0
        return np.full(self.shape, zero, self.dtype.numpy)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        kind = " const" if self.is_constant else " state" if self.is_variable else ""
        return f"%{self.index} {self.dtype.value}[{shape}]{kind} '{self.name}'"


ABSENT = -1
"""The tensor index that stands for an optional input which is not given."""


@dataclass(frozen=True)
class Operator:
    """One operator. `index` is its number in the model file; `op` its TFLite builtin name (CUSTOM:<code> for custom).

    `attributes` is a frozen dataclass owned by `compiler/ops/<op>.py`, or None.
    """

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Any = None

    def __str__(self) -> str:
        args = ", ".join(f"%{i}" if i != ABSENT else "-" for i in self.inputs)
        return f"#{self.index} {', '.join(f'%{o}' for o in self.outputs)} = {self.op}({args}) {self.attributes or ''}"


@dataclass(frozen=True)
class Graph:
    """A model's main subgraph in execution order. `tensors` maps index to Tensor.

    `input_names` and `output_names` are the names users bind by: the signature's, else the tensors'. `subgraphs` are
    the file's other subgraphs by number; operators of control flow name them. `notes` are sentences that users should
    know about how the model was read.
    """

    name: str
    tensors: Mapping[int, Tensor]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    subgraphs: Mapping[int, Graph] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def tensor(self, index: int) -> Tensor:
        return self.tensors[index]

    def operands(self, operator: Operator) -> tuple[Tensor | None, ...]:
        """The operator's input tensors; None where an optional input is absent."""
        return tuple(None if i == ABSENT else self.tensors[i] for i in operator.inputs)

    def results(self, operator: Operator) -> tuple[Tensor, ...]:
        return tuple(self.tensors[i] for i in operator.outputs)

    def consumers(self, index: int) -> Iterator[Operator]:
        return (op for op in self.operators if index in op.inputs)

    def producer(self, index: int) -> Operator | None:
        return next((op for op in self.operators if index in op.outputs), None)

    def state(self) -> tuple[Tensor, ...]:
        """The variables that operators use, in order of index."""
        used = {i for op in self.operators for i in op.inputs if i != ABSENT and self.tensors[i].is_variable}
        return tuple(self.tensors[i] for i in sorted(used))

    def with_tensors(self, *changed: Tensor) -> Graph:
        """This graph with tensors replaced or added (keyed by their index)."""
        return replace(self, tensors={**self.tensors, **{t.index: t for t in changed}})

    def __str__(self) -> str:
        lines = [f"graph {self.name}"]
        lines += [f"  in  {self.tensors[i]}" for i in self.inputs]
        lines += [f"  {op}" for op in self.operators]
        lines += [f"  out {self.tensors[i]}" for i in self.outputs]
        return "\n".join(lines)
