# SPDX-License-Identifier: Apache-2.0
"""The line to ST's boot loader: getting in step, acknowledgements, and back in step after a disturbance (AN3155)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import reduce
from operator import xor
from typing import TypeVar

from toolchain.flash.agreement import agreed
from toolchain.flash.errors import Echo, Garbage, NoAnswer, Protected, Refused
from toolchain.flash.port import Port

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
SYNC_TRIES, TRIES = 10, 6
SYNC_S, REPLY_S, RESET_S = 0.5, 1.0, 35.0
"""Waits of stm32flash for the same."""
FLOOD_BYTES, FLOODS, GROW_AFTER = 64, 8, 16


class Pace:
    """How long blocks are: short ones come through where long ones do not."""

    def __init__(self, least: int, most: int) -> None:
        self.size, self._least, self._most = most, least, most
        self.disturbed, self._clean = False, 0

    def shrink(self) -> None:
        self.disturbed, self._clean = True, 0
        self.size = max(self._least, self.size // 2)

    def went_well(self) -> None:
        self._clean += 1
        if self._clean % GROW_AFTER == 0:
            self.size = min(self._most, 2 * self.size)


class Wire:
    """Commands and their phases. `enter` tells a person how the chip gets into its boot loader; `patience` multiplies
    all waits. NoAnswer, Garbage and Refused are raised for silence, for what is no reply, and for NACK."""

    def __init__(self, port: Port, patience: float, enter: str, pace: Pace) -> None:
        self.pace = pace
        self._port, self._patience, self._enter = port, patience, enter

    @property
    def name(self) -> str:
        """Of the port, for errors."""
        return self._port.name

    def sync(self, tries: int = SYNC_TRIES) -> None:
        """AN3155, 2.1: 0x7F once after reset sets the rate; later it is the first half of a command."""
        heard = bytearray()
        for attempt in range(tries):
            self._port.drain()
            if attempt == tries - 2 and not heard:
                # An earlier session may have left the loader in the middle of a frame. Before the rate is set this
                # would spoil it, so it comes late.
                with suppress(NoAnswer):
                    self.recover()
            self._port.write(bytes((AUTO_BAUD,)))
            answer = self._port.take(1, SYNC_S * self._patience)
            if answer and answer[0] in (Reply.ACK, Reply.NACK):
                self._port.drain(0.02 * self._patience)
                return
            heard += answer
        if not heard:
            raise NoAnswer(
                "no answer from the boot loader",
                where=self.name,
                got=f"nothing, {tries} times",
                hint=f"bring the chip into its boot loader ({self._enter or 'see its manual'}); TX and RX may be "
                "swapped",
            )
        if set(heard) == {AUTO_BAUD}:
            raise Echo(
                "the bytes that we send come back",
                where=self.name,
                hint="TX and RX are joined, or the adapter echoes: check the wiring",
            )
        raise Garbage(
            "what answers is not this boot loader",
            where=self.name,
            got=heard[:16].hex(" "),
            allowed="0x79 (ACK) at even parity",
            hint="the application may be running instead: enter the boot loader again; or the rate is too high: try "
            "baud=57600",
        )

    def sync_after_reset(self) -> None:
        """After a command that resets the chip."""
        self._port.drain(0.2 * self._patience)
        self.sync(tries=int(RESET_S / SYNC_S))

    def reliably(self, action: Callable[[], T], protected: str = "", floods: int = FLOODS) -> T:
        """Does it again after a disturbance. `protected`: what a lasting refusal keeps from being done."""
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage, Refused) as error:
                if attempt == TRIES - 1 or (isinstance(error, Refused) and attempt == 2):
                    if protected and isinstance(error, Refused):
                        raise Protected(
                            f"the boot loader refuses to {protected}: the flash is write-protected",
                            where=self.name,
                            hint="unprotect=yes removes the protection; that can wipe the whole chip",
                        ) from error
                    raise
                if not isinstance(error, Refused):
                    self.pace.shrink()
                self.recover(floods)
        raise AssertionError("the last attempt returns or raises")

    def twice(self, action: Callable[[], T]) -> T:
        """For answers without a checksum."""
        return agreed(lambda: self.reliably(action), self.name)

    def recover(self, floods: int = FLOODS) -> None:
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

    def command(self, command: Command) -> None:
        self.phase(complemented(command))

    def phase(self, data: bytes, wait_s: float = REPLY_S) -> None:
        self._port.write(data)
        self.expect_ack(wait_s)

    def expect_ack(self, wait_s: float = REPLY_S) -> None:
        for _ in range(1000):
            answer = self._port.take(1, wait_s * self._patience)
            if not answer:
                raise self._silent()
            if answer[0] == Reply.ACK:
                return
            if answer[0] == Reply.NACK:
                raise Refused("the boot loader refuses", where=self.name)
            if answer[0] not in (Reply.BUSY, Reply.BUSY_PY32):
                break
        raise Garbage("the boot loader's answer is disturbed", where=self.name, got=answer.hex())

    def take(self, count: int) -> bytes:
        data = self._port.take(count, REPLY_S * self._patience)
        if len(data) < count:
            raise self._silent()
        return data

    def _silent(self) -> NoAnswer:
        return NoAnswer(
            "the boot loader stopped answering",
            where=self.name,
            hint="reset the board into its boot loader and flash again",
        )


def address_phase(address: int) -> bytes:
    return checked(address.to_bytes(4, "big"))


def checked(data: bytes) -> bytes:
    """With the XOR of all bytes."""
    return data + bytes((reduce(xor, data),))


def complemented(value: int) -> bytes:
    """A byte and its complement."""
    return bytes((value, value ^ 0xFF))
