# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the width they are given: numbers whole, words cut, and the least needed columns left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2
LEAST = 12
"""Characters below which a cut column says too little."""


@dataclass(frozen=True)
class Column:
    """A column of a table. `number`: aligned right and never cut. `cut`: may be shortened. `spare`: left out before
    any column is cut to less than LEAST characters, the highest number first."""

    header: str
    number: bool = False
    cut: bool = False
    spare: int = 0


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide each of them is, in a window of `width` characters."""
    natural = [max([len(column.header), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    shown = list(range(len(columns)))
    while True:
        cut = [i for i in shown if columns[i].cut]
        left = width - GAP * (len(shown) - 1) - sum(natural[i] for i in shown if i not in cut)
        widths = _shared({i: natural[i] for i in cut}, left)
        spare = [i for i in shown if columns[i].spare]
        if not spare or all(widths[i] >= min(natural[i], LEAST) for i in cut):
            return shown, [max(widths[i], 1) if i in widths else natural[i] for i in shown]
        shown.remove(max(spare, key=lambda i: columns[i].spare))


def shorten(text: str, width: int) -> str:
    """A text in `width` characters: paths keep their end, which tells layers apart, other words their start."""
    if len(text) <= width:
        return text
    return "…" + text[len(text) - width + 1 :] if "/" in text else text[: width - 1] + "…"


def _shared(natural: dict[int, int], width: int) -> dict[int, int]:
    """Widths for columns that share `width`: nobody gets more than it needs, the others as much as each other."""
    widths: dict[int, int] = {}
    for done, i in enumerate(sorted(natural, key=lambda i: natural[i])):
        widths[i] = min(natural[i], (width - sum(widths.values())) // (len(natural) - done))
    return widths
