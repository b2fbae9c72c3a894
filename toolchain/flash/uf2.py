# SPDX-License-Identifier: Apache-2.0
"""RP2040 and RP2350: their boot ROM shows a USB drive; a UF2 file that is copied there is flashed (RP2040 datasheet,
2.8.4). The drive goes away when the chip has taken the file and restarts, which is all the proof there is."""

from __future__ import annotations

import os
import time
from pathlib import Path

from toolchain.flash.errors import LinkLost, NoAnswer, WrongChip
from toolchain.report.terminal import Terminal
from toolchain.request import Request

INFO = "INFO_UF2.TXT"
BOARD_IDS = {"rp2040": "RPI-RP2", "rp2350": "RP2350"}
"""Board-ID in the drive's INFO_UF2.TXT."""
MOUNTS = ("/media/*/*", "/run/media/*/*", "/mnt/*", "/Volumes/*")
GONE_S = 20.0


def flash_uf2(terminal: Terminal, request: Request) -> None:
    """Copies firmware.uf2 to the drive: `port=` is where it is mounted, else it is looked for."""
    drive = Path(request.link.port) if request.link.ports else _find()
    image = request.folder / "firmware.uf2"
    copy_uf2(image, drive, BOARD_IDS[request.board.image])
    terminal.line(f"{drive}: {image.name} of {image.stat().st_size:,} bytes taken; the chip has restarted")


def copy_uf2(image: Path, drive: Path, board_id: str, gone_s: float = GONE_S) -> None:
    """Copies a file and waits until the drive is gone. FlashError where it is no such drive, or stays."""
    info = drive / INFO
    if not info.is_file():
        raise NoAnswer("this is no UF2 drive", where=str(drive), got=f"no {INFO}", hint=_HOW)
    told = info.read_text(encoding="ascii", errors="replace")
    found = next((line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("Board-ID:")), "")
    if not found.startswith(board_id):
        raise WrongChip("this is another chip than the board's", where=str(info), got=found, allowed=board_id)
    try:
        with (drive / image.name).open("wb") as file:
            file.write(image.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # The drive may vanish in the very moment in which it has everything.
        if info.is_file():
            raise LinkLost("the drive does not take the file", where=str(drive), got=str(error)) from error
    end = time.monotonic() + gone_s
    while info.is_file():
        if time.monotonic() > end:
            raise LinkLost(
                "the chip did not take the file: the drive is still there",
                where=str(drive),
                hint="unplug the board and flash again",
            )
        time.sleep(0.05)


_HOW = "hold BOOTSEL while plugging the board in, mount the drive, and name it: port=/media/USER/RPI-RP2"


def _find() -> Path:
    found = [path.parent for pattern in MOUNTS for path in Path("/").glob(f"{pattern[1:]}/{INFO}")]
    if len(found) != 1:
        raise NoAnswer(
            "no UF2 drive is mounted" if not found else "several UF2 drives are mounted",
            got=", ".join(map(str, found)) or None,
            hint=_HOW,
        )
    return found[0]
