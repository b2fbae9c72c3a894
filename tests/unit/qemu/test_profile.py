# SPDX-License-Identifier: Apache-2.0
"""Counts as they are read back, and the paint that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from qemu.plugin import PluginUnavailable, build_plugin
from qemu.profile import InferenceCount, Profile, ProfileError, read_counts
from qemu.stack import PAINT, used_bytes


def test_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text("3 100 20\n3 104 20\n")
    counts = read_counts(path, 2)
    assert counts == (InferenceCount(3, (100, 20)), InferenceCount(3, (104, 20)))
    assert [count.total for count in counts] == [123, 127]
    assert Profile(True, counts, 125, "").spread == 4


def test_an_inference_that_did_not_finish(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text("3 100 20\n3 104\n")
    with pytest.raises(ProfileError, match="inference 1 made 2 dispatch stores, not 3"):
        read_counts(path, 2)


def test_used_bytes() -> None:
    paint = PAINT.to_bytes(4, "little")
    assert used_bytes(paint * 8) == 0
    assert used_bytes(paint * 6 + b"\0" * 4 + paint) == 8
    assert used_bytes(b"\0" + paint[1:] + paint * 7) == 32
    assert used_bytes(b"\1\0\0\0" * 3 + b"\2\0\0\0", 1) == 4


def test_plugin_is_built_once(tmp_path: Path) -> None:
    first = build_plugin(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build_plugin(tmp_path) == first and first.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [first]


def test_no_host_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PluginUnavailable, match="no C compiler"):
        build_plugin(tmp_path)
