# SPDX-License-Identifier: Apache-2.0
"""TFLite flatbuffers to a Graph.

Source: tensorflow/compiler/mlir/lite/schema/schema.fbs, read with the generated accessors of the `tflite` package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flatbuffers.number_types
import numpy as np
import tflite
from numpy.typing import NDArray

from compiler.errors import UserError
from compiler.frontends.sizes import check_ends, check_sizes, size_note
from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.ops import operators

IDENTIFIER = b"TFL3"
_TYPES = {number: name for name, number in vars(tflite.TensorType).items() if not name.startswith("_")}
_BUILTINS = {number: name for name, number in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
_OPTIONS = {number: name for name, number in vars(tflite.BuiltinOptions).items() if not name.startswith("_")}
_OPTIONS_2 = {number: name for name, number in vars(tflite.BuiltinOptions2).items() if not name.startswith("_")}
_BUILTIN_CODE_SLOT = 10
"""Vtable offset of OperatorCode.builtin_code, the fourth field."""
_MALFORMED = (struct.error, IndexError, ValueError, TypeError, KeyError, OverflowError, AttributeError, MemoryError)


def read_tflite(data: bytes, name: str) -> Graph:
    """Reads a model: its first subgraph, with the others in `Graph.subgraphs`. `name` is what messages call the file.

    Shapes are taken as stored: an unknown size (-1 in the shape signature) is stored as 1. Raises UserError where
    the bytes are no TFLite model, are damaged, use a storage form that is not supported (sparse tensors), or have
    signatures of several subgraphs.
    """
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise UserError(
            "this is not a TFLite model",
            where=name,
            got=f"{len(data)} bytes" + (f" that start with {data[:8].hex(' ')}" if data else ", an empty file"),
            allowed=f"a flatbuffer whose bytes 4 to 7 are '{IDENTIFIER.decode()}'",
            hint="export the model with the TensorFlow Lite converter, and copy it in binary mode",
        )
    try:
        return _Reader(data, name).graph()
    except UserError:
        raise
    except _MALFORMED as error:
        raise _damaged(name, f"{type(error).__name__}: {error}") from error


def _damaged(name: str, got: str) -> UserError:
    return UserError(
        "this TFLite model is damaged or cut short",
        where=name,
        got=got,
        allowed="a complete TFLite flatbuffer",
        hint="copy or export the model again and compare its size and checksum",
    )


class _Reader:
    """One model file while it is read."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.model = tflite.Model.GetRootAs(data, 0)
        if self.model.SubgraphsLength() < 1:
            raise _damaged(name, "no subgraph")

    def graph(self) -> Graph:
        self._refuse_other_signatures()
        others = {number: self._subgraph(number) for number in range(1, self.model.SubgraphsLength())}
        main = self._subgraph(0)
        check_ends(self.name, *([main.tensor(i) for i in ends] for ends in (main.inputs, main.outputs)))
        return replace(main, subgraphs=others, notes=tuple(self._size_notes(main)))

    def _size_notes(self, main: Graph) -> Iterator[str]:
        for index in main.inputs:
            table = self.model.Subgraphs(0).Tensors(index)
            signature = [int(table.ShapeSignature(i)) for i in range(table.ShapeSignatureLength())]
            note = size_note(main.tensor(index), signature)
            if note is not None:
                yield note

    def _subgraph(self, number: int) -> Graph:
        table = self.model.Subgraphs(number)
        count = table.TensorsLength()
        tensors = {index: self._tensor(table.Tensors(index), index) for index in range(count)}
        operators = tuple(self._operator(table.Operators(index), index) for index in range(table.OperatorsLength()))
        inputs = tuple(table.Inputs(i) for i in range(table.InputsLength()))
        outputs = tuple(table.Outputs(i) for i in range(table.OutputsLength()))
        used = {i for op in operators for i in (*op.inputs, *op.outputs)} | set(inputs) | set(outputs)
        if used and not (min(used) >= -1 and max(used) < count and min((*inputs, *outputs), default=0) >= 0):
            raise _damaged(self.name, f"tensor numbers from {min(used)} to {max(used)} where there are {count} tensors")
        check_sizes(self.name, [t for i, t in tensors.items() if i in used])
        names_in, names_out = self._signature_names(number)
        return Graph(
            self.name,
            tensors,
            operators,
            inputs,
            outputs,
            tuple(names_in.get(i, tensors[i].name) for i in inputs),
            tuple(names_out.get(i, tensors[i].name) for i in outputs),
        )

    def _tensor(self, table: Any, index: int) -> Tensor:
        name = _text(table.Name())
        dtype = DType[_TYPES[table.Type()]]
        shape = tuple(int(table.Shape(i)) for i in range(table.ShapeLength()))
        if table.Sparsity() is not None:
            raise UserError(
                "sparse constants are not supported",
                where=f"{self.name}, tensor {index} '{name}'",
                hint="convert the model without the sparsity optimisation, or densify it",
            )
        raw = self._buffer(table.Buffer())
        if raw is not None and table.IsVariable():
            raise UserError(
                "variables with stored values are not supported",
                where=f"{self.name}, tensor {index} '{name}'",
                hint="TensorFlow Lite refuses them too: initialise the variable by a subgraph",
            )
        return Tensor(
            index,
            name,
            dtype,
            shape,
            _quantization(table.Quantization()),
            None if raw is None else self._elements(raw, dtype, shape, f"tensor {index} '{name}'"),
            bool(table.IsVariable()),
        )

    def _buffer(self, number: int) -> NDArray[np.uint8] | None:
        """The bytes of a buffer, stored in the flatbuffer or behind it; None for an empty one."""
        if not 0 <= number < self.model.BuffersLength():
            raise _damaged(self.name, f"buffer {number} of {self.model.BuffersLength()}")
        buffer = self.model.Buffers(number)
        if buffer.Offset() > 1:
            end = buffer.Offset() + buffer.Size()
            if end > len(self.data):
                raise _damaged(self.name, f"buffer {number} ends at byte {end} of {len(self.data)}")
            return np.frombuffer(self.data, np.uint8, buffer.Size(), buffer.Offset())
        return None if buffer.DataLength() == 0 else np.asarray(buffer.DataAsNumpy(), np.uint8)

    def _elements(self, raw: NDArray[np.uint8], dtype: DType, shape: tuple[int, ...], where: str) -> NDArray[Any]:
        """Typed elements of a constant; 4-bit elements are unpacked to int8 (low nibble first)."""
        if dtype in (DType.STRING, DType.RESOURCE, DType.VARIANT, DType.BFLOAT16):
            return raw
        count = int(np.prod(shape, dtype=np.int64))
        needed = -(-count // 2) if dtype is DType.INT4 else count * dtype.bytes
        if count < 0 or raw.size < needed:
            raise _damaged(self.name, f"{where} has {raw.size} bytes where its shape {list(shape)} needs {needed}")
        if dtype is DType.INT4:
            nibbles = np.stack([raw << 4, raw & 0xF0], axis=-1).reshape(-1).astype(np.uint8).view(np.int8) >> 4
            return nibbles[:count].reshape(shape)
        return raw[:needed].view(dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape)

    def _operator(self, table: Any, index: int) -> Operator:
        if not 0 <= table.OpcodeIndex() < self.model.OperatorCodesLength():
            raise _damaged(self.name, f"operator {index} has code {table.OpcodeIndex()}")
        code = self.model.OperatorCodes(table.OpcodeIndex())
        number = builtin_number(code)
        op = _BUILTINS.get(number, f"BUILTIN:{number}")
        if op == "CUSTOM":
            op = f"CUSTOM:{_text(code.CustomCode())}"
        known = operators().get(op)
        return Operator(
            index,
            op,
            tuple(int(table.Inputs(i)) for i in range(table.InputsLength())),
            tuple(int(table.Outputs(i)) for i in range(table.OutputsLength())),
            known.parse(_options(table)) if known else None,
        )

    def _refuse_other_signatures(self) -> None:
        signatures = [self.model.SignatureDefs(i) for i in range(self.model.SignatureDefsLength())]
        if any(signature.SubgraphIndex() != 0 for signature in signatures):
            named = ", ".join(f"'{_text(s.SignatureKey())}' (subgraph {s.SubgraphIndex()})" for s in signatures)
            raise UserError(
                "this model has signatures of other subgraphs than the first",
                where=self.name,
                got=named,
                allowed="signatures of the first subgraph",
                hint="convert the model with the one signature that the firmware shall run",
            )

    def _signature_names(self, number: int) -> tuple[dict[int, str], dict[int, str]]:
        """Tensor index to the name that the first signature of a subgraph gives it, for inputs and for outputs."""
        for i in range(self.model.SignatureDefsLength()):
            signature = self.model.SignatureDefs(i)
            if signature.SubgraphIndex() == number:
                maps = [signature.Inputs(j) for j in range(signature.InputsLength())]
                outs = [signature.Outputs(j) for j in range(signature.OutputsLength())]
                return (
                    {m.TensorIndex(): _text(m.Name()) for m in maps},
                    {m.TensorIndex(): _text(m.Name()) for m in outs},
                )
        return {}, {}


def builtin_number(code: Any) -> int:
    """The builtin that an operator code stands for: the larger of the field `builtin_code` and the older one, as TFLite
    takes it (schema_utils.cc). The accessor of that name answers with the older field for numbers below 127."""
    offset = code._tab.Offset(_BUILTIN_CODE_SLOT)
    newer = code._tab.Get(flatbuffers.number_types.Int32Flags, offset + code._tab.Pos) if offset else 0
    return max(int(newer), int(code.DeprecatedBuiltinCode()))


def _options(table: Any) -> Any:
    """The operator's option table with its own accessors; None where the file has none."""
    for union, kind, names in (
        (table.BuiltinOptions(), table.BuiltinOptionsType(), _OPTIONS),
        (table.BuiltinOptions2(), table.BuiltinOptions2Type(), _OPTIONS_2),
    ):
        if union is not None and kind:
            options = getattr(tflite, names[kind])()
            options.Init(union.Bytes, union.Pos)
            return options
    return None


def _quantization(table: Any) -> Quantization | None:
    if table is None or table.ScaleLength() == 0:
        return None
    # Scales are float32 in the file; TFLite computes with them in double.
    scales = tuple(float(table.Scale(i)) for i in range(table.ScaleLength()))
    zero_points = tuple(int(table.ZeroPoint(i)) for i in range(table.ZeroPointLength())) or (0,) * len(scales)
    return Quantization(scales, zero_points, table.QuantizedDimension())


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")
