# SPDX-License-Identifier: Apache-2.0
"""The schedule: a graph becomes an ordered list of dispatches over buffers, with lifetimes for the arena planner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.arena import Buffer, Sharing
from compiler.graph import ABSENT, Graph, Operator
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered, Overlap, Place, Role
from compiler.kernels.portable.copies import copy_bytes
from compiler.ops import operators
from compiler.ops.definition import OperatorView

STORE = "ASSIGN_VARIABLE"
"""The operator that leaves a variable's next value; the passes put it behind all readers."""


@dataclass(frozen=True)
class Region:
    """Where a tensor is: from byte `offset` of a buffer on."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Dispatch:
    """One operator as it runs, or several that run in turns. `reads`/`writes` give the region of each operand position
    (None: constant, absent)."""

    index: int
    operators: tuple[Operator, ...]
    lowered: Lowered
    reads: tuple[Region | None, ...]
    writes: tuple[Region, ...]

    @property
    def op(self) -> str:
        """The operators' names."""
        return " + ".join(operator.op for operator in self.operators)


@dataclass(frozen=True)
class Schedule:
    """Dispatches in order. `region_of` maps a tensor index to its memory (aliases share a buffer); `buffer_bytes` and
    `buffer_names` are by buffer. `state` are the buffers of variables, by tensor index."""

    graph: Graph
    dispatches: tuple[Dispatch, ...]
    region_of: dict[int, Region]
    buffer_bytes: tuple[int, ...]
    buffer_names: tuple[str, ...]
    state: dict[int, int]

    def lifetimes(self, keep_inputs: bool) -> tuple[Buffer, ...]:
        """The buffers with lifetimes, then one scratch buffer a dispatch that needs it.

        Inputs live from the start (until the end if `keep_inputs`), outputs until the end, variables all the time.
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
        for buffer in self.state.values():
            first[buffer], last[buffer] = 0, end
        tensors = [Buffer(*b) for b in zip(self.buffer_names, self.buffer_bytes, first, last, strict=True)]
        scratch = [
            Buffer(f"scratch of dispatch {d.index}", d.lowered.scratch_bytes, d.index, d.index) for d in self.dispatches
        ]
        return (*tensors, *scratch)

    def sharings(self, keep_inputs: bool) -> tuple[Sharing, ...]:
        """Where outputs may lie over inputs that die, by the numbers of `lifetimes`."""
        buffers, tensors = self.lifetimes(keep_inputs), len(self.buffer_bytes)
        return tuple(s for d in self.dispatches for s in self.sharings_of(d, buffers, tensors + d.index, keep_inputs))

    def sharings_of(
        self, dispatch: Dispatch, buffers: Sequence[Buffer], scratch: int, keep_inputs: bool
    ) -> Iterator[Sharing]:
        """Those of one dispatch, `buffers` being the lifetimes and `scratch` the number of its scratch memory."""
        if len(dispatch.writes) != 1 or not dispatch.lowered.overlaps:
            return
        output = dispatch.writes[0]
        kept = {output.buffer, *self.state.values(), *(self.region_of[t].buffer for t in self.graph.outputs)}
        if keep_inputs:
            kept |= {self.region_of[t].buffer for t in self.graph.inputs}
        overlaying = [(scratch, True)]
        if output.offset == 0 and buffers[output.buffer].first == dispatch.index:
            overlaying.append((output.buffer, False))
        for source in sorted({r.buffer for r in dispatch.reads if r is not None} - kept):
            if buffers[source].last == dispatch.index:
                for number, is_scratch in overlaying:
                    overlaps = {o.input: o for o in dispatch.lowered.overlaps if o.scratch == is_scratch}
                    sharing = _sharing(dispatch, number, overlaps, source)
                    if sharing is not None:
                        yield sharing

    def __str__(self) -> str:
        lines = []
        for d in self.dispatches:
            kernels = " + ".join(call.kernel.name for call in d.lowered.calls)
            reads = ", ".join(self.buffer_names[r.buffer] for r in d.reads if r is not None)
            writes = ", ".join(self.buffer_names[w.buffer] for w in d.writes)
            lines.append(f"{d.index:3} {d.op:24} {kernels}: {reads} -> {writes}")
        return "\n".join(lines)


def _sharing(dispatch: Dispatch, number: int, overlaps: dict[int, Overlap], source: int) -> Sharing | None:
    """How the buffer `number` may lie over the buffer `source`, if every operand in it has an overlap."""
    found = []
    for position, region in enumerate(dispatch.reads):
        if region is not None and region.buffer == source:
            overlap = overlaps.get(position)
            if overlap is None:
                return None
            by, remainder = overlap.multiple, -region.offset % overlap.multiple
            found.append(Sharing(number, source, overlap.distance - region.offset, by, remainder))
    if len({(s.multiple, s.remainder) for s in found}) > 1:
        return None
    return max(found, key=lambda s: s.distance)


def build_schedule(graph: Graph, isa: Isa) -> Schedule:
    """Lowers every operator in model order. Operators that are aliases take no dispatch.

    An assignment to a variable takes none either where the value can be computed in the variable's memory.
    """
    return _Builder(graph, isa).schedule()


class _Builder:
    """A schedule in the making; a dispatch's index is set at the end."""

    def __init__(self, graph: Graph, isa: Isa) -> None:
        self.graph, self.isa = graph, isa
        self.region_of: dict[int, Region] = {}
        self.sizes: list[int] = []
        self.names: list[str] = []
        self.dispatches: list[Dispatch] = []
        for tensor in graph.inputs:
            self._new_buffer(tensor)
        self.state = {tensor.index: self._new_buffer(tensor.index).buffer for tensor in graph.state()}

    def schedule(self) -> Schedule:
        stores: list[Operator] = []
        for operator in self.graph.operators:
            if operator.op == STORE:
                stores.append(operator)
            else:
                self._add(operator)
        for operator in stores:
            self._store(operator)
        dispatches = tuple(replace(d, index=index) for index, d in enumerate(self.dispatches))
        return Schedule(self.graph, dispatches, self.region_of, tuple(self.sizes), tuple(self.names), dict(self.state))

    def _new_buffer(self, tensor: int) -> Region:
        self.region_of[tensor] = Region(len(self.sizes))
        self.sizes.append(self.graph.tensor(tensor).bytes)
        self.names.append(self.graph.tensor(tensor).name)
        return self.region_of[tensor]

    def _add(self, operator: Operator) -> None:
        lowered = self._lowered(operator)
        if lowered.is_alias:
            wholes = [self.region_of[operator.inputs[place.index]] for place in lowered.aliases]
            if not any(whole.buffer in self.state.values() for whole in wholes):
                for output, whole, place in zip(operator.outputs, wholes, lowered.aliases, strict=True):
                    self.region_of[output] = Region(whole.buffer, whole.offset + place.offset)
                return
            # The variable may be assigned while its old value is still needed.
            lowered = self._copies(operator, lowered.aliases)
        writes = tuple(self._new_buffer(o) for o in operator.outputs)
        self.dispatches.append(Dispatch(0, (operator,), lowered, self._reads(operator), writes))

    def _copies(self, operator: Operator, aliases: tuple[Place, ...]) -> Lowered:
        """What an alias stands for, copied."""
        sizes = [self.graph.tensor(output).bytes for output in operator.outputs]
        targets = [Place(Role.OUTPUT, position) for position in range(len(sizes))]
        return Lowered(tuple(copy_bytes(self.isa, *c) for c in zip(aliases, targets, sizes, strict=True)))

    def _store(self, operator: Operator) -> None:
        variable, value = (self.region_of.get(i) for i in operator.inputs)
        assert variable is not None
        last_read = max((i for i, d in enumerate(self.dispatches) if variable in d.reads), default=-1)
        writer = -1
        if value is not None:
            written = [i for i, d in enumerate(self.dispatches) if value.buffer in (w.buffer for w in d.writes)]
            writer = max(written, default=-1)
            whole = value.offset == 0 and self.sizes[value.buffer] == self.sizes[variable.buffer]
            if whole and writer > last_read and value.buffer not in self.state.values():
                self._move(value.buffer, variable.buffer)
                return
        dispatch = Dispatch(0, (operator,), self._lowered(operator), self._reads(operator), ())
        self.dispatches.insert(max(last_read, writer) + 1, dispatch)

    def _move(self, buffer: int, target: int) -> None:
        """Lets what is in `buffer` be in `target`."""

        def moved(region: Region) -> Region:
            return replace(region, buffer=target) if region.buffer == buffer else region

        self.region_of = {tensor: moved(region) for tensor, region in self.region_of.items()}
        self.dispatches = [
            replace(
                d,
                reads=tuple(None if r is None else moved(r) for r in d.reads),
                writes=tuple(moved(w) for w in d.writes),
            )
            for d in self.dispatches
        ]
        self.sizes[buffer] = 0

    def _lowered(self, operator: Operator) -> Lowered:
        return operators()[operator.op].lower(OperatorView(self.graph, operator), self.isa)

    def _reads(self, operator: Operator) -> tuple[Region | None, ...]:
        return tuple(None if i == ABSENT else self.region_of.get(i) for i in operator.inputs)
