# SPDX-License-Identifier: Apache-2.0
"""Command lines, and what is said where QEMU is missing or old."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.errors import UserError
from qemu.command import Channels, Options, emulator_command, emulator_version, find_emulator


def fake_emulator(folder: Path, name: str, says: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = fake_emulator(tmp_path, "qemu-system-riscv32", "QEMU emulator version 9.2.1")
    board = load_board("ch32v307")
    command = emulator_command(board.emulator, Path("a.elf"), Channels(3, 4, 5), Options("count.so,out=x", True))
    assert command[0] == str(found)
    assert command[command.index("-kernel") + 1] == "a.elf"
    assert command[command.index("-machine") + 1] == "virt"
    assert command[command.index("-cpu") + 1].startswith("rv32,")
    assert command[command.index("-bios") + 1] == "none"
    assert command[command.index("-plugin") + 1] == "count.so,out=x"
    assert "-icount" in command and "-semihosting" not in " ".join(command)


def test_missing_emulator_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="qemu-system-riscv32 is not installed") as caught:
        find_emulator(load_board("ch32v307").emulator)
    assert "qemu-system-misc" in (caught.value.hint or "")


def test_old_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fake_emulator(tmp_path, "qemu-system-arm", "QEMU emulator version 5.2.0 (Debian)")
    with pytest.raises(UserError, match="too old") as caught:
        find_emulator(load_board("bluepill").emulator)
    assert caught.value.got == "5.2" and caught.value.allowed == "7.2 or newer"


def test_version_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not tell its version"):
        emulator_version(fake_emulator(tmp_path, "qemu-odd", "hello"))
    with pytest.raises(UserError, match="does not run"):
        emulator_version(tmp_path / "absent")
