# SPDX-License-Identifier: Apache-2.0
"""ST's USART boot loader: AN3155 (protocol), AN2606 (ids). GigaDevice's is the same; Puya's PY32 is a variant.

Frames have a complement or an XOR and each phase an acknowledgement. Data that is read has no checksum: once anything
was disturbed on the line, every block is read until two readings agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import xor
from typing import TypeVar

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import Damaged, Echo, Garbage, Mismatch, NoAnswer, Protected, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.images import ERASED

T = TypeVar("T")


class Command(IntEnum):
    """AN3155, table 2."""

    GET = 0x00
    GET_VERSION = 0x01
    GET_ID = 0x02
    READ = 0x11
    GO = 0x21
    WRITE = 0x31
    ERASE = 0x43
    EXTENDED_ERASE = 0x44
    WRITE_UNPROTECT = 0x73
    READOUT_UNPROTECT = 0x92


class Reply(IntEnum):
    """AN3155, 2; BUSY: AN4221, 2.1, and what Puya's loader sends for it."""

    ACK = 0x79
    NACK = 0x1F
    BUSY = 0x76
    BUSY_PY32 = 0xAA


AUTO_BAUD = 0x7F
MASS_ERASE = 0xFFFF
SYNC_TRIES, TRIES = 10, 6
SMALLEST_BLOCK = 16
SYNC_S, REPLY_S, SECTOR_S, RESET_S = 0.5, 1.0, 5.0, 35.0
"""Waits of stm32flash for the same; a 128 KB sector takes up to 4 s."""
SECTORS_AT_ONCE = 32
FLOOD_BYTES, FLOODS, ERASE_FLOODS, GROW_AFTER = 64, 8, 300, 16
"""A page count that lost its first byte makes the loader wait for 16 KB."""


@dataclass(frozen=True)
class Variant:
    block: int
    pages: bool
    """Whether single pages can be erased."""


VARIANTS = {"stm32": Variant(256, True), "py32": Variant(128, False)}


class Stm32:
    """See BootLoader."""

    proof = Proof.READ_BACK
    from_start = False

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        self.line = Line(baud, "E")
        self._port, self._flashing, self._patience = port, flashing, patience
        self._variant = VARIANTS.get(flashing.protocol, VARIANTS["stm32"])
        self._block = self._variant.block
        self._commands: frozenset[int] = frozenset()
        self._disturbed, self._clean = False, 0

    def connect(self) -> Identity:
        """AN3155, 2.1: 0x7F once after reset sets the rate; later it is the first half of a command."""
        self._sync()
        listed = self._twice(self._get)
        self._commands = frozenset(listed[1:])
        version = f"{listed[0] >> 4}.{listed[0] & 15}"
        chip_id = self._twice(self._get_id)
        protected = not self._readable()
        size = None if protected else self._flash_bytes()
        return Identity(f"USART boot loader {version}", chip_id, 0, size, protected)

    def read(self, address: int, size: int) -> bytes | None:
        found = b""
        try:
            while len(found) < size:
                found += self._read_some(address + len(found), size - len(found))
        except Refused:
            return None
        return found

    def unprotect(self) -> None:
        """AN3155, 3.9 and 3.11: both reset the chip; readout unprotection wipes it first."""
        command = Command.WRITE_UNPROTECT if self._readable() else Command.READOUT_UNPROTECT
        self._command(command)
        self._expect_ack(RESET_S)
        self._port.drain(0.2 * self._patience)
        self._sync(tries=int(RESET_S / SYNC_S))
        if not self._readable():
            raise Protected("the chip is still protected after it was told to unprotect", where=self._port.name)

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        if not self._variant.pages:
            self._reliably(lambda: self._erase_all(), protected="erase")
            step(sum(s.size for s in sectors))
            return
        done = 0
        for at in range(0, len(sectors), SECTORS_AT_ONCE):
            part = sectors[at : at + SECTORS_AT_ONCE]
            self._reliably(lambda part=part: self._erase(part), protected="erase", floods=ERASE_FLOODS)  # type: ignore[misc]
            done += sum(s.size for s in part)
            step(done)

    def write(self, address: int, data: bytes, step: Step) -> None:
        at = failures = 0
        while at < len(data):
            done = self._write_some(address + at, data[at:])
            failures = 0 if done else failures + 1
            if failures == 2 * TRIES:
                raise Damaged(address + at)
            at += done
            step(at)

    def verify(self, address: int, data: bytes, step: Step) -> None:
        at = 0
        while at < len(data):
            found = self._read_surely(address + at, data[at:])
            wanted = data[at : at + len(found)]
            if found != wanted:
                first = next(i for i in range(len(found)) if found[i] != wanted[i])
                raise Mismatch(address + at + first, wanted[first], found[first])
            at += len(found)
            step(at)

    def start(self, address: int) -> bool:
        """AN3155, 3.5. Not repeated: a lost answer may mean that the application runs already."""
        self._command(Command.GO)
        self._phase(_address(address), REPLY_S)
        return True

    def _sync(self, tries: int = SYNC_TRIES) -> None:
        heard = bytearray()
        for attempt in range(tries):
            self._port.drain()
            if attempt == tries - 2 and not heard:
                # An earlier session may have left the loader in the middle of a frame. Before the rate is set this
                # would spoil it, so it comes late.
                with suppress(NoAnswer):
                    self._recover()
            self._port.write(bytes((AUTO_BAUD,)))
            answer = self._port.take(1, SYNC_S * self._patience)
            if answer and answer[0] in (Reply.ACK, Reply.NACK):
                self._port.drain(0.02 * self._patience)
                return
            heard += answer
        where = self._port.name
        if not heard:
            raise NoAnswer(
                "no answer from the boot loader",
                where=where,
                got=f"nothing, {tries} times",
                hint=f"bring the chip into its boot loader ({self._flashing.enter or 'see its manual'}); TX and RX "
                "may be swapped",
            )
        if set(heard) == {AUTO_BAUD}:
            raise Echo(
                "the bytes that we send come back",
                where=where,
                hint="TX and RX are joined, or the adapter echoes: check the wiring",
            )
        raise Garbage(
            "what answers is not this boot loader",
            where=where,
            got=heard[:16].hex(" "),
            allowed="0x79 (ACK) at even parity",
            hint="the application may be running instead: enter the boot loader again; or the rate is too high: try "
            "baud=57600",
        )

    def _reliably(self, action: Callable[[], T], protected: str = "", floods: int = FLOODS) -> T:
        """Does it again after a disturbance. `protected`: what a lasting refusal keeps from being done."""
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage, Refused) as error:
                if attempt == TRIES - 1 or (isinstance(error, Refused) and attempt == 2):
                    if protected and isinstance(error, Refused):
                        raise Protected(
                            f"the boot loader refuses to {protected}: the flash is write-protected",
                            where=self._port.name,
                            hint="unprotect=yes removes the protection; that can wipe the whole chip",
                        ) from error
                    raise
                if not isinstance(error, Refused):
                    self._shrink()
                self._recover(floods)
        raise AssertionError("the last attempt returns or raises")

    def _twice(self, action: Callable[[], T]) -> T:
        """For answers without a checksum."""
        first = self._reliably(action)
        for _ in range(TRIES):
            again = self._reliably(action)
            if again == first:
                return again
            first = again
        raise Garbage("two answers of the boot loader never agree: the line is disturbed", where=self._port.name)

    def _shrink(self) -> None:
        """Short blocks come through where long ones do not."""
        self._disturbed, self._clean = True, 0
        self._block = max(SMALLEST_BLOCK, self._flashing.word, self._block // 2)

    def _went_well(self) -> None:
        self._clean += 1
        if self._clean % GROW_AFTER == 0:
            self._block = min(self._variant.block, 2 * self._block)

    def _recover(self, floods: int = FLOODS) -> None:
        """Feeds a loader that waits for the rest of a frame until it refuses: 0xFF twice is no command, whichever of
        the two comes first. NoAnswer where it never says a thing."""
        heard = bool(self._port.drain(0.05 * self._patience))
        for _ in range(floods):
            self._port.write(b"\xff" * FLOOD_BYTES)
            answer = self._port.drain(0.05 * self._patience)
            heard = heard or bool(answer)
            if Reply.NACK in answer:
                break
        for _ in range(4):
            self._port.write(b"\xff")
            if self._port.take(1, 0.1 * self._patience):
                self._port.drain(0.05 * self._patience)
                return
        if not heard:
            raise self._silent()

    def _command(self, command: Command) -> None:
        self._phase(bytes((command, command ^ 0xFF)), REPLY_S)

    def _phase(self, data: bytes, wait_s: float) -> None:
        self._port.write(data)
        self._expect_ack(wait_s)

    def _expect_ack(self, wait_s: float) -> None:
        for _ in range(1000):
            answer = self._port.take(1, wait_s * self._patience)
            if not answer:
                raise self._silent()
            if answer[0] == Reply.ACK:
                return
            if answer[0] == Reply.NACK:
                raise Refused("the boot loader refuses", where=self._port.name)
            if answer[0] not in (Reply.BUSY, Reply.BUSY_PY32):
                break
        raise Garbage("the boot loader's answer is disturbed", where=self._port.name, got=answer.hex())

    def _silent(self) -> NoAnswer:
        return NoAnswer(
            "the boot loader stopped answering",
            where=self._port.name,
            hint="reset the board into its boot loader and flash again",
        )

    def _take(self, count: int) -> bytes:
        data = self._port.take(count, REPLY_S * self._patience)
        if len(data) < count:
            raise self._silent()
        return data

    def _get(self) -> bytes:
        """Version and commands. AN3155, 3.1."""
        self._command(Command.GET)
        count = self._take(1)[0] + 1
        if not 2 <= count <= 32:
            raise Garbage("the boot loader's list of commands is disturbed", where=self._port.name)
        listed = self._take(count)
        self._expect_ack(REPLY_S)
        return listed

    def _get_id(self) -> int:
        """AN3155, 3.3."""
        self._command(Command.GET_ID)
        count = self._take(1)[0]
        if count != 1:
            raise Garbage("the boot loader's chip id is disturbed", where=self._port.name, got=f"{count + 1} bytes")
        chip_id = int.from_bytes(self._take(2), "big")
        self._expect_ack(REPLY_S)
        return chip_id

    def _readable(self) -> bool:
        """AN3155, 3.4: with readout protection the command itself is refused."""
        try:
            self._reliably(lambda: self._read(self._flashing.origin, 4))
        except Refused:
            return False
        return True

    def _flash_bytes(self) -> int | None:
        """From the chip's size register; by a whole block where the loader refuses less (F4, L0)."""
        at = self._flashing.size_at
        if not at:
            return None
        block = self.read(at & ~3, 4)
        offset = at & 3
        if block is None:
            block, offset = self.read(at & ~0xFF, 256), at & 0xFF
        if block is None:
            return None
        kilobytes = int.from_bytes(block[offset : offset + 2], "little")
        return kilobytes * 1024 if 0 < kilobytes < 0xFFFF else None

    def _read(self, address: int, size: int) -> bytes:
        self._command(Command.READ)
        self._phase(_address(address), REPLY_S)
        self._phase(bytes((size - 1, (size - 1) ^ 0xFF)), REPLY_S)
        return self._take(size)

    def _read_some(self, address: int, limit: int) -> bytes:
        """A block, up to `limit` bytes; a smaller one where the line is disturbed."""
        for attempt in range(2 * TRIES):
            try:
                found = self._read(address, min(self._block, limit))
            except (NoAnswer, Garbage, Refused):
                if attempt == 2 * TRIES - 1:
                    raise
                self._shrink()
                self._recover()
            else:
                self._went_well()
                return found
        raise AssertionError("the last attempt returns or raises")

    def _read_surely(self, address: int, wanted: bytes) -> bytes:
        """A block as it is in flash: a difference is read again, and on a disturbed line everything is."""
        found = self._read_some(address, len(wanted))
        if found == wanted[: len(found)] and not self._disturbed:
            return found
        for _ in range(4 * TRIES):
            again = self._read_some(address, len(found))
            if again == found[: len(again)]:
                return again
            self._shrink()
            found = again[: self._block]
        raise Garbage("two readings of the flash never agree: the line is disturbed", where=self._port.name)

    def _erase(self, sectors: Sequence[Sector]) -> None:
        """AN3155, 3.7 and 3.8."""
        wait_s = SECTOR_S * len(sectors)
        if Command.EXTENDED_ERASE in self._commands:
            self._command(Command.EXTENDED_ERASE)
            numbers = b"".join(s.number.to_bytes(2, "big") for s in sectors)
            self._phase(_checked((len(sectors) - 1).to_bytes(2, "big") + numbers), wait_s)
        else:
            self._command(Command.ERASE)
            self._phase(_checked(bytes((len(sectors) - 1, *(s.number for s in sectors)))), wait_s)

    def _erase_all(self) -> None:
        self._command(Command.EXTENDED_ERASE)
        self._phase(_checked(MASS_ERASE.to_bytes(2, "big")), RESET_S)

    def _write_some(self, address: int, data: bytes) -> int:
        """AN3155, 3.6. Writes a block; returns its size, or 0 where it surely did not get into the flash. Up to the
        data nothing happens there, and a refusal of the data leaves it alone too; after silence, what the block holds
        decides."""
        self._reliably(lambda: self._open_write(address), protected="write")
        block = data[: self._block]
        try:
            self._phase(_checked(bytes((len(block) - 1,)) + block), REPLY_S)
        except Refused:
            self._shrink()
            return 0
        except (NoAnswer, Garbage) as error:
            self._shrink()
            self._recover()
            found = b""
            while len(found) < len(block):
                found += self._read_surely(address + len(found), block[len(found) :])
            if found == block:
                return len(block)
            if found.strip(ERASED):
                raise Damaged(address) from error
            return 0
        self._went_well()
        return len(block)

    def _open_write(self, address: int) -> None:
        self._command(Command.WRITE)
        self._phase(_address(address), REPLY_S)


def _address(address: int) -> bytes:
    return _checked(address.to_bytes(4, "big"))


def _checked(data: bytes) -> bytes:
    """With the XOR of all bytes."""
    return data + bytes((reduce(xor, data),))


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Stm32:
    """See protocol.Maker."""
    return Stm32(port, flashing, baud, patience)
