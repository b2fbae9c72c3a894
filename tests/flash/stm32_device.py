# SPDX-License-Identifier: Apache-2.0
"""An STM32 in its USART boot loader, to the letter of AN3155, with what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

from boards.flashing import Flashing
from tests.flash.line import Line
from tests.flash.memory import Flash

ACK, NACK, BUSY = b"\x79", b"\x1f", b"\x76"
_Handler = Callable[[Line], None]
_Pages = Sequence[int]
RAM = range(0x20000200, 0x20020000)


@dataclass
class Stm32Device:
    """`extended`: has 0x44 for 0x43. `locked`: readout protection. `write_protected`: sectors that erase and write
    leave alone, refused where `loud`. `busy`: sends 0x76 before the acknowledgement of an erasure."""

    flashing: Flashing
    chip_id: int = 0x410
    extended: bool = False
    kilobytes: int = 64
    locked: bool = False
    write_protected: frozenset[int] = frozenset()
    loud: bool = True
    busy: bool = False
    flash: Flash = field(init=False)
    started: int | None = None
    unprotected: int = 0
    in_step: bool = False
    ram: bytearray = field(default_factory=lambda: bytearray(0x20000))

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)

    def enter(self) -> None:
        """Reset with the boot pin set."""
        self.started, self.in_step = None, False
        self.flash.erased.clear()

    def serve(self, line: Line) -> None:
        while True:
            if not self.in_step:
                # The rate is measured on the start bit and ones of 0x7F alone.
                if line.take(1) == b"\x7f":
                    self.in_step = True
                    line.give(ACK)
                continue
            code, complement = line.take(2)
            if self.started is not None:
                self._console(line, bytes((code, complement)))
            elif code ^ complement != 0xFF or code not in self._commands():
                line.give(NACK)
            else:
                self._commands()[code](line)

    def _commands(self) -> dict[int, _Handler]:
        erase = {0x44: self._extended_erase} if self.extended else {0x43: self._erase}
        return {
            0x00: self._get,
            0x01: self._get_version,
            0x02: self._get_id,
            0x11: self._read,
            0x21: self._go,
            0x31: self._write,
            **erase,
            0x63: _refuse,
            0x73: self._write_unprotect,
            0x82: _refuse,
            0x92: self._readout_unprotect,
        }

    def _get(self, line: Line) -> None:
        commands = bytes(sorted(self._commands()))
        line.give(ACK + bytes((len(commands), 0x22)) + commands + ACK)

    def _get_version(self, line: Line) -> None:
        line.give(ACK + b"\x22\x00\x00" + ACK)

    def _get_id(self, line: Line) -> None:
        line.give(ACK + b"\x01" + self.chip_id.to_bytes(2, "big") + ACK)

    def _read(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK)
        address = _take_address(line)
        if address is None or self._memory(address, 1) is None:
            line.give(NACK)
            return
        line.give(ACK)
        count, complement = line.take(2)
        found = self._memory(address, count + 1)
        if count ^ complement != 0xFF or found is None:
            line.give(NACK)
            return
        line.give(ACK + found)

    def _memory(self, address: int, size: int) -> bytes | None:
        if self.flash.holds(address, size):
            return self.flash.read(address, size)
        if address in RAM and address + size - 1 in RAM:
            return bytes(self.ram[address - 0x20000000 :][:size])
        at = self.flashing.size_at
        if at and at & ~0xFF <= address and address + size <= (at & ~0xFF) + 256:
            page = bytearray(b"\xff" * 256)
            page[at & 0xFF : (at & 0xFF) + 2] = self.kilobytes.to_bytes(2, "little")
            return bytes(page[address & 0xFF : (address & 0xFF) + size])
        return None

    def _go(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK)
        address = _take_address(line)
        if address is None or not self.flash.holds(address, 8) or address % 4:
            line.give(NACK)
            return
        line.give(ACK)
        self.started = address

    def _write(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK)
        address = _take_address(line)
        to_ram = address in RAM
        if address is None or address % 4 or not (to_ram or self.flash.holds(address, 1)):
            line.give(NACK)
            return
        line.give(ACK)
        count = line.take(1)[0] + 1
        data = line.take(count)
        checksum = line.take(1)[0]
        word = 4 if to_ram else self.flashing.word
        inside = address + count - 1 in RAM if to_ram else self.flash.holds(address, count)
        if reduce(xor, data, count - 1) != checksum or count % 4 or count % word or not inside:
            line.give(NACK)
            return
        if to_ram:
            self.ram[address - 0x20000000 : address - 0x20000000 + count] = data
            line.give(ACK)
            return
        hit = {s.number for s in self.flashing.touched(address, count)} & self.write_protected
        if hit and self.loud:
            line.give(NACK)
            return
        if not hit:
            self.flash.program(address, data)
        line.give(ACK)

    def _erase(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK)
        count = line.take(1)[0]
        if count == 0xFF:
            self._erase_pages(line, range(len(self.flashing.sectors)), line.take(1) == b"\x00")
            return
        pages = line.take(count + 1)
        self._erase_pages(line, pages, reduce(xor, pages, count) == line.take(1)[0])

    def _extended_erase(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK)
        head = line.take(2)
        count = int.from_bytes(head, "big")
        if count >= 0xFFF0:
            good = line.take(1)[0] == head[0] ^ head[1] and count == 0xFFFF
            self._erase_pages(line, range(len(self.flashing.sectors)), good)
            return
        body = line.take(2 * (count + 1))
        pages = [int.from_bytes(body[i : i + 2], "big") for i in range(0, len(body), 2)]
        self._erase_pages(line, pages, reduce(xor, head + body, 0) == line.take(1)[0])

    def _erase_pages(self, line: Line, pages: _Pages, good: bool) -> None:
        hit = set(pages) & self.write_protected
        if not good or any(page >= len(self.flashing.sectors) for page in pages) or (hit and self.loud):
            line.give(NACK)
            return
        if self.busy:
            line.give(BUSY * 3)
        for page in pages:
            if page not in hit:
                self.flash.erase(page)
        line.give(ACK)

    def _write_unprotect(self, line: Line) -> None:
        if self.locked:
            line.give(NACK)
            return
        line.give(ACK + ACK)
        self.write_protected, self.in_step = frozenset(), False
        self.unprotected += 1

    def _readout_unprotect(self, line: Line) -> None:
        line.give(ACK + ACK)
        if self.locked:
            for sector in self.flashing.sectors:
                self.flash.erase(sector.number)
        self.locked, self.in_step = False, False
        self.unprotected += 1

    def _console(self, line: Line, said: bytes) -> None:
        """The application: it answers `name%`."""
        while True:
            while b"%" in said:
                command, _, said = said.partition(b"%")
                known = command.endswith(b"name")
                line.give(b"m-name-dut-[emulated]\r\nm-ready \r\n" if known else b"e-[Unknown command]\r\nm-ready \r\n")
            said += line.take(1)


def _refuse(line: Line) -> None:
    line.give(NACK)


def _take_address(line: Line) -> int | None:
    sent = line.take(5)
    return int.from_bytes(sent[:4], "big") if reduce(xor, sent) == 0 else None
