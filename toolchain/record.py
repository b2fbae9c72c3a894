# SPDX-License-Identifier: Apache-2.0
"""What SCons has noted of a build folder: one file for each, so that builds of different folders share nothing."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.files import write_bytes


def record_file(root: Path, folder: Path) -> Path:
    """The record of a build folder below `root`/build. A clean of the folder leaves it, as SCons itself would."""
    place = root / ".sconsign" / folder.relative_to(root / "build")
    return place.with_name(f"{place.name}.dblite")


@dataclass
class Record:
    """A mapping from folders to what SCons noted of their files, in the interface that SCons wants of a database.

    A damaged file counts as an empty one, and one that cannot be written is told of: then the next run builds again.
    """

    path: Path
    _notes: dict[str, bytes] = field(default_factory=dict)
    _changed: bool = False

    @staticmethod
    def open(name: str, _mode: str) -> Record:
        path = Path(name)
        try:
            notes = pickle.loads(path.read_bytes())
        except Exception:  # Damaged bytes can make pickle raise anything.
            notes = {}
        return Record(path, notes if isinstance(notes, dict) else {})

    def __getitem__(self, key: str) -> bytes:
        return self._notes[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self._notes[key] = value
        self._changed = True

    def sync(self) -> None:
        """Writes what has changed, whole or not at all."""
        if not self._changed:
            return
        self._changed = False
        try:
            write_bytes(self.path, pickle.dumps(self._notes, 4))
        except OSError as error:
            print(f"kiln: {self.path} cannot be written ({error.strerror}): the next run builds again", file=sys.stderr)
