# SPDX-License-Identifier: Apache-2.0
"""Chains of operators, and which rows of each tensor between them a stripe computes, keeps and reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.graph import Tensor
from compiler.ops import operators
from compiler.ops.definition import Band, OperatorView

WORD = 4
"""Kernels load words of their inputs, which begin on multiples of it."""


@dataclass(frozen=True)
class Source:
    """Where an operand comes from: the output of link `link`, or the chain's operand `operand`."""

    link: int | None = None
    operand: int = 0


@dataclass(frozen=True)
class Chain:
    """Operators, each reading outputs of those before it and tensors from outside: `sources` are by link and operand
    position (None: constant or absent). Only the last one's output is needed afterwards."""

    views: tuple[OperatorView, ...]
    sources: tuple[tuple[Source | None, ...], ...]

    @property
    def height(self) -> int:
        return self.views[-1].output().shape[1]

    def row_bytes(self, link: int) -> int:
        return row_bytes_of(self.views[link].output())


@dataclass(frozen=True)
class Part:
    """The rows that a link computes in a stripe, with what it reads for them."""

    rows: range
    band: Band


@dataclass(frozen=True)
class Stripe:
    """A part of each link (None where it has nothing to do), and the rows in each link's buffer: those it holds
    already and those that it computes."""

    parts: tuple[Part | None, ...]
    held: tuple[range, ...]


def stripes_of(chain: Chain, first: int, height: int) -> list[Stripe] | None:
    """Stripes of `height` rows of the last output, the first one of `first` rows. None where an operator has no bands,
    or where rows that a call begins with are not on words."""
    tensors = [tensor for view in chain.views for tensor in _activations(view)]
    if any(len(t.shape) != 4 or t.shape[0] != 1 for t in tensors):
        return None
    count = len(chain.views)
    held = [range(0)] * count
    stripes = []
    start = 0
    while start < chain.height:
        stop = min(start + (height if start else first), chain.height)
        wanted: list[range | None] = [None] * count
        wanted[-1] = range(start, stop)
        parts: list[Part | None] = [None] * count
        for link in reversed(range(count)):
            wants = wanted[link]
            if wants is None:
                continue
            rows = range(max(held[link].stop, wants.start), wants.stop)
            held[link] = range(wants.start, max(held[link].stop, wants.stop))
            if not rows:
                continue
            band = operators()[chain.views[link].operator.op].bands
            part = band(chain.views[link], rows) if band else None
            if part is None:
                return None
            parts[link] = Part(rows, part)
            for position, read in part.reads.items():
                source = chain.sources[link][position]
                if source is not None and source.link is not None:
                    wanted[source.link] = _hull(wanted[source.link], read)
        stripes.append(Stripe(tuple(parts), tuple(held)))
        start = stop
    return stripes if _on_words(chain, stripes) else None


def _on_words(chain: Chain, stripes: Sequence[Stripe]) -> bool:
    """Whether all rows that a call begins with are on words."""
    last = len(chain.views) - 1
    for stripe in stripes:
        for link, part in enumerate(stripe.parts):
            if part is None:
                continue
            starts = [(part.rows.start - (0 if link == last else stripe.held[link].start), chain.views[link].output())]
            for position, rows in part.band.reads.items():
                source = chain.sources[link][position]
                inner = None if source is None else source.link
                held = 0 if inner is None else stripe.held[inner].start
                starts.append((rows.start - held, chain.views[link].input(position)))
            if any(row * row_bytes_of(tensor) % WORD for row, tensor in starts):
                return False
    return True


def _hull(one: range | None, other: range) -> range:
    return other if one is None else range(min(one.start, other.start), max(one.stop, other.stop))


def row_bytes_of(tensor: Tensor) -> int:
    _, _, width, channels = tensor.shape
    return width * channels * tensor.dtype.bytes


def _activations(view: OperatorView) -> list[Tensor]:
    return [t for t in (*view.inputs, view.output()) if t is not None and not t.is_constant]
