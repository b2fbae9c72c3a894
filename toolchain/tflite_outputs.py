# SPDX-License-Identifier: Apache-2.0
"""A TFLite file with other outputs: how any runtime is made to show its intermediate tensors."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import tflite

SUBGRAPHS, OUTPUTS = 2, 2
"""The field numbers of Model.subgraphs and SubGraph.outputs in schema.fbs."""


def with_outputs(model: bytes, tensors: Sequence[int]) -> bytes:
    """The file with these tensors as outputs of its first subgraph. Its signatures name outputs that may be gone; the
    bytes of the file stay where they are, so that buffers outside the FlatBuffer are found."""
    table = tflite.Model.GetRootAs(model, 0).Subgraphs(0)._tab
    field = table.Offset(4 + 2 * OUTPUTS)
    if not field:
        raise ValueError("the model has no outputs")
    at = table.Pos + field
    changed = bytearray(model)
    changed += bytes(-len(changed) % 4)
    struct.pack_into("<I", changed, at, len(changed) - at)
    changed += struct.pack(f"<I{len(tensors)}i", len(tensors), *tensors)
    return bytes(changed)


def tensor_count(model: bytes) -> int:
    """The number of tensors in the first subgraph: passes number theirs from there on."""
    return int(tflite.Model.GetRootAs(model, 0).Subgraphs(0).TensorsLength())


def file_outputs(model: bytes) -> list[int]:
    """The tensors that the file has as outputs of its first subgraph."""
    graph = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    return [int(graph.Outputs(i)) for i in range(graph.OutputsLength())]
