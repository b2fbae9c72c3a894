# SPDX-License-Identifier: Apache-2.0
"""The choices that a link is free to make, best first: which RAM banks hold the arena and, if asked for, the constants,
and whether inputs are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from boards.board import Memory
from toolchain.benchmark import Sent
from toolchain.bundle import Bundle
from toolchain.options import FirmwareOptions
from toolchain.site import Site


@dataclass(frozen=True)
class ArenaSection:
    """What of the arena is in one bank: the section's name, the symbols in it and their bytes."""

    name: str
    bank: Memory
    symbols: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Layout:
    """`arena_banks`: one, or one for each part of an only model's arena. `constants_bank`: the RAM that start-up copies
    the model's constants to; None where they stay in flash.
    `keeps_input`: the console holds a copy of the input, since the inference overwrites it."""

    arena_banks: tuple[Memory, ...]
    keeps_input: bool
    constants_bank: Memory | None = None

    def arena_sections(self, bundle: Bundle) -> tuple[ArenaSection, ...]:
        """One a bank."""
        if len(self.arena_banks) == 1:
            symbols = tuple(part.symbol for model in bundle.arenas for part in model.arena_parts)
            return (ArenaSection("arena", self.arena_banks[0], symbols, bundle.arena_bytes),)
        parts = bundle.first.arena_parts
        return tuple(
            ArenaSection(f"arena_{number}" if number else "arena", bank, (part.symbol,), part.bytes)
            for number, (bank, part) in enumerate(zip(self.arena_banks, parts, strict=True))
        )


def layouts(site: Site, bundle: Bundle, options: FirmwareOptions) -> Iterator[Layout]:
    """Every layout worth trying, in order. The arena goes to the bank that the user names, else to the first of the
    board's preference that takes it; its parts, where it has several, to the board's preferred banks in order. A copy
    of the input is kept where the model overwrites it and room is left.

    UserError for a bank that the board does not have.
    """
    ordered = site.arena_banks(options.arena)
    parts = len(bundle.first.arena_parts)
    wide = [(bank,) for bank in ordered if bank.size >= bundle.arena_bytes] or [(ordered[0],)]
    arenas = [ordered[:parts]] if parts > 1 else wide
    constants: list[Memory | None] = [None]
    if options.weights == "ram":
        large = [bank for bank in site.banks if bank.size >= bundle.constants_bytes]
        constants = [*(large or sorted(site.banks, key=lambda bank: -bank.size)[:1])]
    for keeps_input in _copies(bundle, options):
        for banks in arenas:
            for bank in constants:
                yield Layout(banks, keeps_input, bank)


def _copies(bundle: Bundle, options: FirmwareOptions) -> tuple[bool, ...]:
    """Whether the console keeps a copy of the input: what is best first. A benchmark repeats inferences, and needs the
    numbers that were quantised for its result."""
    if options.application != "console":
        return (False,)
    benchmark = options.benchmark
    if benchmark is not None:
        return (benchmark.sent is Sent.REAL or not bundle.first.inputs_kept,)
    return (False,) if bundle.first.inputs_kept else (True, False)
