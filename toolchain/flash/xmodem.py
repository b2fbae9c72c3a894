# SPDX-License-Identifier: Apache-2.0
"""XMODEM-CRC and YMODEM, for boot loaders of users' own (Chuck Forsberg, XMODEM/YMODEM Protocol Reference, 1988).

The receiver drives: it asks with 'C'. It tells neither chip nor content, so the proof is the CRC of each block and what
the started firmware says. Receivers that want the plain checksum are refused: it misses too much.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import FlashError, Garbage, NoAnswer, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.flash.streaming import Streaming


class Control(IntEnum):
    """Reference, chapter 7 (CRC: 'C' is the receiver's start character)."""

    SOH = 0x01
    STX = 0x02
    EOT = 0x04
    ACK = 0x06
    NAK = 0x15
    CAN = 0x18
    CRC = 0x43


NAME = b"firmware.bin"
PAD = b"\x1a"
SMALL, LARGE = 128, 1024
ASK_S, REPLY_S, TRIES = 15.0, 10.0, 10
"""Receivers ask every 3 to 14 s."""


class Xmodem(Streaming):
    """See BootLoader."""

    proof = Proof.TRANSFER

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        super().__init__(port)
        self.line = Line(baud)
        self._patience = patience
        self._named = flashing.protocol == "ymodem"

    def connect(self) -> Identity:
        self._await_request()
        return Identity("YMODEM receiver" if self._named else "XMODEM receiver")

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """The receiver erases what it needs."""

    def write(self, address: int, data: bytes, step: Step) -> None:
        size = LARGE if self._named else SMALL
        if self._named:
            self._block(0, (NAME + b"\0" + str(len(data)).encode("ascii") + b"\0").ljust(SMALL, b"\0"))
            self._await_request()
        for number, at in enumerate(range(0, len(data), size), 1):
            self._block(number, data[at : at + size].ljust(size, PAD))
            step(min(at + size, len(data)))
        self._finish()
        if self._named:
            # The file is acknowledged already, and some receivers are gone by now.
            with suppress(NoAnswer, Garbage):
                self._await_request()
                self._block(0, bytes(SMALL), 1)

    def verify(self, address: int, data: bytes, step: Step) -> None:
        """Nothing can be compared; see `proof`."""

    def start(self, address: int) -> bool:
        """Such boot loaders start what they have received by themselves."""
        return True

    def _await_request(self) -> None:
        heard = b""
        for _ in range(TRIES * SMALL):
            answer = self._port.take(1, ASK_S * self._patience)
            if answer == bytes((Control.CRC,)):
                self._port.drain()
                return
            if not answer:
                break
            heard += answer
        if heard and not heard.strip(bytes((Control.NAK,))):
            raise FlashError(
                "this receiver wants XMODEM's plain checksum, which misses too much",
                where=self._port.name,
                allowed="a receiver that asks with 'C' (CRC)",
            )
        if heard:
            raise Garbage(
                "what answers does not ask for a file",
                where=self._port.name,
                got=heard[:16].hex(" "),
                allowed="'C'",
                hint="start the boot loader's receive command; check the rate: baud=",
            )
        raise NoAnswer(
            "nobody asks for a file", where=self._port.name, hint="start the boot loader's receive command, then flash"
        )

    def _block(self, number: int, data: bytes, tries: int = TRIES) -> None:
        """Sends until it is acknowledged; a receiver drops what it has already."""
        kind = Control.STX if len(data) == LARGE else Control.SOH
        head = bytes((kind, number & 0xFF, ~number & 0xFF))
        self._repeat(head + data + crc_hqx(data, 0).to_bytes(2, "big"), f"block {number}", tries)

    def _finish(self) -> None:
        """The first EOT may be refused, to be sure that it is none by chance."""
        self._repeat(bytes((Control.EOT,)), "the end of the file")

    def _repeat(self, frame: bytes, what: str, tries: int = TRIES) -> None:
        heard = b""
        for _ in range(tries):
            self._port.drain()
            self._port.write(frame)
            answer = self._port.take(1, REPLY_S * self._patience)
            while answer == bytes((Control.CRC,)):  # asked again before it saw the block
                answer = self._port.take(1, REPLY_S * self._patience)
            if answer == bytes((Control.ACK,)):
                return
            if answer == bytes((Control.CAN,)):
                raise Refused(f"the boot loader cancels at {what}", where=self._port.name, hint="is the image too big?")
            heard += answer
        raise NoAnswer(
            f"{what} is not acknowledged, {tries} times",
            where=self._port.name,
            got=heard.hex(" ") or "nothing",
            hint="start the boot loader's receive command, then flash again",
        )


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Xmodem:
    """See protocol.Maker."""
    return Xmodem(port, flashing, baud, patience)
