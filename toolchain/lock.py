# SPDX-License-Identifier: Apache-2.0
"""One process at a time on a build folder."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from pathlib import Path

from compiler.errors import UserError

_held: list[int] = []
"""Open files whose locks last until the process ends, however it does."""


def hold(folder: Path, path: Path) -> None:
    """Keeps `folder` to this process until it ends. Where another has it, says so on standard error and waits.

    A build replaces the folder, so the lock is another file, `path`; its directory is made. OSError where it cannot be.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"kiln: waiting for another one that works in {folder}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        if _is_still(path, file):
            _held.append(file)
            return
        # It was removed while this process waited: whoever comes now makes another, and would not wait for this one.
        os.close(file)


def _is_still(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def check_temporary() -> None:
    """UserError where there is no place for temporary files."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UserError(
            "no folder for temporary files can be written to",
            where="TMPDIR",
            got=os.environ.get("TMPDIR", "not set"),
            hint="make room, or name a folder that has some",
        ) from error
