# SPDX-License-Identifier: Apache-2.0
"""Reset and boot pin by DTR and RTS, as the user's adapter is wired."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from compiler.errors import UserError
from toolchain.flash.port import Port

RESET_S, SETTLE_S, BOOT_S = 0.1, 0.02, 0.15
"""Length of the reset pulse, of the boot pin's lead, and what a boot loader takes until it listens."""
_ENTRY = re.compile(r"(reset|boot):(!?)(dtr|rts)")
ALLOWED = "reset:LINE and boot:LINE, comma separated; LINE is dtr, rts, !dtr or !rts"


@dataclass(frozen=True)
class Pin:
    """A modem line; the pin is active (in reset, or booting the loader) while the line is asserted, which on an
    adapter means low, or with `inverted` while it is not."""

    line: str
    inverted: bool

    def level(self, active: bool) -> bool:
        return active != self.inverted


@dataclass(frozen=True)
class Wiring:
    """None: that pin is not wired, a person does it."""

    reset: Pin | None = None
    boot: Pin | None = None

    def idle(self) -> dict[str, bool]:
        """The levels in which the application runs, by line."""
        return {pin.line: pin.level(False) for pin in (self.reset, self.boot) if pin is not None}

    def enter(self, port: Port) -> bool:
        """Resets into the boot loader. False where there is nothing to do it with."""
        return self._restart(port, True)

    def leave(self, port: Port) -> bool:
        """Resets into the application. False where there is nothing to do it with."""
        return self._restart(port, False)

    def _restart(self, port: Port, boot: bool) -> bool:
        if self.boot is not None:
            _set(port, self.boot, boot)
            time.sleep(SETTLE_S)
        if self.reset is None or not self._works(port):
            return False
        _set(port, self.reset, True)
        time.sleep(RESET_S)
        _set(port, self.reset, False)
        time.sleep(BOOT_S)
        return self._works(port)

    @staticmethod
    def _works(port: Port) -> bool:
        return port.has_lines


def _set(port: Port, pin: Pin, active: bool) -> None:
    port.set_modem(**{pin.line: pin.level(active)})


def read_wiring(text: str) -> Wiring:
    """`reset:rts,boot:!dtr` to pins. UserError for anything else."""
    pins: dict[str, Pin] = {}
    for entry in filter(None, text.split(",")):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None or match[1] in pins or any(pin.line == match[3] for pin in pins.values()):
            raise UserError("not a wiring", where="wiring=", got=text, allowed=ALLOWED)
        pins[match[1]] = Pin(match[3], bool(match[2]))
    return Wiring(pins.get("reset"), pins.get("boot"))
