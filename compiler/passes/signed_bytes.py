# SPDX-License-Identifier: Apache-2.0
"""Legacy uint8 operators become int8 ones where the values are the same but for a shift by 128.

Quantised arithmetic sees q - zero point alone, so q - 128 with zero point - 128 gives the same reals; the kernels of
int8 serve. Between operators that stay uint8 and those that change, a QUANTIZE converts (inverts the upper bit).

Some things of legacy layers differ from int8 ones, and are kept in the attribute `from_uint8`: how scales are
multiplied and sums rounded, and that average pools round ties up. The filters of convolutions become q - zero point,
INT8 or (as these differences have 9 bits) INT16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from compiler.graph import ABSENT, DType, Graph, Operator, Quantization, Tensor
from compiler.support import unsupported

SHIFT = 128
_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_MARKED = (*_LAYERS, "AVERAGE_POOL_2D", "FULLY_CONNECTED")
EXACT = (
    *_MARKED, "ADD", "ARG_MAX", "ARG_MIN", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DEQUANTIZE", "EQUAL", "EXPAND_DIMS", "GATHER", "GATHER_ND", "GREATER", "GREATER_EQUAL",
    "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MINIMUM", "MIRROR_PAD", "MUL",
    "NOT_EQUAL", "PACK", "PAD", "PADV2", "PRELU", "QUANTIZE", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6",
    "RELU_N1_TO_1", "RESHAPE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SLICE", "SOFTMAX", "SPACE_TO_BATCH_ND",
    "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "SUB", "TILE", "TRANSPOSE", "UNPACK",
)  # fmt: skip
"""Operators whose reference for uint8 is the one for int8 but for the shift (and the marked differences)."""


def signed_bytes(graph: Graph) -> Graph:
    """Converts each uint8 operator that is supported as an int8 one only, and those between two such operators."""
    return _Conversion(graph).run()


class _Conversion:
    """The graph while it is converted. `twins` maps a uint8 tensor to its int8 form, `known` holds the tensors that
    exist in their own form."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.tensors = graph, dict(graph.tensors)
        self.operators: list[Operator] = []
        self.twins: dict[int, int] = {}
        self.known = set(graph.inputs)
        self.wanted = self._wanted()

    def run(self) -> Graph:
        for position, operator in enumerate(self.graph.operators):
            follows = operator.inputs and operator.inputs[0] in self.twins
            if position in self.wanted or (follows and self._convertible(operator)):
                self._convert(operator)
            else:
                self._keep(operator)
        for index in self.graph.outputs:
            self._restore(index)
        return replace(self.graph, tensors=self.tensors, operators=tuple(self.operators))

    def _wanted(self) -> set[int]:
        """Positions of the operators that compile as int8 alone, and of those that could do either whose bytes such an
        operator reads."""
        wanted: set[int] = set()
        read: set[int] = set()
        for position, operator in reversed(list(enumerate(self.graph.operators))):
            alone = unsupported(self.graph, operator) is not None
            if (alone or read & set(operator.outputs)) and self._convertible(operator):
                wanted.add(position)
                read |= {i for i in operator.inputs if self._is_byte(i)}
        return wanted

    def _convertible(self, operator: Operator) -> bool:
        """True where the operator has uint8 tensors, all quantised, and is supported in its int8 form."""
        if operator.op not in EXACT:
            return False
        bytes_ = [t for t in self._operands(operator) if t.dtype is DType.UINT8]
        if not bytes_ or not all(_is_quantized(t) and not t.is_variable for t in bytes_):
            return False
        trial = self.graph.with_tensors(*(_signed(t, t.index) for t in bytes_))
        if operator.op in _LAYERS:
            trial = trial.with_tensors(_filter(self.graph.tensor(operator.inputs[1]), operator.inputs[1]))
        return unsupported(trial, _marked(operator)) is None

    def _operands(self, operator: Operator) -> Iterator[Tensor]:
        return (self.graph.tensor(i) for i in (*operator.inputs, *operator.outputs) if i != ABSENT)

    def _convert(self, operator: Operator) -> None:
        filters = {operator.inputs[1]} if operator.op in _LAYERS else set()
        inputs = tuple(self._filter(i) if i in filters else self._twin(i, operator) for i in operator.inputs)
        outputs = tuple(self._new_twin(i) if self._is_byte(i) else i for i in operator.outputs)
        self.known |= {o for o in outputs if not self._is_byte(o)}
        self.operators.append(_marked(replace(operator, inputs=inputs, outputs=outputs)))

    def _keep(self, operator: Operator) -> None:
        for index in operator.inputs:
            self._restore(index)
        self.known |= set(operator.outputs)
        self.operators.append(operator)

    def _is_byte(self, index: int) -> bool:
        return index != ABSENT and self.tensors[index].dtype is DType.UINT8

    def _twin(self, index: int, reader: Operator) -> int:
        """The int8 form of an operand; converted here where it exists as uint8 only."""
        if not self._is_byte(index):
            return index
        if index not in self.twins:
            twin = self._new_twin(index)
            if not self.tensors[index].is_constant:
                self.operators.append(Operator(reader.index, "QUANTIZE", (index,), (twin,)))
        return self.twins[index]

    def _new_twin(self, index: int) -> int:
        self.twins[index] = self._added(_signed(self.tensors[index], max(self.tensors) + 1))
        return self.twins[index]

    def _filter(self, index: int) -> int:
        return self._added(_filter(self.tensors[index], max(self.tensors) + 1))

    def _added(self, tensor: Tensor) -> int:
        self.tensors[tensor.index] = tensor
        return tensor.index

    def _restore(self, index: int) -> None:
        """Makes the uint8 form of a tensor that so far exists as int8 only."""
        if index in self.twins and index not in self.known and not self.tensors[index].is_constant:
            self.operators.append(Operator(self.operators[-1].index, "QUANTIZE", (self.twins[index],), (index,)))
            self.known.add(index)


def _is_quantized(tensor: Tensor) -> bool:
    quantization = tensor.quantization
    if quantization is None or not len(quantization.scales) == len(quantization.zero_points) == 1:
        return False
    return 0 <= quantization.zero_point < 2 * SHIFT


def _signed(tensor: Tensor, index: int) -> Tensor:
    """The int8 form of a uint8 tensor, as tensor `index`."""
    quantization = Quantization(tensor.quant.scales, (tensor.zero_point - SHIFT,), tensor.quant.axis)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) - SHIFT).astype(np.int8)
    return replace(
        tensor, index=index, name=f"{tensor.name} (int8)", dtype=DType.INT8, quantization=quantization, data=data
    )


def _filter(tensor: Tensor, index: int) -> Tensor:
    """A constant filter less its zero point, as tensor `index`. A filter that is not constant stays as it is."""
    if tensor.data is None:
        return tensor
    values = tensor.data.astype(np.int16) - tensor.zero_point
    small = bool((np.abs(values + 0.5) < SHIFT).all())
    dtype = DType.INT8 if small else DType.INT16
    quantization = Quantization(tensor.quant.scales, (0,), tensor.quant.axis)
    return replace(
        tensor,
        index=index,
        name=f"{tensor.name} (less its zero point)",
        dtype=dtype,
        quantization=quantization,
        data=values.astype(dtype.numpy),
    )


def _marked(operator: Operator) -> Operator:
    if operator.op not in _MARKED:
        return operator
    return replace(operator, attributes=replace(operator.attributes, from_uint8=True))
