# SPDX-License-Identifier: Apache-2.0
"""What tests of several folders share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def shared_dir(part: str = "") -> Path:
    """The folder `shared` beside the project (its sub-folder `part`), which holds models that are not part of it.
    Skips the calling test where it is absent."""
    folder = ROOT.parent / "shared" / part
    if not folder.is_dir():
        pytest.skip(f"needs the reference models in {Path('..') / 'shared' / part}, beside the project")
    return folder
