# SPDX-License-Identifier: Apache-2.0
"""Nordic's serial DFU of nRF5 SDK 11 and before, which Adafruit's boot loader for nRF52 boards speaks (nRF5 SDK 11,
HCI transport and DFU; adafruit/Adafruit_nRF52_Bootloader).

Packets are numbered and acknowledged; nothing else is ever answered. The boot loader compares a CRC-16 of the flash in
the end and starts the program only if that is right: where it still listens then, it has refused the program.
"""

from __future__ import annotations

import struct
import time
from binascii import crc_hqx
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import Damaged, Echo, Garbage, LinkLost, Mismatch, NoAnswer, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.flash.streaming import Streaming


class Packet(IntEnum):
    """dfu_types.h. NOTHING is acknowledged and dropped."""

    NOTHING = 0
    INIT = 1
    START = 3
    DATA = 4
    STOP = 5


END, ESCAPE = b"\xc0", b"\xdb"
ESCAPED = ((ESCAPE, b"\xdb\xdd"), (END, b"\xdb\xdc"))
VENDOR, ACKNOWLEDGEMENT = 14, 0
"""Types of HCI packets."""
NUMBERS = 8
FIRST = 1
"""Packets are numbered modulo NUMBERS; a boot loader that has just started expects FIRST."""
RELIABLE = 0xC0
"""Bits of a header's first byte: numbered, and with a CRC."""
APPLICATION = 4
"""Bit of the start packet: what is updated."""
ANY_DEVICE, ANY_REVISION, ANY_VERSION, ANY_SOFTDEVICE = 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFE
CHUNK, PAGE = 512, 4096
TRIES, ACK_S = 6, 1.0
ERASE_S, WRITE_S = 0.09, 0.1
"""A page, at the slowest; the chip hears nothing meanwhile."""
LEAST_ERASE_S = 0.5


class Restarted(Refused):
    """It expects other numbers than before."""


class NordicDfu(Streaming):
    """See BootLoader."""

    proof = Proof.TRANSFER

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        super().__init__(port)
        self.line = Line(baud)
        self._flashing, self._patience = flashing, patience
        self._number = FIRST
        self._noise = b""
        """What came instead of the last acknowledgement."""

    def connect(self) -> Identity:
        """It does not tell what it is: one that acknowledges has to do."""
        self._number = FIRST
        self._synchronize()
        return Identity("Nordic serial DFU")

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """The boot loader erases when it is told the size."""

    def write(self, address: int, data: bytes, step: Step) -> None:
        """The whole program: the boot loader stores it where its programs begin."""
        if not self._begin(data) and not self._begin(data):
            raise Refused("the boot loader restarts when it is told the size", where=self._port.name)
        self._distinguish(address)
        self._send(Packet.INIT, init_packet(self._flashing.family or ANY_DEVICE, data), address)
        for at in range(0, len(data), CHUNK):
            self._send(Packet.DATA, data[at : at + CHUNK], address + at)
            step(min(at + CHUNK, len(data)))
            if (at + CHUNK) % PAGE == 0:
                self._pause(WRITE_S)
        self._pause(WRITE_S)
        self._stop(address, _pages(data))

    def verify(self, address: int, data: bytes, step: Step) -> None:
        """The boot loader has done so."""

    def start(self, address: int) -> bool:
        """It has started what it has received by itself."""
        return True

    def _begin(self, data: bytes) -> bool:
        """Tells the size and waits for the erasure. False where the boot loader has restarted instead, as it does when
        another transfer was cut off before."""
        self._distinguish(self._flashing.origin)
        self._send(Packet.START, struct.pack("<IIII", APPLICATION, 0, 0, len(data)), self._flashing.origin)
        self._pause(max(LEAST_ERASE_S, ERASE_S * _pages(data)))
        return self._synchronize()

    def _stop(self, address: int, pages: int) -> None:
        """Ends the transfer. A boot loader that has accepted the program is gone, or has restarted."""
        self._distinguish(address)
        with suppress(Restarted):  # it was quicker than its answer
            self._send(Packet.STOP, b"", address)
        # A boot loader with two banks copies the program: a reset in between would spoil that.
        self._pause((ERASE_S + WRITE_S) * pages)
        try:
            # A packet out of turn, which is answered with the number that is expected.
            expected = self._exchange((self._number + NUMBERS // 2) % NUMBERS, Packet.NOTHING, b"")
        except LinkLost:
            return  # a USB port vanishes with the boot loader
        if expected == self._number:
            raise Mismatch(address, None, None)

    def _distinguish(self, address: int) -> None:
        """Goes on until the numbers to come are others than those that a boot loader expects after a restart."""
        while (self._number + 1) % NUMBERS <= FIRST + 1:
            self._send(Packet.NOTHING, b"", address)

    def _synchronize(self) -> bool:
        """Finds out which number is expected next. Whether that was known."""
        known = True
        for _ in range(TRIES):
            expected = self._exchange(self._number, Packet.NOTHING, b"")
            if expected == (self._number + 1) % NUMBERS:
                self._number = expected
                return known
            if expected is not None:
                self._number, known = expected, False
        if self._noise:
            raise Garbage(
                "what answers is no serial DFU boot loader, or the line is disturbed",
                where=self._port.name,
                got=self._noise.hex(" "),
                allowed="acknowledgements between c0 bytes",
                hint="the application may be running instead: enter the boot loader again; check the rate: baud=",
            )
        raise NoAnswer(
            "no answer from the boot loader",
            where=self._port.name,
            hint=f"bring the board into its boot loader ({self._flashing.enter or 'see its manual'}); TX and RX may be "
            "swapped",
        )

    def _send(self, kind: Packet, payload: bytes, address: int) -> None:
        """Sends until it is acknowledged. `address` is what would be damaged."""
        for _ in range(TRIES):
            expected = self._exchange(self._number, kind, payload)
            if expected == (self._number + 1) % NUMBERS:
                self._number = expected
                return
            if expected is not None and expected != self._number:
                raise Restarted(
                    "the boot loader has restarted in the middle of the transfer",
                    where=self._port.name,
                    hint="the chip holds no program now. It restarts where a program is not for it: is this the right "
                    "board?",
                )
        raise Damaged(address)

    def _exchange(self, number: int, kind: Packet, payload: bytes) -> int | None:
        """Sends a packet once; the number that is expected next, None without an acknowledgement."""
        self._port.drain()
        sent = packet(number, kind.to_bytes(4, "little") + payload)
        self._port.write(sent)
        heard, self._noise, end = bytearray(), b"", time.monotonic() + ACK_S * self._patience
        while (left := end - time.monotonic()) > 0:
            heard += self._port.read(left)
            self._noise = self._noise or bytes(heard[:16])
            if heard.startswith(sent):
                raise Echo("the bytes that we send come back", where=self._port.name, hint="TX and RX are joined")
            *frames, rest = bytes(heard).split(END)
            for frame in frames:
                if (expected := acknowledged(frame)) is not None:
                    return expected
            # An echo is told by its beginning, which is kept.
            if not sent.startswith(heard):
                heard = bytearray(rest[-8:])
        return None

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds * self._patience)


def packet(number: int, payload: bytes) -> bytes:
    """An HCI packet of the vendor's type (Bluetooth Core 4.2, volume 4 part D), in SLIP (RFC 1055)."""
    first = number | (number + 1) % NUMBERS << 3 | RELIABLE
    head = bytes((first, VENDOR | (len(payload) & 0xF) << 4, len(payload) >> 4))
    body = head + bytes((-sum(head) & 0xFF,)) + payload
    body += crc_hqx(body, 0xFFFF).to_bytes(2, "little")
    for plain, escaped in ESCAPED:
        body = body.replace(plain, escaped)
    return END + body + END


def acknowledged(frame: bytes) -> int | None:
    """The number that an acknowledgement asks for next; None for any other frame."""
    good = len(frame) == 4 and not sum(frame) & 0xFF and frame[1] & 0xF == ACKNOWLEDGEMENT and not frame[0] & RELIABLE
    return frame[0] >> 3 & 0x7 if good else None


def init_packet(device: int, data: bytes) -> bytes:
    """What the program is for, and its CRC (nRF5 SDK 11, dfu_init.h), to whole words."""
    fields = (device, ANY_REVISION, ANY_VERSION, 1, ANY_SOFTDEVICE, crc_hqx(data, 0xFFFF))
    return struct.pack("<HHIHHH2x", *fields)


def _pages(data: bytes) -> int:
    return -(-len(data) // PAGE)


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> NordicDfu:
    """See protocol.Maker."""
    return NordicDfu(port, flashing, baud, patience)
