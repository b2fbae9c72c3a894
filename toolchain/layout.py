# SPDX-License-Identifier: Apache-2.0
"""The choices that a link is free to make, best first: which RAM bank holds the arena, and whether inputs are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from boards.board import Memory
from compiler.artifact import CompiledModel
from toolchain.site import Site


@dataclass(frozen=True)
class Layout:
    """`keeps_input`: the console holds a copy of the input, since the inference overwrites it."""

    arena_bank: Memory
    keeps_input: bool


def layouts(site: Site, model: CompiledModel, application: str) -> Iterator[Layout]:
    """Every layout worth trying, in order. The arena goes to the first bank that takes it; a copy of the input is
    kept where the model overwrites it and room is left."""
    banks = [bank for bank in site.banks if bank.size >= model.arena_bytes] or [site.banks[0]]
    copy = application == "console" and not model.inputs_kept
    for keeps_input in (True, False) if copy else (False,):
        for bank in banks:
            yield Layout(bank, keeps_input)
