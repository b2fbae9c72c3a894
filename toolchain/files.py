# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or absent: written beside their place, then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def write_bytes(path: Path, data: bytes) -> Path:
    """Write `data` to `path` (its directory is made), unless it holds just that already. Returns `path`."""
    if path.is_file() and path.read_bytes() == data:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def write_text(path: Path, text: str) -> Path:
    """As `write_bytes`, in UTF-8 with LF line ends."""
    return write_bytes(path, text.encode("utf-8"))
