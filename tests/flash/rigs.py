# SPDX-License-Identifier: Apache-2.0
"""Each protocol of ours with a device for it, small enough to be filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from boards.flashing import Flashing
from tests.flash.bench import flashing_of, image, small
from tests.flash.lpc_device import LpcDevice
from tests.flash.nordic_dfu_device import NordicDfuDevice
from tests.flash.sam_chips import SamD, SamE
from tests.flash.samba_device import SambaDevice
from tests.flash.smp_device import SmpDevice
from tests.flash.stm32_device import Stm32Device
from tests.flash.wch_device import WchDevice
from tests.flash.xmodem_device import XmodemDevice
from toolchain.images.mcuboot import with_header

RigDevice = Stm32Device | WchDevice | LpcDevice | SambaDevice | SmpDevice | NordicDfuDevice | XmodemDevice


@dataclass(frozen=True)
class Rig:
    """`wrap` makes a program what the boot loader takes."""

    flashing: Flashing
    device: Callable[[Flashing], RigDevice]
    wrap: Callable[[bytes], bytes] = bytes

    @property
    def room(self) -> int:
        """Bytes of a program that fills the flash."""
        return self.flashing.end - self.flashing.origin - len(self.wrap(b""))

    def image(self, size: int, seed: int = 0) -> bytes:
        """A program of `size` bytes, as it is flashed."""
        return self.wrap(image(size, seed))

    def held(self, device: RigDevice, size: int) -> bytes:
        """The first bytes of what came to the device."""
        return bytes(
            device.received[:size]
            if isinstance(device, XmodemDevice)
            else device.flash.read(self.flashing.origin, size)
        )


_BLUEPILL, _LPC1768 = small(flashing_of("bluepill"), 8), small(flashing_of("lpc1768"), 2)
_CHIPID_8_KB = 0x285E0160
RIGS = {
    "stm32": Rig(_BLUEPILL, Stm32Device),
    "py32": Rig(replace(_BLUEPILL, protocol="py32", size_at=0), lambda flashing: Stm32Device(flashing, extended=True)),
    "wch": Rig(small(flashing_of("ch32v307"), 8), WchDevice),
    "lpc": Rig(_LPC1768, LpcDevice),
    "lpc8xx": Rig(
        small(flashing_of("lpc845brk"), 8),
        lambda flashing: LpcDevice(flashing, chip_id=flashing.chip_ids[0], plain=True, hidden=0),
    ),
    "samd21": Rig(small(flashing_of("arduino_zero"), 32), lambda flashing: SambaDevice(SamD(flashing))),
    "samd21_uart": Rig(
        small(flashing_of("arduino_zero"), 32), lambda flashing: SambaDevice(SamD(flashing), False, "XYZ")
    ),
    "sam3x": Rig(
        replace(small(flashing_of("arduino_due"), 32), chip_ids=(_CHIPID_8_KB,)),
        lambda flashing: SambaDevice(SamE(flashing, cidr=_CHIPID_8_KB), usb=False, extensions=""),
    ),
    "smp": Rig(small(flashing_of("nrf52840dk_mcuboot"), 2), SmpDevice, with_header),
    "nordic_dfu": Rig(small(flashing_of("feather_nrf52832"), 2), NordicDfuDevice),
    "xmodem": Rig(replace(_BLUEPILL, protocol="xmodem", word=1), lambda _: XmodemDevice()),
    "ymodem": Rig(replace(_BLUEPILL, protocol="ymodem", word=1), lambda _: XmodemDevice(named=True)),
}
