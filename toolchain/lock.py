# SPDX-License-Identifier: Apache-2.0
"""One process at a time on a build folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
from pathlib import Path

_held: list[int] = []
"""Open files whose locks last until the process ends, however it does."""


def hold(folder: Path) -> None:
    """Keeps `folder` to this process until it ends. Where another has it, says so on standard error and waits.

    A build replaces the folder, so the lock is a file of this user's among the temporary ones.
    """
    key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"tinykiln-{os.getuid()}-{key}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    _held.append(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"kiln: waiting for another one that works in {folder}", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
