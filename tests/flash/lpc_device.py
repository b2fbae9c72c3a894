# SPDX-License-Identifier: Apache-2.0
"""A chip in NXP's ISP: the commands, their return codes and the protection levels of UM10360, chapter 32, or with
`plain` data those of UM10601, chapter 22."""

from __future__ import annotations

import time
from binascii import Error as NotEncoded
from binascii import a2b_uu, b2a_uu
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from boards.flashing import Flashing
from tests.flash.line import Line
from tests.flash.memory import Flash

SUCCESS, INVALID, SOURCE_ALIGN, TARGET_ALIGN, SOURCE_UNMAPPED, TARGET_UNMAPPED, COUNT, SECTOR, NOT_BLANK = range(9)
UNPREPARED, DIFFERENT, PARAMETER, ALIGN, UNMAPPED, IS_LOCKED, WRONG_CODE, PROTECTED = 9, 10, 12, 13, 14, 15, 16, 19
RAM, RAM_BYTES, OWN_BYTES, OWN_TOP_BYTES = 0x10000000, 0x8000, 0x200, 288
"""The loader's own variables lie below OWN_BYTES, its stack and those of the flash commands on top."""
BLOCKS = {False: (256, 512, 1024, 4096), True: (64, 128, 256, 512, 1024)}
LINE_BYTES, GROUP_BYTES = 45, 900
ESCAPE, XON, XOFF = 0x1B, b"\x11", b"\x13"


class Aborted(Exception):
    """ESC came."""


@dataclass
class LpcDevice:
    """`crp`: level of protection, 1 or 2. `hidden`: the ROM lies in front of that many bytes of flash. `tells_ok`: says
    OK after plain data, as the manual has it and some chips do not. `pauses`: stops the host by XOFF after each answer
    to a write, and counts what it sends all the same as overruns."""

    flashing: Flashing
    chip_id: int = 0x26013F37
    plain: bool = False
    crp: int = 0
    hidden: int = 64
    tells_ok: bool = True
    pauses: bool = False
    in_step: bool = False
    flash: Flash = field(init=False)
    started: int | None = None
    echo: bool = True
    unlocked: bool = False
    prepared: frozenset[int] = frozenset()
    ram: bytearray = field(default_factory=lambda: bytearray(RAM_BYTES))
    overruns: int = 0

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)
        self._pending = bytearray()

    def serve(self, line: Line) -> None:
        self._line = line
        while not self.in_step:
            self._synchronize()
        while self.started is None:
            try:
                self._command(self._take_text())
            except Aborted:
                continue
        while True:
            line.take(1)

    def _synchronize(self) -> None:
        if self._take(1) != b"?":
            return
        self._line.give(b"Synchronized\r\n")
        try:
            if self._take_text() != "Synchronized":
                return
            self._tell("OK")
            self._take_text(empty=True)
            self._tell("OK")
            self.in_step = True
        except Aborted:
            return

    def _take(self, count: int) -> bytes:
        while len(self._pending) < count:
            self._pending += self._line.take(1)
        found = bytes(self._pending[:count])
        del self._pending[:count]
        return found

    def _take_text(self, empty: bool = False) -> str:
        """A line, echoed."""
        text = b""
        while True:
            byte = self._take(1)
            if byte[0] == ESCAPE:
                raise Aborted
            if byte == b"\n" and (text or empty):
                break
            text += byte.strip(b"\r\n")
        if self.echo:
            self._line.give(text + b"\r\n")
        return text.decode("latin-1")

    def _tell(self, *lines: object) -> None:
        self._line.give("".join(f"{line}\r\n" for line in lines).encode("ascii"))

    def _command(self, text: str) -> None:
        name, *words = text.split() or [""]
        known: dict[str, tuple[int, Callable[..., int | None]]] = {
            "U": (1, self._unlock),
            "A": (1, self._set_echo),
            "B": (2, self._set_rate),
            "J": (0, lambda: self._tell(SUCCESS, self.chip_id)),
            "K": (0, lambda: self._tell(SUCCESS, 1, 4)),
            "W": (2, self._write),
            "R": (2, self._read),
            "P": (2, self._prepare),
            "E": (2, self._erase),
            "I": (2, self._blank),
            "C": (3, self._copy),
            "M": (3, self._compare),
        }
        if self.plain:
            known["S"] = (2, self._crc)
        if name == "G" and self.plain and len(words) == 1:
            words.append("T")
        if name == "G" and len(words) == 2 and words[0].isdecimal() and words[1] in ("T", "A"):
            self._tell_code(self._go(int(words[0])))
            return
        if name not in known:
            self._tell(INVALID)
            return
        count, action = known[name]
        if len(words) != count or not all(w.isascii() and w.isdecimal() for w in words):
            self._tell(PARAMETER)
            return
        self._tell_code(action(*map(int, words)))

    def _tell_code(self, code: int | None) -> None:
        """None: the command has told by itself."""
        if code is not None:
            self._tell(code)

    def _unlock(self, code: int) -> int:
        if code != 23130:
            return WRONG_CODE
        self.unlocked = True
        return SUCCESS

    def _set_echo(self, setting: int) -> int:
        if setting > 1:
            return PARAMETER
        self.echo = setting == 1
        return SUCCESS

    def _set_rate(self, rate: int, stop_bits: int) -> int:
        return SUCCESS if rate and stop_bits in (1, 2) else PARAMETER

    def _seen(self, address: int, size: int) -> bytes | None:
        """Memory as the loader sees it: None where there is none."""
        if address >= RAM and address + size <= RAM + RAM_BYTES:
            return bytes(self.ram[address - RAM :][:size])
        if not self.flash.holds(address, size):
            return None
        rom = bytes((37 * i + 11) & 0xFF for i in range(self.hidden))
        front = self.flashing.origin + self.hidden - address
        found = self.flash.read(address, size)
        return rom[-front:][:size] + found[front:] if front > 0 else found

    def _write(self, address: int, size: int) -> int | None:
        if self.crp > 1:
            return PROTECTED
        if address % 4:
            return ALIGN
        if size % 4 or not size:
            return COUNT
        if address < RAM + OWN_BYTES or address + size > RAM + RAM_BYTES - OWN_TOP_BYTES:
            return UNMAPPED
        self._tell_and_pause(SUCCESS)
        if self.plain:
            data = self._take(size)
            if self.echo:
                self._line.give(data)
        else:
            data = b""
            while len(data) < size:
                data += self._take_group(min(GROUP_BYTES, size - len(data)))
        self.ram[address - RAM : address - RAM + size] = data
        if self.plain and self.tells_ok:
            self._tell("OK")
        return None

    def _take_group(self, size: int) -> bytes:
        while True:
            data = b""
            while len(data) < size:
                try:
                    data += a2b_uu(self._take_text() + "\n")
                except (NotEncoded, ValueError):
                    data += bytes(LINE_BYTES)
            whole = len(data) == size and self._take_text() == str(sum(data))
            self._tell_and_pause("OK" if whole else "RESEND")
            if whole:
                return data

    def _tell_and_pause(self, answer: object) -> None:
        if not self.pauses:
            self._tell(answer)
            return
        self._line.give(f"{answer}\r\n".encode("ascii") + XOFF)
        time.sleep(0.02)
        self._pending += self._line.take(4096, 0.0)
        self.overruns += len(self._pending)
        self._line.give(XON)

    def _read(self, address: int, size: int) -> int | None:
        if self.crp:
            return PROTECTED
        if address % 4:
            return ALIGN
        if size % 4 or not size:
            return COUNT
        data = self._seen(address, size)
        if data is None:
            return UNMAPPED
        self._tell(SUCCESS)
        if self.plain:
            self._line.give(data)
            return None
        for at in range(0, size, GROUP_BYTES):
            group = data[at : at + GROUP_BYTES]
            while True:
                for i in range(0, len(group), LINE_BYTES):
                    self._line.give(b2a_uu(group[i : i + LINE_BYTES], backtick=True).rstrip(b"\n") + b"\r\n")
                self._tell(sum(group))
                if self._take_text() == "OK":
                    break
        return None

    def _run(self, first: int, last: int) -> frozenset[int] | None:
        return frozenset(range(first, last + 1)) if first <= last < len(self.flashing.sectors) else None

    def _prepare(self, first: int, last: int) -> int:
        sectors = self._run(first, last)
        if sectors is None:
            return SECTOR
        self.prepared = sectors
        return SUCCESS

    def _erase(self, first: int, last: int) -> int:
        sectors = self._run(first, last)
        if not self.unlocked:
            return IS_LOCKED
        if sectors is None:
            return SECTOR
        if not sectors <= self.prepared:
            return UNPREPARED
        everything = len(sectors) == len(self.flashing.sectors)
        if not everything and (self.crp > 1 or (self.crp == 1 and first == 0)):
            return PROTECTED
        for number in sorted(sectors):
            self.flash.erase(number)
        self.prepared = frozenset()
        return SUCCESS

    def _blank(self, first: int, last: int) -> int | None:
        sectors = self._run(first, last)
        if self.crp:
            return PROTECTED
        if sectors is None:
            return SECTOR
        for number in sorted(sectors):
            sector = self.flashing.sectors[number]
            data = self._seen(sector.address, sector.size) or b""
            at = next((i for i in range(0, len(data), 4) if data[i : i + 4] != b"\xff" * 4), None)
            if at is not None:
                self._tell(NOT_BLANK, at, int.from_bytes(data[at : at + 4], "little"))
                return None
        return SUCCESS

    def _copy(self, target: int, source: int, size: int) -> int:
        if not self.unlocked:
            return IS_LOCKED
        if self.crp > 1:
            return PROTECTED
        blocks = BLOCKS[self.plain]
        if source % 4:
            return SOURCE_ALIGN
        if target % blocks[0]:
            return TARGET_ALIGN
        if size not in blocks:
            return COUNT
        if source < RAM or source + size > RAM + RAM_BYTES:
            return SOURCE_UNMAPPED
        if not self.flash.holds(target, size):
            return TARGET_UNMAPPED
        sectors = {s.number for s in self.flashing.touched(target, size)}
        if not sectors <= self.prepared:
            return UNPREPARED
        if self.crp == 1 and 0 in sectors:
            return PROTECTED
        self.flash.program(target, bytes(self.ram[source - RAM :][:size]))
        self.prepared = frozenset()
        return SUCCESS

    def _compare(self, target: int, source: int, size: int) -> int | None:
        if self.crp:
            return PROTECTED
        if target % 4 or source % 4:
            return ALIGN
        if size % 4:
            return COUNT
        first, second = self._seen(target, size), self._seen(source, size)
        if first is None or second is None:
            return UNMAPPED
        at = next((i for i in range(0, size, 4) if first[i : i + 4] != second[i : i + 4]), None)
        if at is None:
            return SUCCESS
        self._tell(DIFFERENT, at)
        return None

    def _crc(self, address: int, size: int) -> int | None:
        data = self._seen(address, size)
        if self.crp or data is None:
            return PROTECTED if self.crp else UNMAPPED
        self._tell(SUCCESS, crc32(data))
        return None

    def _go(self, address: int) -> int:
        if not self.unlocked:
            return IS_LOCKED
        if self.crp:
            return PROTECTED
        if address % 4:
            return ALIGN
        if self._seen(address, 4) is None:
            return UNMAPPED
        self.started = address
        return SUCCESS
