# SPDX-License-Identifier: Apache-2.0
"""Which SAM chip it is, and its flash controller."""

from __future__ import annotations

from boards.flashing import Flashing
from toolchain.flash.sam_controller import Controller
from toolchain.flash.sam_eefc import Eefc
from toolchain.flash.sam_nvm import NVM_D21, NVM_D51, Nvm
from toolchain.flash.samba_link import SambaLink

CPUID, DEVICE_ID, CHIP_IDS = 0xE000ED00, 0x41002018, (0x400E0740, 0x400E0940)
"""Arm's CPUID; DSU.DID; CHIPID_CIDR of SAM3X and SAM4S."""
DEVICE_MASK, CHIP_MASK = 0xFFFF00FF, 0x7FFFFFE0
"""Without die, revision and version."""
CORTEX_M0PLUS, CORTEX_M4 = 0xC600, 0xC240
ROM = 0x008
"""Where the ROM's reset vector points, in megabytes, on SAM4."""


def identify(link: SambaLink) -> int:
    """The chip, by registers that all with its core have: what lacks one would hang."""
    core = link.word(CPUID) & 0xFFF0
    if core == CORTEX_M0PLUS or (core == CORTEX_M4 and link.word(4) >> 20 != ROM):
        return link.word(DEVICE_ID) & DEVICE_MASK
    return next((found for at in CHIP_IDS if (found := link.word(at))), 0) & CHIP_MASK


def controller_of(chip_id: int, link: SambaLink, flashing: Flashing) -> Controller | None:
    """By the chip's series; None for one that is not known."""
    series, architecture = chip_id >> 16, chip_id >> 20 & 0xFF
    if series == 0x1001:
        return Nvm(link, NVM_D21)
    if series in (0x6006, 0x6181, 0x6183, 0x6184):
        return Nvm(link, NVM_D51)
    if architecture in (0x84, 0x85, 0x86):
        return Eefc(link, flashing, chip_id, page=256, planes=2, reset=0x400E1A00)
    if architecture in (0x88, 0x89, 0x8A):
        return Eefc(link, flashing, chip_id, page=512, planes=1, reset=0x400E1400)
    return None
