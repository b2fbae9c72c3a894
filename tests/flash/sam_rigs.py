# SPDX-License-Identifier: Apache-2.0
"""The emulated SAM chips by name, with the data that they are flashed by."""

from __future__ import annotations

from dataclasses import replace

from boards.flashing import Flashing, parse_sectors
from tests.flash.bench import flashing_of
from tests.flash.sam_chips import Chip, SamD, SamE
from tests.flash.samba_device import SambaDevice

SAMD21, SAM3X = flashing_of("arduino_zero"), flashing_of("arduino_due")
SAMD51 = replace(SAMD21, origin=0x4000, sectors=parse_sectors(("30x8K",), 0x4000, ""), chip_ids=(0x60060006,), word=512)
SAM4S = replace(
    SAM3X, origin=0x400000, sectors=parse_sectors(("128x8K",), 0x400000, ""), chip_ids=(0x288C0CE0,), word=512
)
SAMS = {"samd21": SAMD21, "samd51": SAMD51, "sam3x": SAM3X, "sam4s": SAM4S}
MONITORS = (
    ("samd21", True, "XYZ"),
    ("samd21", False, "XYZ"),
    ("samd21", True, ""),
    ("samd51", True, "XYZ"),
    ("samd51", True, ""),
    ("sam3x", True, ""),
    ("sam3x", False, ""),
    ("sam4s", True, ""),
)
"""Chip, whether over USB, the monitor's extensions."""


def chip_of(name: str) -> Chip:
    if name == "sam3x":
        return SamE(SAM3X)
    if name == "sam4s":
        return SamE(SAM4S, cidr=0x288C0CE0, four=True)
    return SamD(SAMD51, did=0x60060306, big=True) if name == "samd51" else SamD(SAMD21)


def device_of(name: str, usb: bool = True, extensions: str = "") -> tuple[SambaDevice, Flashing]:
    return SambaDevice(chip_of(name), usb, extensions), SAMS[name]
