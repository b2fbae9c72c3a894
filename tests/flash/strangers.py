# SPDX-License-Identifier: Apache-2.0
"""What may hang on a line and is no boot loader."""

from __future__ import annotations

from dataclasses import dataclass

from tests.flash.line import Line


class Silent:
    """Takes everything and says nothing."""

    def serve(self, line: Line) -> None:
        while True:
            line.take(1)


class Echoing:
    """Says what it hears."""

    def serve(self, line: Line) -> None:
        while True:
            line.give(line.take(1))


@dataclass(frozen=True)
class Babbling:
    """Says the same for ever."""

    text: bytes = b"m-ready\r\n"

    def serve(self, line: Line) -> None:
        while True:
            line.take(1, 0.001)
            line.give(self.text)
