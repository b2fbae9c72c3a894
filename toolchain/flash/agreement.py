# SPDX-License-Identifier: Apache-2.0
"""For answers and contents that come without a checksum: they are believed when they come twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from toolchain.flash.errors import Garbage, Mismatch

T = TypeVar("T")

TRIES = 8


def agreed(ask: Callable[[], T], where: str) -> T:
    """The first answer that comes twice in a row. Garbage where none does."""
    found = ask()
    for _ in range(TRIES):
        again = ask()
        if again == found:
            return again
        found = again
    raise Garbage("two answers of the boot loader never agree: the line is disturbed", where=where)


def settled(wanted: bytes, read: Callable[[], bytes], again: Callable[[], bytes], where: str) -> bytes:
    """What memory holds: what is wanted is believed at once, something else when `again` finds it, too. Garbage where
    no two readings agree."""
    found = read()
    for _ in range(TRIES):
        if found == wanted:
            return found
        latest = again()
        if latest == found:
            return latest
        found = latest
    raise Garbage("two readings of the flash never agree: the line is disturbed", where=where)


def compare(address: int, wanted: bytes, found: bytes) -> None:
    """Mismatch at the first byte that differs."""
    for at, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one != other:
            raise Mismatch(address + at, one, other)
