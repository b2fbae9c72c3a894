# SPDX-License-Identifier: Apache-2.0
"""One process at a time on a build folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from compiler.errors import UserError

_held: list[int] = []
"""Open files whose locks last until the process ends, however it does."""


def hold(folder: Path) -> None:
    """Keeps `folder` to this process until it ends. Where another has it, says so on standard error and waits.

    A build replaces the folder, so the lock is a file of this user's among the temporary ones. UserError where there is
    no place for those.
    """
    key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UserError(
            "no folder for temporary files can be written to",
            where="TMPDIR",
            got=os.environ.get("TMPDIR", "not set"),
            hint="make room, or name a folder that has some",
        ) from error
    path = temporary / f"tinykiln-{os.getuid()}-{key}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    _held.append(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"kiln: waiting for another one that works in {folder}", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
