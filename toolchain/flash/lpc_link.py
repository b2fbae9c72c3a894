# SPDX-License-Identifier: Apache-2.0
"""Lines and blocks of NXP's ISP: commands and answers are ASCII lines (UM10360, 32.3.2), data is UU-encoded with a sum
after each 20 lines, or on the LPC8xx plain (UM10601, 21.3)."""

from __future__ import annotations

import time
from binascii import Error as NotEncoded
from binascii import a2b_uu, b2a_uu
from collections.abc import Iterator
from contextlib import suppress
from zlib import crc32

from toolchain.flash.errors import Echo, Garbage, NoAnswer, Refused
from toolchain.flash.port import Port

SYNCHRONIZED, CRYSTAL_KHZ = "Synchronized", "12000"
"""The crystal's frequency is asked for and, on Cortex-M parts, not used."""
XON, XOFF, ESCAPE = b"\x11", b"\x13", b"\x1b"
LINE_BYTES, LINES = 45, 20
GROUP_BYTES = LINE_BYTES * LINES
LONGEST_LINE, SYNC_TRIES, TRIES = 80, 8, 6
SYNC_S, REPLY_S, PAUSE_S = 0.5, 1.0, 5.0
FLUSH_BYTES = 1024
SUCCESS, LOCKED, PROTECTED = 0, 15, 19
CODES = {
    1: "unknown command",
    2: "source not aligned",
    3: "destination not aligned",
    4: "source not mapped",
    5: "destination not mapped",
    6: "byte count",
    7: "no such sector",
    8: "sector not blank",
    9: "sector not prepared",
    10: "not equal",
    11: "busy",
    12: "parameter",
    13: "address not aligned",
    14: "address not mapped",
    LOCKED: "locked",
    16: "unlock code",
    17: "baud rate",
    18: "stop bits",
    PROTECTED: "code read protection",
}
"""UM10360, table 598."""


class Code(Refused):
    """The loader answered with another code than success."""

    def __init__(self, code: int, command: str, where: str) -> None:
        self.code = code
        Refused.__init__(
            self, "the boot loader refuses", where=where, got=f"{code}, {CODES.get(code, 'unknown')}, to '{command}'"
        )


class LpcLink:
    """`plain`: data is not encoded."""

    def __init__(self, port: Port, patience: float, plain: bool, enter: str) -> None:
        self._port, self._patience, self._plain, self._enter = port, patience, plain, enter
        self._inbox = bytearray()

    def synchronize(self) -> None:
        """UM10360, 32.3.1. '?' sets the rate after a reset. After an earlier session the loader takes commands already:
        where it does not greet, it is asked for its part."""
        heard = b""
        for attempt in range(SYNC_TRIES):
            self._port.drain()
            self._port.write(b"?")
            greeting = self._port.read(SYNC_S * self._patience)
            if greeting:
                greeting += self._port.drain(0.1 * self._patience)
            heard += greeting
            with suppress(NoAnswer, Garbage, Code):
                if SYNCHRONIZED.encode("ascii") in greeting:
                    if self.answer(SYNCHRONIZED) == "OK" == self.answer(CRYSTAL_KHZ):
                        return
                elif greeting or attempt >= SYNC_TRIES // 2:
                    heard += self.recover()
                    self.numbers("J", 1)
                    return
        if heard and not heard.strip(b"?\r\n\0" + ESCAPE):
            raise Echo("the bytes that we send come back", where=self._port.name, hint="TX and RX are joined")
        raise self.garbled(heard) if heard else self._silent()

    def send(self, text: str) -> None:
        self._hold()
        self._inbox.clear()
        self._port.write(text.encode("ascii") + b"\r\n")

    def line(self, wait_s: float = REPLY_S) -> str:
        """The next line that is not empty, without its end and without XON and XOFF."""
        while True:
            while (end := self._inbox.find(b"\n")) < 0:
                part = self._port.read(wait_s * self._patience)
                if not part and not self._inbox:
                    raise self._silent()
                if not part or len(self._inbox) > LONGEST_LINE:
                    raise self.garbled(bytes(self._inbox))
                self._inbox += part
            found = bytes(self._inbox[:end]).translate(None, XON + XOFF + b"\r\0")
            del self._inbox[: end + 1]
            if found:
                if not found.isascii() or len(found) > LONGEST_LINE:
                    raise self.garbled(found)
                return found.decode("ascii")

    def answer(self, command: str, wait_s: float = REPLY_S) -> str:
        """The line that comes after a command's echo, where the loader echoes."""
        self.send(command)
        found = self.line(wait_s)
        return self.line(wait_s) if found == command else found

    def ask(self, command: str, wait_s: float = REPLY_S) -> None:
        """Raises Code unless the loader says success. Some LPC8xx say OK after data, some do not."""
        found = self.answer(command, wait_s)
        code = self._number(self.line(wait_s) if found == "OK" else found)
        if code != SUCCESS:
            raise Code(code, command, self._port.name)

    def numbers(self, command: str, count: int) -> tuple[int, ...]:
        """What a command tells, decimal, a line each."""
        self.ask(command)
        return tuple(self._number(self.line()) for _ in range(count))

    def store(self, address: int, data: bytes) -> None:
        """Bytes, by fours, into RAM; checked by their sums or, where they go plain, by a CRC of the RAM."""
        self.ask(f"W {address} {len(data)}")
        if self._plain:
            self._port.write(data)
            if self.numbers(f"S {address} {len(data)}", 1) != (crc32(data),):
                raise Garbage("the data did not get into RAM whole", where=self._port.name)
            return
        for at in range(0, len(data), GROUP_BYTES):
            self._send_group(data[at : at + GROUP_BYTES])

    def fetch(self, address: int, size: int) -> bytes:
        """Memory, by fours."""
        self.ask(f"R {address} {size}")
        if self._plain:
            while len(self._inbox) < size and (part := self._port.read(REPLY_S * self._patience)):
                self._inbox += part
            found = bytes(self._inbox)
            self._inbox.clear()
            if len(found) != size:
                raise self.garbled(found)
            return found
        data = b""
        while len(data) < size:
            data += self._take_group(min(GROUP_BYTES, size - len(data)))
        return data

    def recover(self) -> bytes:
        """Breaks off what the loader is at: ESC ends a command, and plain data that it may wait for is filled up.
        Returns what came."""
        if self._plain:
            self._port.write(bytes(FLUSH_BYTES))
        self._port.write(ESCAPE + b"\r\n")
        heard = bytes(self._inbox) + self._port.drain(0.1 * self._patience)
        self._inbox.clear()
        return heard

    def garbled(self, data: bytes) -> Garbage:
        return Garbage(
            "what answers is not this boot loader, or the line is disturbed",
            where=self._port.name,
            got=data[:16].hex(" ") or "an empty answer",
            allowed="lines of ASCII at this rate without parity",
            hint=f"the application may be running instead: {self._enter or 'enter the boot loader again'}",
        )

    def _silent(self) -> NoAnswer:
        return NoAnswer(
            "no answer from the boot loader",
            where=self._port.name,
            hint=f"bring the chip into its boot loader ({self._enter or 'see its manual'}); TX and RX may be swapped",
        )

    def _number(self, text: str) -> int:
        if not text.isdecimal():
            raise self.garbled(text.encode("ascii"))
        return int(text)

    def _send_group(self, data: bytes) -> None:
        """Up to 20 lines, then their sum; again where the loader wants them again."""
        for _ in range(TRIES):
            for line in _encoded(data):
                self._hold()
                self._port.write(line)
            verdict = self.answer(str(sum(data)))
            if verdict == "OK":
                return
            if verdict != "RESEND":
                raise self.garbled(verdict.encode("ascii"))
        raise Garbage("the boot loader never gets a block whole: the line is disturbed", where=self._port.name)

    def _take_group(self, size: int) -> bytes:
        for _ in range(TRIES):
            data, wanted = b"", -1
            try:
                for _ in range(-(-size // LINE_BYTES)):
                    data += a2b_uu(self.line() + "\n")
                wanted = self._number(self.line())
            except NotEncoded as error:
                raise self.garbled(data) from error
            whole = len(data) == size and sum(data) == wanted
            self.send("OK" if whole else "RESEND")
            if whole:
                return data
        raise Garbage("a block never arrives whole: the line is disturbed", where=self._port.name)

    def _hold(self) -> None:
        """While the loader says stop (UM10360, 32.3.2.4)."""
        self._inbox += self._port.drain()
        end = time.monotonic() + PAUSE_S
        while self._inbox.rfind(XOFF) > self._inbox.rfind(XON):
            part = self._port.read(PAUSE_S * self._patience)
            if not part or time.monotonic() > end:
                raise self._silent()
            self._inbox += part


def _encoded(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), LINE_BYTES):
        yield b2a_uu(data[at : at + LINE_BYTES], backtick=True).rstrip(b"\n") + b"\r\n"
