# SPDX-License-Identifier: Apache-2.0
"""Every protocol over every kind of bad line: the image byte for byte, or a clear failure; never a false success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from boards.flashing import Flashing
from tests.flash.bench import flash_device, flashing_of, image
from tests.flash.line import Faults
from tests.flash.lpc_device import LpcDevice
from tests.flash.smp_device import SmpDevice
from tests.flash.stm32_device import Stm32Device
from tests.flash.wch_device import WchDevice
from tests.flash.xmodem_device import XmodemDevice
from toolchain.flash.errors import FlashError
from toolchain.mcuboot_image import with_header

SIZE = 1500
BLUEPILL, V307 = flashing_of("bluepill"), flashing_of("ch32v307")
XMODEM = replace(BLUEPILL, protocol="xmodem", word=1)
LPC1768 = flashing_of("lpc1768")
LPC8XX = replace(LPC1768, protocol="lpc8xx", word=64)
MCUBOOT = flashing_of("nrf52840dk_mcuboot")
Rig = Stm32Device | WchDevice | LpcDevice | SmpDevice | XmodemDevice
RIGS: dict[str, tuple[Flashing, Callable[[Flashing], Rig]]] = {
    "stm32": (BLUEPILL, Stm32Device),
    "wch": (V307, WchDevice),
    "lpc": (LPC1768, LpcDevice),
    "lpc8xx": (LPC8XX, lambda flashing: LpcDevice(flashing, plain=True, hidden=0)),
    "smp": (MCUBOOT, SmpDevice),
    "xmodem": (XMODEM, lambda _: XmodemDevice()),
}
GENTLE = (Faults(), Faults(lost=0.001), Faults(flipped=0.001), Faults(stall_s=0.1))
HARSH = tuple(
    replace(faults, seed=seed)
    for seed in (1, 2, 3)
    for faults in (Faults(lost=0.01), Faults(flipped=0.01), Faults(stall_s=0.2), Faults(lost=0.003, flipped=0.003))
)
CUTS = tuple(Faults(cut=cut) for cut in range(20, 5000, 530))


def attempt(protocol: str, faults: Faults) -> bool:
    """Whether the session called itself good; asserts that it then was."""
    flashing, make = RIGS[protocol]
    data = image(SIZE, faults.seed)
    if flashing is MCUBOOT:
        data = with_header(data)
    device = make(flashing)
    try:
        flash_device(device, flashing, data, faults)
    except FlashError as error:
        assert str(error)
        return False
    held = device.received if isinstance(device, XmodemDevice) else device.flash.read(flashing.origin, len(data))
    assert held[: len(data)] == data
    return True


@pytest.mark.parametrize("protocol", tuple(RIGS))
@pytest.mark.parametrize("faults", GENTLE, ids=str)
def test_gentle_lines(protocol: str, faults: Faults) -> None:
    good = attempt(protocol, faults)
    assert good or faults != Faults()


@pytest.mark.sweep
@pytest.mark.parametrize("protocol", tuple(RIGS))
@pytest.mark.parametrize("faults", (*HARSH, *CUTS), ids=str)
def test_harsh_lines(protocol: str, faults: Faults) -> None:
    good = attempt(protocol, faults)
    assert not (good and faults in CUTS and faults.cut is not None and faults.cut < SIZE)


@pytest.mark.parametrize("faults", HARSH[:2], ids=str)
def test_stm32_gets_through_one_percent(faults: Faults) -> None:
    assert attempt("stm32", replace(faults, lost=faults.lost / 2, flipped=faults.flipped / 2))
