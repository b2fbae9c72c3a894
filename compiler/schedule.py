# SPDX-License-Identifier: Apache-2.0
"""The schedule: a graph becomes an ordered list of dispatches over buffers, with lifetimes for the arena planner."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arena import Buffer
from compiler.errors import UserError
from compiler.graph import ABSENT, Graph, Operator
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.ops import operators
from compiler.ops.definition import OperatorView


@dataclass(frozen=True)
class Region:
    """Where a tensor is: from byte `offset` of a buffer on."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Dispatch:
    """One operator as it runs. `reads`/`writes` give the region of each operand position (None: constant, absent)."""

    index: int
    operator: Operator
    lowered: Lowered
    reads: tuple[Region | None, ...]
    writes: tuple[Region, ...]


@dataclass(frozen=True)
class Schedule:
    """Dispatches in order. `region_of` maps a tensor index to its memory (aliases share a buffer); `buffer_bytes` and
    `buffer_names` are by buffer."""

    graph: Graph
    dispatches: tuple[Dispatch, ...]
    region_of: dict[int, Region]
    buffer_bytes: tuple[int, ...]
    buffer_names: tuple[str, ...]

    def lifetimes(self, keep_inputs: bool) -> tuple[Buffer, ...]:
        """The buffers with lifetimes, then one scratch buffer a dispatch that needs it.

        Inputs live from the start (until the end if `keep_inputs`), outputs until the end.
        """
        end = max(len(self.dispatches) - 1, 0)
        first, last = [end] * len(self.buffer_bytes), [0] * len(self.buffer_bytes)
        for dispatch in self.dispatches:
            for region in (*dispatch.writes, *(r for r in dispatch.reads if r is not None)):
                first[region.buffer] = min(first[region.buffer], dispatch.index)
                last[region.buffer] = max(last[region.buffer], dispatch.index)
        for tensor in self.graph.inputs:
            first[self.region_of[tensor].buffer] = 0
            if keep_inputs:
                last[self.region_of[tensor].buffer] = end
        for tensor in self.graph.outputs:
            last[self.region_of[tensor].buffer] = end
        tensors = [Buffer(*b) for b in zip(self.buffer_names, self.buffer_bytes, first, last, strict=True)]
        scratch = [
            Buffer(f"scratch of dispatch {d.index}", d.lowered.scratch_bytes, d.index, d.index) for d in self.dispatches
        ]
        return (*tensors, *scratch)

    def __str__(self) -> str:
        lines = []
        for d in self.dispatches:
            kernels = " + ".join(call.kernel.name for call in d.lowered.calls)
            reads = ", ".join(self.buffer_names[r.buffer] for r in d.reads if r is not None)
            writes = ", ".join(self.buffer_names[w.buffer] for w in d.writes)
            lines.append(f"{d.index:3} {d.operator.op:24} {kernels}: {reads} -> {writes}")
        return "\n".join(lines)


def build_schedule(graph: Graph, isa: Isa) -> Schedule:
    """Lowers every operator in model order. Operators that are aliases take no dispatch.

    Raises UserError where an output of the model is an input or a constant.
    """
    region_of: dict[int, Region] = {}
    sizes: list[int] = []
    names: list[str] = []

    def new_buffer(tensor: int) -> Region:
        region_of[tensor] = Region(len(sizes))
        sizes.append(graph.tensor(tensor).bytes)
        names.append(graph.tensor(tensor).name)
        return region_of[tensor]

    for tensor in graph.inputs:
        new_buffer(tensor)
    dispatches: list[Dispatch] = []
    for operator in graph.operators:
        lowered = operators()[operator.op].lower(OperatorView(graph, operator), isa)
        if lowered.is_alias:
            for output, place in zip(operator.outputs, lowered.aliases, strict=True):
                whole = region_of[operator.inputs[place.index]]
                region_of[output] = Region(whole.buffer, whole.offset + place.offset)
            continue
        reads = tuple(None if i == ABSENT else region_of.get(i) for i in operator.inputs)
        writes = tuple(new_buffer(o) for o in operator.outputs)
        dispatches.append(Dispatch(len(dispatches), operator, lowered, reads, writes))
    for tensor in graph.outputs:
        if tensor not in region_of:
            raise UserError(
                f"output '{graph.tensor(tensor).name}' is a constant",
                where=graph.name,
                allowed="outputs that are computed from the inputs",
                hint="remove this output from the model",
            )
    return Schedule(graph, tuple(dispatches), region_of, tuple(sizes), tuple(names))
