# SPDX-License-Identifier: Apache-2.0
"""TFLite files made by hand, for tests that need a model which no converter would write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

FIRST_VERSIONS = {"BROADCAST_TO": 2}
"""The oldest versions of operators that LiteRT has kernels for, where not 1."""
TYPES = {"float32": 0, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "int16": 7, "int8": 9, "int4": 17}


@dataclass(frozen=True)
class FileTensor:
    """A tensor as the file describes it. `scale` above zero quantises it (`scales`: one for each index along `axis`);
    `data` makes it constant (int4: int8 elements, which are stored in halves of bytes); `signature` is its shape with
    -1 for unknown sizes. `external` data lies behind the flatbuffer; `sparse` says that it leaves zeros out."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float = 0.0
    data: NDArray[Any] | None = None
    signature: tuple[int, ...] = ()
    is_variable: bool = False
    zero_point: int = 0
    scales: tuple[float, ...] = ()
    axis: int = 0
    external: bool = False
    sparse: bool = False


@dataclass(frozen=True)
class FileSignature:
    """A signature of a subgraph: names of its inputs and outputs by tensor number."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True)
class FileOperator:
    """An operator: the name of a builtin, or another word for a custom one. `options` are the fields of its option
    table, which is called `table`; lists of int32 are given as tuples. `intermediates` are tensors that carry nothing
    but their quantisation."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class FileSubgraph:
    """What an operator such as WHILE or IF runs."""

    tensors: Sequence[FileTensor]
    operators: Sequence[FileOperator]
    inputs: Sequence[int]
    outputs: Sequence[int]


def tflite_file(
    tensors: Sequence[FileTensor],
    operators: Sequence[FileOperator],
    inputs: Sequence[int],
    outputs: Sequence[int],
    signatures: Sequence[FileSignature] = (),
    further: Sequence[FileSubgraph] = (),
) -> bytes:
    """The bytes of a model whose first subgraph this is; `further` ones count from 1. Buffer 0 is the empty one;
    constants have one each."""
    subgraphs = (FileSubgraph(tensors, operators, inputs, outputs), *further)
    # Where external data lies is known when the flatbuffer is complete: its size depends on nothing but itself.
    size = len(_flatbuffer(subgraphs, signatures, 1 << 40))
    held = (t for subgraph in subgraphs for t in subgraph.tensors)
    external = b"".join(_stored(t.data, t.dtype) for t in held if t.external and t.data is not None)
    return _flatbuffer(subgraphs, signatures, size) + external


def _flatbuffer(subgraphs: Sequence[FileSubgraph], signatures: Sequence[FileSignature], end: int) -> bytes:
    """The flatbuffer; external data begins at byte `end` of the file."""
    builder = flatbuffers.Builder(1024)
    buffers = [_table(builder, "Buffer")]
    for tensor in (t for subgraph in subgraphs for t in subgraph.tensors):
        if tensor.data is None:
            continue
        data = _stored(tensor.data, tensor.dtype)
        if tensor.external:
            buffers.append(_table(builder, "Buffer", Offset=end, Size=len(data)))
            end += len(data)
        else:
            buffers.append(_table(builder, "Buffer", Data=builder.CreateByteVector(data)))
    numbers = iter(range(1, len(buffers)))
    names = sorted({o.op for subgraph in subgraphs for o in subgraph.operators})
    tables = [_subgraph(builder, subgraph, names, numbers) for subgraph in subgraphs]
    model = _table(
        builder,
        "Model",
        OperatorCodes=_tables(builder, [_code(builder, name) for name in names]),
        Subgraphs=_tables(builder, tables),
        Buffers=_tables(builder, buffers),
        SignatureDefs=_tables(builder, [_signature(builder, s) for s in signatures]),
        Version=3,
    )
    builder.Finish(model, b"TFL3")
    return bytes(builder.Output())


def _subgraph(builder: Any, subgraph: FileSubgraph, names: Sequence[str], buffers: Iterator[int]) -> int:
    """`names` are the operators of the model; `buffers` numbers the constants."""
    tables = [_tensor(builder, t, next(buffers) if t.data is not None else 0) for t in subgraph.tensors]
    steps = [
        _table(
            builder,
            "Operator",
            Inputs=_ints(builder, o.inputs),
            Outputs=_ints(builder, o.outputs),
            OpcodeIndex=names.index(o.op),
            **_options(builder, o),
            **({"Intermediates": _ints(builder, o.intermediates)} if o.intermediates else {}),
        )
        for o in subgraph.operators
    ]
    return _table(
        builder,
        "SubGraph",
        Tensors=_tables(builder, tables),
        Operators=_tables(builder, steps),
        Inputs=_ints(builder, subgraph.inputs),
        Outputs=_ints(builder, subgraph.outputs),
    )


def fully_connected(inputs: int, outputs: int) -> bytes:
    """A model of one int8 layer: its constants take inputs * outputs bytes, its arena inputs + outputs."""
    weights = np.random.default_rng(0).integers(-127, 128, (outputs, inputs), np.int8)
    tensors = [
        FileTensor("x", (1, inputs), scale=0.5),
        FileTensor("weights", (outputs, inputs), scale=0.25, data=weights),
        FileTensor("y", (1, outputs), scale=0.5),
    ]
    return tflite_file(tensors, [FileOperator("FULLY_CONNECTED", (0, 1), (2,))], (0,), (2,))


def _tensor(builder: Any, tensor: FileTensor, buffer: int) -> int:
    fields: dict[str, int] = {
        "Name": builder.CreateString(tensor.name),
        "Shape": _ints(builder, tensor.shape),
        "Type": TYPES[tensor.dtype],
        "Buffer": buffer,
        "IsVariable": tensor.is_variable,
    }
    if tensor.signature:
        fields["ShapeSignature"] = _ints(builder, tensor.signature)
    if tensor.sparse:
        fields["Sparsity"] = _table(builder, "SparsityParameters")
    scales = tensor.scales or ((tensor.scale,) if tensor.scale else ())
    if scales:
        scale = builder.CreateNumpyVector(np.array(scales, np.float32))
        zero_point = builder.CreateNumpyVector(np.full(len(scales), tensor.zero_point, np.int64))
        fields["Quantization"] = _table(
            builder, "QuantizationParameters", Scale=scale, ZeroPoint=zero_point, QuantizedDimension=tensor.axis
        )
    return _table(builder, "Tensor", **fields)


def _stored(data: NDArray[Any], dtype: str) -> bytes:
    if dtype != "int4":
        return np.ascontiguousarray(data).tobytes()
    halves = np.append(data.reshape(-1), np.zeros(data.size % 2, np.int8)).view(np.uint8) & 15
    return bytes(halves[::2] | halves[1::2] << 4)


def _signature(builder: Any, signature: FileSignature) -> int:
    def maps(names: Mapping[str, int]) -> int:
        tables = [
            _table(builder, "TensorMap", Name=builder.CreateString(name), TensorIndex=index)
            for name, index in names.items()
        ]
        return _tables(builder, tables)

    key = builder.CreateString(signature.key)
    inputs, outputs = maps(signature.inputs), maps(signature.outputs)
    return _table(
        builder, "SignatureDef", SignatureKey=key, SubgraphIndex=signature.subgraph, Inputs=inputs, Outputs=outputs
    )


def _options(builder: Any, operator: FileOperator) -> dict[str, int]:
    if not operator.table:
        return {}
    fields = {k: _ints(builder, v) if isinstance(v, tuple) else v for k, v in operator.options.items()}
    held = _table(builder, operator.table, **fields)
    return {"BuiltinOptionsType": getattr(tflite.BuiltinOptions, operator.table), "BuiltinOptions": held}


def _code(builder: Any, name: str) -> int:
    number = getattr(tflite.BuiltinOperator, name, None)
    if number is None:
        custom = builder.CreateString(name)
        return _table(builder, "OperatorCode", BuiltinCode=tflite.BuiltinOperator.CUSTOM, CustomCode=custom)
    return _table(builder, "OperatorCode", BuiltinCode=number, Version=FIRST_VERSIONS.get(name, 1))


def _table(builder: Any, name: str, **fields: Any) -> int:
    _call(f"{name}Start")(builder)
    for key, value in fields.items():
        _call(f"{name}Add{key}")(builder, value)
    return int(_call(f"{name}End")(builder))


def _call(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(tflite, name)
    return function


def _ints(builder: Any, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _tables(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
