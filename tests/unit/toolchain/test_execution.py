# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from boards.loader import load_board
from toolchain.execution import roomy_board

ROOMY = {
    "ch32v003": "qemu_rv32ec",
    "esp32c3": "qemu_rv32imac",
    "hifive1b": "qemu_rv32imac",
    "microbit": "qemu_m0",
    "netduinoplus2": "qemu_m4f",
    "opentitan": "qemu_rv32imac",
    "qemu_m55": "qemu_m55",
}


@pytest.mark.parametrize("name", sorted(ROOMY))
def test_probes_run_where_there_is_room(name: str) -> None:
    """A chip that QEMU models has the core of others, and less RAM."""
    assert roomy_board(load_board(name)).name == ROOMY[name]
