# SPDX-License-Identifier: Apache-2.0
"""The variables about the device: which port, how fast, by which protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boards.flashing import PROTOCOLS
from compiler.errors import UserError
from toolchain.flash.wiring import Wiring, read_wiring

LOWEST_BAUD, HIGHEST_BAUD = 300, 4_000_000


@dataclass(frozen=True)
class Link:
    """`baud` is the boot loader's rate, 0 for its usual one; the console's is the board's. `protocol` is empty for the
    board's."""

    ports: tuple[str, ...] = ()
    baud: int = 0
    protocol: str = ""
    wiring_text: str = ""
    unprotect: bool = False
    resume: bool = False
    log: Path | None = None

    @property
    def port(self) -> str:
        """The only port. UserError where there is none, or more than one."""
        if not self.ports:
            raise no_port()
        if len(self.ports) > 1:
            raise UserError("this works on one device", where="port=", got=", ".join(self.ports), allowed="one port")
        return self.ports[0]

    @property
    def wiring(self) -> Wiring:
        return read_wiring(self.wiring_text)


def no_port() -> UserError:
    """The error where a device is needed and none is named."""
    return UserError(
        "no port is given",
        allowed="port=/dev/ttyUSB0, a pty, or a URL such as socket://HOST:PORT",
        hint="`python -m serial.tools.list_ports` lists the serial ports",
    )


def read_link(variables: Mapping[str, Any], directory: Path) -> Link:
    """Checks port=, baud=, protocol=, wiring=, unprotect=, resume= and log=. UserError where one is at fault."""
    ports = tuple(filter(None, (name.strip() for name in variables["port"].split(","))))
    if len(set(ports)) != len(ports):
        raise UserError("a port is named twice", where="port=", got=", ".join(ports))
    baud = variables["baud"]
    if baud and not (baud.isdecimal() and LOWEST_BAUD <= int(baud) <= HIGHEST_BAUD):
        raise UserError("not a rate", where="baud=", got=baud, allowed=f"{LOWEST_BAUD} to {HIGHEST_BAUD} bits a second")
    protocol = variables["protocol"]
    if protocol and protocol not in PROTOCOLS:
        raise UserError("no such protocol", where="protocol=", got=protocol, allowed=", ".join(PROTOCOLS))
    read_wiring(variables["wiring"])
    log = directory / variables["log"] if variables["log"] else None
    if log is not None and (log.is_dir() or not log.parent.is_dir()):
        raise UserError("the log cannot be written", where=f"log={variables['log']}", allowed="a file in a folder")
    choices = bool(variables["unprotect"]), bool(variables["resume"])
    return Link(ports, int(baud or 0), protocol, variables["wiring"], *choices, log)
