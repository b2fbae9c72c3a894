# SPDX-License-Identifier: Apache-2.0
"""WCH's ISP boot loader over UART (BTVER 2.x): CH32V103, V20x, V30x, X035, L103, V00x.

WCH publishes no application note; codes and framing are those that independent clients agree on (ch32-rs/wchisp,
jmaselbas/wch-isp, chprog). There is no read-back of code flash: the loader itself compares.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import Damaged, Echo, Garbage, Mismatch, NoAnswer, Protected, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step

T = TypeVar("T")


class Command(IntEnum):
    """ch32-rs/wchisp, src/constants.rs."""

    IDENTIFY = 0xA1
    END = 0xA2
    KEY = 0xA3
    ERASE = 0xA4
    PROGRAM = 0xA5
    VERIFY = 0xA6
    READ_CONFIG = 0xA7
    WRITE_CONFIG = 0xA8
    SET_BAUD = 0xC5


class Status(IntEnum):
    """First byte of most replies; FAILED also comes where all is well (CH552), so a later VERIFY decides."""

    GOOD = 0x00
    WRONG_PHRASE = 0xF1
    DIFFERS = 0xF5
    FAILED = 0xFE


REQUEST, REPLY = b"\x57\xab", b"\x55\xaa"
PHRASE = b"MCU ISP & WCH.CN"
ALL_CONFIG, OPTIONS = 0x1F, 0x07
"""Masks: option bytes, version and UID; option bytes alone."""
OPEN, CLOSED_COMPLEMENT, NO_WRITE_PROTECTION = 0xA5, 0x5A, b"\xff" * 4
SEED_BYTES, CHUNK, SECTOR_BYTES, LEAST_SECTORS = 30, 56, 1024, 8
"""The loader's buffer holds 64 bytes: 61 of payload, 56 of data."""
USUAL_BAUD = 115200
TRIES = 6
REPLY_S, ERASE_S, FLUSH_BYTES = 1.0, 5.0, 64


@dataclass(frozen=True)
class Config:
    """Option bytes (RDPR, nRDPR, USER, nUSER, DATA, WPR), version and unique id."""

    options: bytes
    version: str
    uid: bytes

    @property
    def protected(self) -> bool:
        return self.options[0] != OPEN or self.options[8:12] != NO_WRITE_PROTECTION


class Wch:
    """See BootLoader."""

    proof = Proof.ON_CHIP
    from_start = True
    erases = True

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        self.line = Line(USUAL_BAUD)
        self._port, self._flashing, self._baud, self._patience = port, flashing, baud, patience
        self._config = Config(b"", "", b"")
        self._key = bytes(8)
        self._chip_id = 0

    def connect(self) -> Identity:
        self._chip_id, family = self._reliably(self._identify)
        self._config = self._reliably(self._read_config)
        if self._baud != self.line.baud:
            self._raise_rate()
        loader = f"WCH ISP {self._config.version}"
        return Identity(loader, self._chip_id, family, None, self._config.protected)

    def read(self, address: int, size: int) -> bytes | None:
        return None

    def unprotect(self) -> None:
        """Opens the option bytes and resets into the loader again. Some versions keep the protection: it is looked
        at afterwards."""
        options = bytearray(self._config.options)
        options[0:2] = OPEN, CLOSED_COMPLEMENT
        options[8:12] = NO_WRITE_PROTECTION
        self._reliably(lambda: self._good(Command.WRITE_CONFIG, bytes((OPTIONS, 0)) + bytes(options)))
        self._end(reset=True)
        self._port.set_line(self.line)
        self._reliably(self._identify)
        if self._reliably(self._read_config).protected:
            raise Protected(
                "the chip is still protected after its option bytes were opened",
                where=self._port.name,
                hint="bring it into its boot loader again by power-off, then repeat",
            )

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """The loader counts from the start of flash, in KiB. Clients ask for 8 at least, so that is known to work."""
        self._reliably(self._agree_on_key)
        end = max(s.end for s in sectors) - self._flashing.origin
        count = max(LEAST_SECTORS, -(-end // SECTOR_BYTES))
        payload = struct.pack("<I", min(count, (self._flashing.end - self._flashing.origin) // SECTOR_BYTES))
        self._reliably(lambda: self._good(Command.ERASE, payload, ERASE_S))
        step(sum(s.size for s in sectors))

    def write(self, address: int, data: bytes, step: Step) -> None:
        """Not repeated: addresses must ascend without gap, so after a lost answer all begins anew."""
        at = address - self._flashing.origin
        try:
            for i in range(0, len(data), CHUNK):
                self._data(Command.PROGRAM, at + i, data[i : i + CHUNK], (Status.GOOD, Status.FAILED))
                step(min(i + CHUNK, len(data)))
            self._data(Command.PROGRAM, at + len(data), b"", (Status.GOOD, Status.FAILED))
        except (NoAnswer, Garbage) as error:
            self._flush()
            raise Damaged(address) from error

    def verify(self, address: int, data: bytes, step: Step) -> None:
        at = address - self._flashing.origin
        for i in range(0, len(data), CHUNK):
            chunk = data[i : i + CHUNK]
            status = self._reliably(
                lambda i=i, chunk=chunk: self._data(Command.VERIFY, at + i, chunk, tuple(Status))  # type: ignore[misc]
            )
            if status != Status.GOOD:
                where = f"in the {len(chunk)} bytes at address {address + i:#x}"
                raise Mismatch(address + i, None, None, where)
            step(i + len(chunk))

    def start(self, address: int) -> bool:
        self._end(reset=True)
        return True

    def _identify(self) -> tuple[int, int]:
        """Chip id and device type."""
        answer = self._ask(Command.IDENTIFY, bytes((0, self._flashing.family)) + PHRASE)
        if answer[:1] == bytes((Status.WRONG_PHRASE,)):
            raise Refused("the boot loader does not take our pass phrase", where=self._port.name, got=answer.hex())
        if len(answer) != 2:
            raise self._garbled(answer)
        return answer[0], answer[1]

    def _read_config(self) -> Config:
        answer = self._ask(Command.READ_CONFIG, bytes((ALL_CONFIG, 0)))
        if len(answer) != 26:
            raise self._garbled(answer)
        options, digits, uid = answer[2:14], answer[14:18], answer[18:26]
        return Config(options, f"{digits[1]}.{digits[2]}{digits[3]}", uid)

    def _agree_on_key(self) -> None:
        """With a seed of zeros the key is the sum of the UID, the last byte with the chip id added."""
        total = sum(self._config.uid) & 0xFF
        key = bytes((total,) * 7) + bytes(((total + self._chip_id) & 0xFF,))
        answer = self._ask(Command.KEY, bytes(SEED_BYTES))
        if answer[:1] not in (bytes((sum(key) & 0xFF,)), b"\0"):
            raise self._garbled(answer)
        self._key = key

    def _raise_rate(self) -> None:
        """The answer still comes at the old rate; a loader that cannot stays there."""
        answer = self._reliably(lambda: self._ask(Command.SET_BAUD, struct.pack("<I", self._baud)))
        if answer[:1] == bytes((Status.GOOD,)):
            self._port.set_line(Line(self._baud))
            self._reliably(self._identify)

    def _end(self, reset: bool) -> None:
        """BTVER 2.31 and 2.40 do not answer this one."""
        self._port.write(request(Command.END, bytes((int(reset),))))
        self._port.drain(0.3 * self._patience)

    def _data(self, command: Command, at: int, chunk: bytes, allowed: Sequence[Status]) -> int:
        """Encrypted by XOR; a last short chunk is filled to eight bytes, as the loader compares by words."""
        padded = chunk + b"\xff" * (-len(chunk) % 8)
        coded = bytes(b ^ self._key[i % 8] for i, b in enumerate(padded))
        answer = self._ask(command, struct.pack("<IB", at, 0) + coded)
        if len(answer) < 1:
            raise self._garbled(answer)
        if answer[0] not in allowed:
            raise Refused("the boot loader refuses", where=self._port.name, got=answer.hex())
        return answer[0]

    def _good(self, command: Command, payload: bytes, wait_s: float = REPLY_S) -> None:
        answer = self._ask(command, payload, wait_s)
        if answer[:1] != bytes((Status.GOOD,)):
            raise Refused(f"the boot loader refuses to {command.name.lower()}", where=self._port.name, got=answer.hex())

    def _ask(self, command: Command, payload: bytes, wait_s: float = REPLY_S) -> bytes:
        """The payload of the reply. Its second byte is no status and counts in the sum only."""
        sent = request(command, payload)
        self._port.write(sent)
        head = self._port.take(6, wait_s * self._patience)
        if not head:
            raise NoAnswer(
                "no answer from the boot loader",
                where=self._port.name,
                hint=f"bring the chip into its boot loader ({self._flashing.enter or 'see its manual'}); TX and RX may "
                "be swapped",
            )
        if sent.startswith(head):
            self._port.drain(0.05 * self._patience)
            raise Echo("the bytes that we send come back", where=self._port.name, hint="TX and RX are joined")
        if len(head) < 6 or head[:2] != REPLY or head[2] != command:
            raise self._garbled(head)
        size = int.from_bytes(head[4:6], "little")
        rest = self._port.take(min(size, FLUSH_BYTES) + 1, REPLY_S * self._patience)
        if len(rest) != size + 1 or sum(head[2:]) + sum(rest[:-1]) & 0xFF != rest[-1]:
            raise self._garbled(head + rest)
        return rest[:-1]

    def _garbled(self, data: bytes) -> Garbage:
        return Garbage(
            "what answers is not this boot loader, or the line is disturbed",
            where=self._port.name,
            got=data[:16].hex(" ") or "an empty answer",
            allowed="replies that begin with 55 aa, at 115200 baud without parity",
            hint="the application may be running instead: enter the boot loader again",
        )

    def _flush(self) -> None:
        """Completes a frame that the loader may still wait for: zeros begin no frame."""
        self._port.write(bytes(FLUSH_BYTES))
        self._port.drain(0.2 * self._patience)

    def _reliably(self, action: Callable[[], T]) -> T:
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage):
                if attempt == TRIES - 1:
                    raise
                self._flush()
        raise AssertionError("the last attempt returns or raises")


def request(command: Command, payload: bytes) -> bytes:
    """A frame: length, and the sum of all that follows the prefix."""
    body = struct.pack("<BH", command, len(payload)) + payload
    return REQUEST + body + bytes((sum(body) & 0xFF,))


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Wch:
    """See protocol.Maker."""
    return Wch(port, flashing, baud, patience)
