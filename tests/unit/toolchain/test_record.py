# SPDX-License-Identifier: Apache-2.0
"""The record of a build folder: kept whole, apart from others, and never a reason to stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.record import Record, record_file


def test_each_folder_has_a_file_of_its_own(tmp_path: Path) -> None:
    models = ("kws", "kws.dblite", "kws.lock", "kws_v2", "a+b", ".hidden")
    records = [
        record_file(tmp_path, tmp_path / "build" / board / model) for board in ("one", "two") for model in models
    ]
    files = [*records, *(record.with_suffix(".lock") for record in records)]
    assert len(set(files)) == len(files)
    assert all(file.is_relative_to(tmp_path / ".sconsign") for file in files)


def test_what_is_noted_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "board" / "model.dblite"
    record = Record.open(str(path), "c")
    record.sync()
    assert not path.exists()
    record["folder"] = b"notes"
    record.sync()
    assert [p.name for p in path.parent.iterdir()] == ["model.dblite"]
    assert Record.open(str(path), "c")["folder"] == b"notes"
    with pytest.raises(KeyError):
        record["another"]


@pytest.mark.parametrize("damage", [b"", b"\x80", b"no pickle", b"\x80\x04N.", b"cnowhere\nnothing\n.", b"\x8a\xff"])
def test_a_damaged_record_is_an_empty_one(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "model.dblite"
    path.write_bytes(damage)
    with pytest.raises(KeyError):
        Record.open(str(path), "c")["folder"]


def test_a_record_that_cannot_be_written_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "board").write_text("no folder")
    record = Record.open(str(tmp_path / "board" / "model.dblite"), "c")
    record["folder"] = b"notes"
    record.sync()
    assert "model.dblite cannot be written" in capsys.readouterr().err
