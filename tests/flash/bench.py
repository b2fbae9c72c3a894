# SPDX-License-Identifier: Apache-2.0
"""An image, a device and a session between them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from boards.flashing import Flashing
from boards.loader import load_board
from tests.flash.line import Device, Faults, plugged
from toolchain.flash.plan import Image, plan_of
from toolchain.flash.port import open_port
from toolchain.flash.session import Outcome, Settings, erase, flash
from toolchain.flash.wiring import Wiring

PATIENCE = 0.2
"""Waits of a fifth: a pseudo terminal answers at once. Not less, since the machine may be loaded."""
PEERS = Path(__file__).parents[2] / "build" / "peers"
"""A scratch environment for independent clients: `python -m venv build/peers`, then pip install them there."""


def flashing_of(board: str) -> Flashing:
    found = load_board(board).flashing
    assert found is not None
    return found


def image(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def settings(flashing: Flashing, unprotect: bool = False, resume: bool = False, patience: float = PATIENCE) -> Settings:
    return Settings(flashing, 115200, Wiring(), unprotect, resume, patience)


def flash_device(
    device: Device,
    flashing: Flashing,
    data: bytes,
    faults: Faults | None = None,
    unprotect: bool = False,
    at: int = 0,
    resume: bool = False,
    patience: float = PATIENCE,
) -> Outcome:
    """Flashes `data` at offset `at` of the flash, over a pseudo terminal."""
    with plugged(device, faults) as plug, open_port(plug.name) as port:
        plan = plan_of(Image(flashing.origin + at, data), flashing)
        return flash(port, plan, settings(flashing, unprotect, resume, patience), lambda *_: None)


def erase_device(device: Device, flashing: Flashing) -> None:
    with plugged(device) as plug, open_port(plug.name) as port:
        erase(port, settings(flashing), lambda *_: None)


def small(flashing: Flashing, sectors: int) -> Flashing:
    """The same chip with fewer sectors."""
    return replace(flashing, sectors=flashing.sectors[:sectors])
