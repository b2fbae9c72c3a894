# SPDX-License-Identifier: Apache-2.0
"""A chain of operators computed stripe by stripe: a few rows of each tensor between them are kept at a time.

Each stripe of the last output has every operator compute the rows that are still missing; rows that the next stripe
reads again move to the front of their buffer. Nothing is computed twice, and each call is the operator's own lowering
for fewer rows, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from compiler.chains import WORD, Chain, Part, Source, Stripe, row_bytes_of, stripes_of
from compiler.isa import Isa
from compiler.kernels.compact import quick
from compiler.kernels.kernel import SCRATCH, Constant, KernelCall, Lowered, Overlap, Place, Role
from compiler.kernels.overlap import Step, in_steps
from compiler.kernels.portable.copies import copy_bytes
from compiler.ops import operators
from compiler.ops.bands import on_band
from compiler.ops.definition import OperatorView
from compiler.placement import aligned

WORD_COPY, CALL = 2.5, 12
"""Instructions to copy a word of a row, and to call a kernel."""


@dataclass(frozen=True)
class _Form:
    """One way to compute a link: its lowering in each stripe."""

    lowerings: tuple[Lowered | None, ...]
    scratch: int = field(init=False)
    instructions: int = field(init=False)
    flash: int = field(init=False)

    def __post_init__(self) -> None:
        used = [lowered for lowered in self.lowerings if lowered]
        object.__setattr__(self, "scratch", max(lowered.scratch_bytes for lowered in used))
        object.__setattr__(self, "instructions", sum(work(lowered) for lowered in used))
        calls = [call for lowered in used for call in lowered.calls]
        constants = sum(len(c.data) for c in {c for call in calls for c in _constants(call)})
        object.__setattr__(self, "flash", constants + sum(k.code_bytes for k in {call.kernel for call in calls}))


def lower_chain(chain: Chain, heights: Sequence[tuple[int, int]], lowerings: Lowerings) -> Lowered | None:
    """The chain as one lowering with alternatives, for stripes of some heights: pairs of the first one's rows and the
    other ones'. None where the operators have no bands, or the rows that calls begin with are not on words."""
    found: list[Lowered] = []
    for first, height in heights:
        stripes = stripes_of(chain, first, height)
        if stripes is not None:
            found += _alternatives(chain, stripes, lowerings)
    if not found:
        return None
    best = min(found, key=lambda lowered: lowered.instructions)
    return replace(best, alternatives=tuple(lowered for lowered in found if lowered is not best))


def _alternatives(chain: Chain, stripes: Sequence[Stripe], lowerings: Lowerings) -> list[Lowered]:
    """For each amount of scratch memory the fastest forms of all links, and the smallest ones."""
    forms = [_forms([lowerings.of(view, s.parts[link]) for s in stripes]) for link, view in enumerate(chain.views)]
    least = max(min(form.scratch for form in each) for each in forms)
    chosen = []
    for scratch in sorted({form.scratch for each in forms for form in each if form.scratch >= least}):
        fitting = [[form for form in each if form.scratch <= scratch] for each in forms]
        for key in (lambda f: (f.instructions, f.flash, f.scratch), lambda f: (f.flash, f.instructions, f.scratch)):
            picked = [min(each, key=key) for each in fitting]
            if picked not in chosen:
                chosen.append(picked)
    return [_Assembly(chain, stripes, picked, lowerings.isa).lowered() for picked in chosen]


def _forms(stripes: Sequence[tuple[Lowered, ...]]) -> list[_Form]:
    """The forms of a link: lowerings that take the same constants in every stripe; else the first of each stripe."""
    by_constants: list[dict[frozenset[Constant], Lowered]] = []
    for options in stripes:
        found: dict[frozenset[Constant], Lowered] = {}
        for lowered in options:
            key = frozenset(c for call in lowered.calls for c in _constants(call))
            if key not in found or lowered.instructions < found[key].instructions:
                found[key] = lowered
        by_constants.append(found)
    used = [found for found in by_constants if found]
    common = [key for key in used[0] if all(key in found for found in used)]
    if not common:
        return [_Form(tuple(options[0] if options else None for options in stripes))]
    return [_Form(tuple(found.get(key) for found in by_constants)) for key in common]


class Lowerings:
    """The lowerings of operators on bands; bands of the same shape have the same ones."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.known: dict[tuple[object, ...], tuple[Lowered, ...]] = {}

    def of(self, whole: OperatorView, part: Part | None) -> tuple[Lowered, ...]:
        """A band's lowerings without alternatives; none where there is nothing to compute."""
        if part is None:
            return ()
        reads = ((position, len(rows)) for position, rows in sorted(part.band.reads.items()))
        key = (whole.operator.outputs, len(part.rows), part.band.attributes, *reads)
        if key not in self.known:
            view = on_band(whole, part.band, part.rows)
            lowered = operators()[view.operator.op].lower(view, self.isa)
            first, *others = quick(lowered)
            self.known[key] = (replace(first, alternatives=()), *others)
        return self.known[key]


class _Assembly:
    """The calls of all stripes, with the places of rows."""

    def __init__(self, chain: Chain, stripes: Sequence[Stripe], forms: Sequence[_Form], isa: Isa) -> None:
        self.chain, self.stripes, self.forms, self.isa = chain, stripes, forms, isa
        self.last = len(chain.views) - 1
        self.buffers, at = [], 0
        for link in range(self.last):
            self.buffers.append(at)
            at += aligned(max(len(s.held[link]) for s in stripes) * chain.row_bytes(link))
        self.scratch = at

    def lowered(self) -> Lowered:
        calls: list[KernelCall] = []
        copied = 0
        held = [range(0)] * len(self.chain.views)
        for number, stripe in enumerate(self.stripes):
            for link, part in enumerate(stripe.parts):
                kept = range(stripe.held[link].start, held[link].stop)
                if link != self.last and kept and kept.start > held[link].start:
                    row, target = self.chain.row_bytes(link), replace(SCRATCH, offset=self.buffers[link])
                    source = replace(target, offset=target.offset + (kept.start - held[link].start) * row)
                    calls.append(copy_bytes(self.isa, source, target, len(kept) * row))
                    copied += len(kept) * row
                lowered = self.forms[link].lowerings[number]
                if part is not None and lowered is not None:
                    calls += [self._placed(call, link, part, stripe) for call in lowered.calls]
            held = list(stripe.held)
        return Lowered(
            tuple(calls),
            self.scratch + max(form.scratch for form in self.forms),
            sum(_macs(form) for form in self.forms),
            instructions=sum(form.instructions for form in self.forms)
            + int(WORD_COPY * copied / WORD)
            + CALL * len(calls),
            overlaps=tuple(self._overlaps()),
        )

    def _placed(self, call: KernelCall, link: int, part: Part, stripe: Stripe) -> KernelCall:
        def placed(place: Place) -> Place:
            if place.role is Role.SCRATCH:
                return replace(place, offset=place.offset + self.scratch)
            if place.role is Role.OUTPUT:
                row = self.chain.row_bytes(link)
                if link == self.last:
                    return replace(place, offset=place.offset + part.rows.start * row)
                return self._held(link, part.rows.start, stripe, place.offset)
            source = self.chain.sources[link][place.index]
            assert source is not None
            first = part.band.reads[place.index].start
            if source.link is not None:
                return self._held(source.link, first, stripe, place.offset)
            row = row_bytes_of(self.chain.views[link].input(place.index))
            return Place(Role.INPUT, source.operand, place.offset + first * row)

        return replace(call, arguments=tuple(placed(a) if isinstance(a, Place) else a for a in call.arguments))

    def _held(self, link: int, row: int, stripe: Stripe, offset: int) -> Place:
        assert row in stripe.held[link], f"row {row} of link {link} is gone: {stripe.held[link]}"
        within = (row - stripe.held[link].start) * self.chain.row_bytes(link)
        return replace(SCRATCH, offset=self.buffers[link] + within + offset)

    def _overlaps(self) -> list[Overlap]:
        """How the output may lie over each operand of the chain."""
        operands = {s.operand for sources in self.chain.sources for s in sources if s is not None and s.link is None}
        found = (self._overlap(operand) for operand in sorted(operands))
        return [overlap for overlap in found if overlap is not None]

    def _overlap(self, operand: int) -> Overlap | None:
        """Rows of the operand are read before the last link writes the stripe, or by the last link itself."""
        row, size, steps, own = self.chain.row_bytes(self.last), 0, [], []
        for number, stripe in enumerate(self.stripes):
            last = stripe.parts[self.last]
            assert last is not None
            early: list[int] = []
            late: list[int] = []
            for link, part in enumerate(stripe.parts):
                for position, read in part.band.reads.items() if part else ():
                    if self.chain.sources[link][position] == Source(operand=operand):
                        tensor = self.chain.views[link].input(position)
                        size, start = tensor.bytes, read.start * row_bytes_of(tensor)
                        (late if link == self.last else early).append(start)
                        if link == self.last:
                            overlap = self._own_overlap(number, position)
                            if overlap is None:
                                return None
                            behind = last.rows.start * row - start
                            if behind % overlap.multiple:
                                return None
                            distance = overlap.distance + behind
                            own.append(replace(overlap, distance=distance, input=operand))
            # Another input's rows may be read at any time, but for what this stripe's steps say.
            if early:
                steps.append(Step(min(early), last.rows.start * row))
            steps.append(Step(min(late, default=size), last.rows.stop * row))
        overlap = replace(in_steps(steps, size, reads_first=True), input=operand)
        for other in own:
            if other.multiple not in (1, overlap.multiple) and overlap.multiple != 1:
                return None
            multiple = max(overlap.multiple, other.multiple)
            overlap = replace(overlap, distance=max(overlap.distance, other.distance), multiple=multiple)
        return overlap

    def _own_overlap(self, stripe: int, position: int) -> Overlap | None:
        lowered = self.forms[self.last].lowerings[stripe]
        assert lowered is not None
        return next((o for o in lowered.overlaps if o.input == position and not o.scratch), None)


def work(lowered: Lowered) -> int:
    """Instructions, by the estimate; where there is none, an instruction for each multiply-accumulate."""
    return lowered.instructions or lowered.macs


def _macs(form: _Form) -> int:
    return sum(lowered.macs for lowered in form.lowerings if lowered)


def _constants(call: KernelCall) -> list[Constant]:
    return [argument for argument in call.arguments if isinstance(argument, Constant)]
