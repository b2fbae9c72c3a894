# SPDX-License-Identifier: Apache-2.0
"""ESP32-C3 by Espressif's own program `esptool`, run as a separate process. It resets the chip into its loader, erases
what it writes, and compares an MD5 that the chip computes."""

from __future__ import annotations

import logging
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from compiler.errors import UserError
from toolchain.flash.errors import FlashError
from toolchain.flash.fleet import conclude, on_each
from toolchain.report.terminal import Terminal
from toolchain.request import Request

_log = logging.getLogger("kiln.commands")
PROOF = "Hash of data verified"
SECONDS = 300.0
BAUD = 460800


def flash_esp32(terminal: Terminal, request: Request) -> None:
    """Writes firmware.bin, which is in the form that the boot ROM loads, to offset 0 of each port's chip."""
    program = find_esptool()
    baud = request.link.baud or BAUD

    def one(port: str) -> None:
        run_esptool([*program, *arguments(request.board.chip, port, baud, request.folder / "firmware.bin")], port)

    results = on_each(request.link.ports, one)
    for result in results:
        if result.error is None:
            terminal.line(f"{result.port}: flashed, and compared by the chip's MD5")
    conclude(results)


def arguments(chip: str, port: str, baud: int, image: Path) -> list[str]:
    """esptool's arguments; the names with underscores are known to version 4 and 5."""
    return ["--chip", chip, "--port", port, "--baud", str(baud), "write_flash", "0x0", str(image)]


def find_esptool() -> list[str]:
    """The command. UserError where the program is not installed."""
    beside = Path(sys.executable).with_name("esptool")
    found = str(beside) if beside.is_file() else shutil.which("esptool") or shutil.which("esptool.py")
    if found is None:
        raise UserError(
            "esptool is not installed: it flashes chips of Espressif",
            hint="pipx install esptool (or pip install esptool into any environment on the PATH)",
        )
    return [found]


def run_esptool(command: list[str], port: str) -> None:
    """FlashError where it fails, or ends without having compared what it wrote."""
    _log.debug("%s", shlex.join(command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise FlashError("esptool took too long", where=port, got=f"{SECONDS:g} s") from error
    told = (done.stdout + done.stderr).strip()
    if done.returncode != 0 or PROOF not in told:
        last = "\n    ".join(told.splitlines()[-4:])
        raise FlashError(
            "esptool did not flash the chip",
            where=port,
            got=f"exit code {done.returncode}\n    {last}",
            hint="hold BOOT (GPIO9) while pressing reset, then flash again",
        )
