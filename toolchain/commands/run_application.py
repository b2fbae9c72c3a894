# SPDX-License-Identifier: Apache-2.0
"""`run` with an application: boots it in the emulator and shows what it sends."""

from __future__ import annotations

import sys
import time

from compiler.errors import CheckFailed, UserError
from qemu.machine import Emulation, EmulatorError
from qemu.stack import StackRegion
from toolchain.elf.faults import FAULT, decode_fault
from toolchain.emulation import Built
from toolchain.report.terminal import Terminal
from toolchain.request import Request

SECONDS = 10.0
SILENCE = 2.0


def run_application(request: Request) -> None:
    """Shows the UART's output until it is silent for SILENCE seconds, at most for SECONDS. Raises UserError where the
    application faults."""
    terminal, built = Terminal(request.quiet), Built.of(request)
    terminal.stage("boot", f"{built.elf.name} on {request.board.emulator.machine}, for up to {SECONDS:.0f} s")
    stack = StackRegion.of(built.elf)
    try:
        with Emulation(built.board.emulator, built.elf, 60.0) as emulation:
            stack.paint(emulation)
            emulation.resume()
            text = _listen(emulation)
            used = stack.high_water(emulation)
    except EmulatorError as error:
        raise CheckFailed(f"{built.elf.name} under the emulator: {error}") from error
    for line in text.splitlines():
        if FAULT.search(line):
            raise UserError(
                "the application faults",
                where=f"app={built.report['app']}",
                got=decode_fault(line, built.elf, built.report),
            )
    built.report["stack"]["measured"] = used
    built.record()
    terminal.stage("stack", f"{used:,} bytes used of a proven bound of {built.report['stack']['bound']:,}")


def _listen(emulation: Emulation) -> str:
    """What comes out of the UART, shown as it comes."""
    start = last = time.monotonic()
    found = ""
    while time.monotonic() < start + SECONDS and time.monotonic() < last + SILENCE:
        text = emulation.read(0.1).decode("utf-8", "replace")
        if text:
            found, last = found + text, time.monotonic()
            sys.stdout.write(text.replace("\r\n", "\n"))
            sys.stdout.flush()
    return found
