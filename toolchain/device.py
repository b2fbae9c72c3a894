# SPDX-License-Identifier: Apache-2.0
"""The firmware on a device, or in an emulator with a pty: the console at the end of a serial port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from compiler.errors import CheckFailed, UserError
from qemu.console import Console, ConsoleError, DeviceError, SilentDevice, Timeouts
from toolchain.emulation import INFER_SECONDS, Built, require_console
from toolchain.flash.errors import NoAnswer
from toolchain.flash.port import Line, Port, open_port
from toolchain.rows import Samples, split_outputs
from toolchain.serial_link import Link

GREETINGS, GREETING_S, QUIET_S = 6, 1.0, 0.15
"""A board that is reset by the opening of its port takes a while."""


@dataclass(frozen=True)
class Connected:
    """A board that answers. The same as emulation.Powered for commands."""

    built: Built
    console: Console

    def infer(self, samples: Samples) -> list[NDArray[Any]]:
        """Runs every row, its inputs sent over the line. The rows of a stateful model are consecutive steps after a
        reset."""
        if self.built.report["model"]["stateful"]:
            self.console.reset()
        return split_outputs(list(self.console.run(samples.rows())), self.built.outputs)

    def stack_used(self) -> int:
        """Bytes of stack that were ever written to, as the firmware finds them."""
        return self.console.stack()[0]


def greet(port: Port, greetings: int = GREETINGS) -> Console:
    """Gets in step with the firmware's console, whether it just booted or waits since long. NoAnswer where nothing
    speaks."""
    heard = b""
    for _ in range(greetings):
        port.drain(QUIET_S)
        # Ends whatever an earlier host left unfinished; the answer is an error or none.
        port.write(b"%")
        heard = port.read(GREETING_S) + port.drain(QUIET_S)
        if b"m-ready" in heard:
            return Console(port, timeouts=Timeouts(infer_s=INFER_SECONDS))
    raise NoAnswer(
        "the firmware does not answer on its console",
        where=port.name,
        got=repr(heard[-60:]) if heard else "nothing",
        hint="flash the board first; set its boot pin back and reset it; RX and TX of the console's pins "
        "(docs/FLASHING.md) go to the adapter",
    )


@contextmanager
def connected(built: Built, link: Link) -> Iterator[Connected]:
    """The console at the port. UserError where nobody, or another model's firmware, answers; CheckFailed where the
    firmware fails."""
    require_console(built)
    wiring = link.wiring
    with open_port(link.port, Line(built.board.console.baud), **wiring.idle()) as port:
        try:
            console = greet(port)
            _same_model(console.model(), built)
            yield Connected(built, console)
        except SilentDevice as error:
            raise NoAnswer(
                "the firmware stopped answering", where=port.name, got=str(error), hint="reset the board; flash again"
            ) from error
        except DeviceError as error:
            raise CheckFailed(f"{built.board.name} at {port.name}: {error}") from error
        except ConsoleError as error:
            raise UserError(
                "what answers is not this firmware", where=port.name, got=str(error), hint="flash this build first"
            ) from error


def _same_model(found: str, built: Built) -> None:
    wanted = str(built.report["model"]["name"])
    if found != wanted:
        raise UserError(
            "the device runs the firmware of another model",
            got=found,
            allowed=wanted,
            hint="flash this build first: the target `flash`",
        )
