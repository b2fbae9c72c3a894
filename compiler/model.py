# SPDX-License-Identifier: Apache-2.0
"""A model before it is read: its name and its bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

_HEADERS = re.compile(
    "assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic|"
    "stdbit|stdbool|stdckdint|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype"
    "|alloca|dirent|fcntl|malloc|memory|newlib|picolibc|pthread|reent|sched|search|strings|unistd"
    "|firmware"
)
"""The generated <prefix>.h would be included in place of these: ISO C23, 7.1.2; what headers of the C libraries include
in their turn, and POSIX; the firmware's own interface."""


@dataclass(frozen=True)
class Model:
    """A model as the user names it: `name` is its file name, `data` its bytes."""

    name: str
    data: bytes

    @property
    def stem(self) -> str:
        return PurePath(self.name).stem

    @property
    def prefix(self) -> str:
        """The start of all C names."""
        return c_prefix(self.stem)


def c_prefix(stem: str) -> str:
    """A file name without its suffix as a C identifier that is not the name of another header."""
    identifier = re.sub(r"\W", "_", stem, flags=re.ASCII).lower()
    return identifier if identifier[:1].isalpha() and not _HEADERS.fullmatch(identifier) else f"model_{identifier}"
