# SPDX-License-Identifier: Apache-2.0
"""A chip with a SAM-BA monitor: Arduino's with its extensions, or one without. Over USB blocks are plain, over a UART
they go by XMODEM, after the rate was found."""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass, field

from tests.flash import thumb
from tests.flash.line import Line
from tests.flash.memory import Flash
from tests.flash.sam_chips import BusFault, Chip

SOH, EOT, ACK, NAK, CAN = b"\x01", b"\x04", b"\x06", b"\x15", b"\x18"
VERSION = "v2.0 {}Mar 19 2018 09:45:14"
BLOCK = 128
ASK_S, ASKS = 0.02, 100
"""The monitor asks for a block every 16 ms or so, a hundred times."""


@dataclass
class SambaDevice:
    """`extensions`: such as `XYZ`, empty for none. `zeros`: blocks of flash read as zeros, as one ROM has it; words do
    not. `fault`: the access that hung the chip, after which nothing answers."""

    chip: Chip
    usb: bool = True
    extensions: str = "XYZ"
    zeros: bool = False
    in_step: bool = False
    fault: str | None = None
    commands: list[str] = field(default_factory=list)

    def serve(self, line: Line) -> None:
        self._line = line
        self._source = 0
        while not (self.usb or self.in_step):
            self._find_rate()
        try:
            self._monitor()
        except BusFault as error:
            self.fault = str(error)
        while True:
            line.take(1)

    @property
    def flash(self) -> Flash:
        return self.chip.flash

    @property
    def started(self) -> bool:
        return self.chip.restarted and self.chip.boots_flash

    def _find_rate(self) -> None:
        if self._line.take(1) == b"\x80" and self._line.take(1) == b"\x80" and self._line.take(1) == b"#":
            self._line.give(b"\n\r>")
            self.in_step = True

    def _monitor(self) -> None:
        """A letter begins a command, digits a number, a comma ends the address, # does it."""
        command, address, number, digits = "z", 0, 0, ""
        while not self.chip.restarted:
            char = self._line.take(1).decode("latin-1")
            if char in "0123456789abcdefABCDEF":
                number = (number << 4 | int(char, 16)) & 0xFFFFFFFF
                digits += char
            elif char == ",":
                address, number = number, 0
                digits += char
            elif char == "#":
                self.commands.append(command + digits)
                self._execute(command, address, number)
                command, number, digits = "z", 0, ""
            elif char != "\xff":
                command, number, digits = char, 0, ""

    def _execute(self, command: str, address: int, number: int) -> None:
        chip = self.chip
        if command == "S":
            self._receive(address, number)
        elif command == "R":
            self._send(address, number)
        elif command in "OHW":
            chip.store(address, {"O": 1, "H": 2, "W": 4}[command], number)
        elif command in "ohw":
            size = {"o": 1, "h": 2, "w": 4}[command]
            self._line.give(chip.read(address, size))
        elif command == "G":
            thumb.call(chip, chip.load(number + 4, 4), chip.load(number, 4))
            if chip.answers_call and not self.usb:
                self._line.give(ACK)
        elif command == "N":
            self._line.give(b"\n\r")
        elif command == "V":
            told = f"[Arduino:{self.extensions}] " if self.extensions else ""
            self._line.give(VERSION.format(told).encode("ascii") + b"\n\r")
        elif command in self.extensions:
            self._line.give(command.encode("ascii") + self._extension(command, address, number) + b"\n\r")

    def _extension(self, command: str, address: int, number: int) -> bytes:
        """X erases from an address to the end; Y takes an address in RAM, then writes from there; Z tells a CRC."""
        if command == "Z":
            return f"{crc_hqx(self.chip.read(address, number), 0):08X}#".encode("ascii")
        if command == "X":
            for sector in self.chip.flashing.sectors:
                if sector.end > number:
                    self.chip.flash.erase(sector.number)
        elif number == 0:
            self._source = address
        else:
            for at in range(0, number // 4 * 4, 4):
                self.chip.buffer[address + at] = self.chip.load(self._source + at, 4)
                if (address + at) % self.chip.page == self.chip.page - 4 or at + 4 >= number // 4 * 4:
                    self.chip.program((address + at) // self.chip.page * self.chip.page)
        return b""

    def _put(self, address: int, data: bytes) -> None:
        for i, byte in enumerate(data):
            self.chip.store(address + i, 1, byte)

    def _receive(self, address: int, size: int) -> None:
        if self.usb:
            self._put(address, self._line.take(size))
            return
        for _ in range(ASKS):
            self._line.give(b"C")
            kind = self._line.take(1, ASK_S)
            if kind:
                break
        else:
            return
        number, left = 1, size
        while kind == SOH:
            packet = self._line.take(BLOCK + 4)
            body = packet[2 : BLOCK + 2]
            whole = packet[BLOCK + 2 :] == crc_hqx(body, 0).to_bytes(2, "big")
            if packet[:2] != bytes((number & 0xFF, ~number & 0xFF)) or not whole:
                self._line.give(CAN)
                return
            self._put(address, body[:left])
            address, number, left = address + BLOCK, number + 1, max(0, left - BLOCK)
            self._line.give(ACK)
            kind = self._line.take(1)
        if kind == EOT:
            self._line.give(ACK)

    def _send(self, address: int, size: int) -> None:
        data = self.chip.read(address, size)
        if self.zeros and self.chip.flash.holds(address, size):
            data = bytes(size)
        if self.usb:
            self._line.give(data)
            return
        while (asked := self._line.take(1)) not in (b"C", NAK):
            if asked == b"q":
                return
        number = 1
        while data:
            body = data[:BLOCK].ljust(BLOCK, b"\0")
            head = bytes((SOH[0], number & 0xFF, ~number & 0xFF))
            self._line.give(head + body + crc_hqx(body, 0).to_bytes(2, "big"))
            if self._line.take(1) == ACK:
                data, number = data[BLOCK:], number + 1
        self._line.give(EOT)
        self._line.take(1)
