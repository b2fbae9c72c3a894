# SPDX-License-Identifier: Apache-2.0
"""Standard output under SCons."""

from __future__ import annotations

import errno
import io
from typing import Any, TextIO


class Output:
    """Standard output that notes what it loses: SCons's own proxy drops every fault of writing. A reader that has gone
    (EPIPE), as `head` does, has had what it wanted."""

    def __init__(self, file: TextIO) -> None:
        self._file = getattr(file, "file", file)
        self._lost: OSError | None = None
        # Names of files and tensors are any text, and an output of few letters must not stop a build.
        if isinstance(self._file, io.TextIOWrapper):
            self._file.reconfigure(errors="replace")

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            if error.errno != errno.EPIPE:
                self._lost = error

    def flush(self) -> None:
        """Nothing is left to write."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def check(self) -> None:
        """OSError where something that was printed did not get anywhere."""
        if self._lost is not None:
            raise OSError(self._lost.errno, self._lost.strerror, "standard output")
