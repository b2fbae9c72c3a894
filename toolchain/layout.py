# SPDX-License-Identifier: Apache-2.0
"""The choices that a link is free to make, best first: which RAM banks hold the arena and, if asked for, the constants,
and whether inputs are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from boards.board import Memory
from compiler.errors import UserError
from toolchain.benchmark import Sent
from toolchain.bundle import Bundle
from toolchain.options import FirmwareOptions
from toolchain.site import Site


@dataclass(frozen=True)
class Layout:
    """`constants_bank`: the RAM that start-up copies the model's constants to; None where they stay in flash.
    `keeps_input`: the console holds a copy of the input, since the inference overwrites it."""

    arena_bank: Memory
    keeps_input: bool
    constants_bank: Memory | None = None


def layouts(site: Site, bundle: Bundle, options: FirmwareOptions) -> Iterator[Layout]:
    """Every layout worth trying, in order. The arena goes to the bank that the user names, else to the first of the
    board's preference that takes it; a copy of the input is kept where the model overwrites it and room is left.

    UserError for a bank that the board does not have.
    """
    named = {bank.name: bank for bank in site.banks}
    if options.arena and options.arena not in named:
        raise UserError(
            f"{site.board.name} has no such RAM bank",
            where="arena=",
            got=options.arena,
            allowed=", ".join(f"{bank.name} ({bank.size} bytes)" for bank in site.banks),
        )
    ordered = [named[name] for name in ((options.arena,) if options.arena else site.board.arena_banks)]
    arenas = [bank for bank in ordered if bank.size >= bundle.arena_bytes] or ordered[:1]
    constants: list[Memory | None] = [None]
    if options.weights == "ram":
        wide = [bank for bank in site.banks if bank.size >= bundle.constants_bytes]
        constants = [*(wide or sorted(site.banks, key=lambda bank: -bank.size)[:1])]
    for keeps_input in _copies(bundle, options):
        for arena in arenas:
            for bank in constants:
                yield Layout(arena, keeps_input, bank)


def _copies(bundle: Bundle, options: FirmwareOptions) -> tuple[bool, ...]:
    """Whether the console keeps a copy of the input: what is best first. A benchmark repeats inferences, and needs the
    numbers that were quantised for its result."""
    if options.application != "console":
        return (False,)
    benchmark = options.benchmark
    if benchmark is not None:
        return (benchmark.sent is Sent.REAL or not bundle.first.inputs_kept,)
    return (False,) if bundle.first.inputs_kept else (True, False)
