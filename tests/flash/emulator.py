# SPDX-License-Identifier: Apache-2.0
"""Firmware in QEMU with its UART on a pseudo terminal: it stands for a device on a serial port."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boards.loader import load_board
from qemu.command import machine_command


@contextmanager
def emulator_pty(board: str, elf: Path) -> Iterator[str]:
    """QEMU with its UART on a pseudo terminal; gives its name."""
    command = machine_command(load_board(board).emulator, elf, "pty")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"/dev/pts/\d+", process.stdout.readline())
        assert match is not None
        yield match[0]
    finally:
        process.kill()
        process.wait()
        process.stdout and process.stdout.close()
