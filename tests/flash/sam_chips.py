# SPDX-License-Identifier: Apache-2.0
"""Memory and flash controllers of emulated SAM chips: what they do by registers, and refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from boards.flashing import Flashing
from tests.flash.memory import Flash

RAM, RAM_BYTES = 0x20000000, 0x8000
AIRCR, RESET_REQUEST = 0xE000ED0C, 0x05FA0004


class BusFault(Exception):
    """An access that hangs the core: nothing there, or bytes where flash takes words."""


@dataclass
class Chip:
    """`locked` are the numbers of locked regions; `restarted`: the reset register was written."""

    flashing: Flashing
    locked: set[int] = field(default_factory=set)
    security: bool = False
    flash: Flash = field(init=False)
    restarted: bool = False
    boots_flash: bool = True
    ram: bytearray = field(default_factory=lambda: bytearray(RAM_BYTES))
    page: int = 64
    answers_call: bool = False
    """Over a UART, its monitor acknowledges a program in RAM that has returned."""
    refusals: int = 0
    """Commands that ended in an error."""

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)
        self.buffer: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """Registers as they are after a reset."""

    def load(self, address: int, size: int) -> int:
        return int.from_bytes(self.read(address, size), "little")

    def read(self, address: int, size: int) -> bytes:
        """RAM and flash by bytes, registers by whole words."""
        if address >= RAM and address + size <= RAM + RAM_BYTES:
            return bytes(self.ram[address - RAM :][:size])
        if self.flash.holds(address, size):
            return self.flash.read(address, size)
        if address < self.flashing.origin and self.flashing.origin < 0x10000:
            return bytes((13 * i + 5) & 0xFF for i in range(address, address + size))
        base = address & ~3
        found = self.register(base)
        if found is None or address + size > base + 4:
            raise BusFault(f"read of {address:#x}")
        return found.to_bytes(4, "little")[address - base :][:size]

    def store(self, address: int, size: int, value: int) -> None:
        if address >= RAM and address + size <= RAM + RAM_BYTES:
            self.ram[address - RAM : address - RAM + size] = value.to_bytes(4, "little")[:size]
        elif self.flash.holds(address, size):
            if size != 4 or address % 4:
                raise BusFault(f"write of {size} bytes to flash at {address:#x}")
            self.buffer[address] = value
        else:
            shift = 8 * (address & 3)
            if not self.set_register(address & ~3, value << shift, (1 << 8 * size) - 1 << shift):
                raise BusFault(f"write to {address:#x}")

    def register(self, address: int) -> int | None:
        """None: there is none."""
        raise NotImplementedError

    def set_register(self, address: int, value: int, mask: int) -> bool:
        """Writes the bits of `mask`. Whether there is one."""
        raise NotImplementedError

    def program(self, page_address: int) -> bool:
        """The page buffer into its page; what was not written there stays erased."""
        data = b"".join(
            self.buffer.get(page_address + i, 0xFFFFFFFF).to_bytes(4, "little") for i in range(0, self.page, 4)
        )
        if not self.flash.holds(page_address, self.page) or page_address // self.region in self.locked:
            return False
        self.flash.program(page_address, data)
        self.buffer.clear()
        return True

    @property
    def region(self) -> int:
        """Bytes that are locked together."""
        raise NotImplementedError


@dataclass
class SamD(Chip):
    """SAMD21 or, with `big`, SAMD51; data sheets, chapters NVMCTRL and DSU."""

    did: int = 0x10010305
    big: bool = False
    answers_call: bool = True

    def begin(self) -> None:
        self.page = 512 if self.big else 64
        self.address = self.errors = 0
        self.control = 0x80 if self.big else 0x0
        commands: dict[int, Callable[[], int]]
        if self.big:
            commands = {0x01: self._erase, 0x03: self._write, 0x11: self._lock, 0x12: self._unlock, 0x15: self._clear}
        else:
            commands = {0x02: self._erase, 0x04: self._write, 0x40: self._lock, 0x41: self._unlock, 0x44: self._clear}
        self.commands = commands
        self.places = (
            {"control": 0x0, "command": 0x4, "flags": 0x10, "address": 0x14, "lock": 0x18}
            if self.big
            else {"command": 0x0, "control": 0x4, "flags": 0x14, "status": 0x18, "address": 0x1C, "lock": 0x20}
        )

    @property
    def region(self) -> int:
        return self.flashing.end // (32 if self.big else 16)

    def register(self, address: int) -> int | None:
        if address == 0xE000ED00:
            return 0x410FC241 if self.big else 0x410CC601
        if address in (0x41002000, 0x41002018):
            return self.did if address & 0xFF else 0x10000 * self.security
        offset = address - 0x41004000
        if offset == 0x08:
            return self.flashing.end // self.page | ((6 if self.big else 3) << 16)
        locks = sum(1 << i for i in range(32 if self.big else 16) if i not in self.locked)
        values = {
            "control": self.control,
            "command": 0,
            "flags": 0x10000 | self.errors if self.big else 1 | (2 if self.errors else 0),
            "status": self.errors | (0x100 if self.security else 0),
            "address": self.address,
            "lock": locks,
        }
        return next((values[name] for name, place in self.places.items() if place == offset), None)

    def set_register(self, address: int, value: int, mask: int) -> bool:
        if address == AIRCR:
            self.restarted = value == RESET_REQUEST
            return True
        offset = address - 0x41004000
        name = next((name for name, place in self.places.items() if place == offset), None)
        if name == "control":
            self.control = self.control & ~mask | value
        elif name == "address":
            self.address = value & 0xFFFFFF
        elif name in ("flags", "status"):
            if self.big or name == "status":
                self.errors &= ~value
        elif name == "command":
            if value & 0xFF00 == 0xA500:
                error = self.commands.get(value & 0xFF, lambda: 0x4)()
                self.errors |= error
                self.refusals += bool(error)
        else:
            return False
        return True

    @property
    def at(self) -> int:
        """The address register, in bytes."""
        return self.address if self.big else 2 * self.address

    def store(self, address: int, size: int, value: int) -> None:
        """The address register follows what is put into the page buffer. With CTRLB.MANW clear the last word of a page
        writes it."""
        Chip.store(self, address, size, value)
        if self.flash.holds(address, size):
            self.address = address if self.big else address // 2
            if not self.big and not self.control & 0x80 and address % self.page == self.page - 4:
                self._write()

    def _erase(self) -> int:
        sector = next((s for s in self.flashing.sectors if s.address <= self.at < s.end), None)
        if sector is None:
            return 0x4
        if sector.address // self.region in self.locked:
            return 0x8
        self.flash.erase(sector.number)
        return 0

    def _write(self) -> int:
        if not self.buffer:
            return 0
        if self.at // self.region in self.locked:
            return 0x8
        return 0 if self.program(self.at // self.page * self.page) else 0x4

    def _lock(self) -> int:
        self.locked.add(self.at // self.region)
        return 0

    def _unlock(self) -> int:
        self.locked.discard(self.at // self.region)
        return 0

    def _clear(self) -> int:
        self.buffer.clear()
        return 0


@dataclass
class SamE(Chip):
    """SAM3X8E, which erases pages as it writes them, or, with `four`, SAM4S16, which erases 4 to 32 pages at once; data
    sheets, chapters EEFC, CHIPID, RSTC."""

    cidr: int = 0x285E0A60
    four: bool = False
    boots_flash: bool = False

    def begin(self) -> None:
        self.page = 512 if self.four else 256
        self.results: list[list[int]] = [[], []]
        self.modes = [0, 0]
        self.states = [1, 1]

    @property
    def region(self) -> int:
        return 8192 if self.four else 16384

    @property
    def plane(self) -> int:
        return (self.flashing.end - self.flashing.origin) // (1 if self.four else 2)

    def register(self, address: int) -> int | None:
        if address in (0xE000ED00, 0x400E0740, 0x400E0744, 0x400E0940, 0x400E0944):
            core, identity = (0x410FC241, 0x400E0740) if self.four else (0x412FC230, 0x400E0940)
            return {0xE000ED00: core, identity: self.cidr}.get(address, 0)
        if address in (0, 4):
            return 0x00800000 if self.four else 0x00100000
        plane, offset = self._place(address)
        if plane is None or offset not in (0, 8, 12):
            return None
        if offset == 0:
            return self.modes[plane]
        if offset == 8:
            found, self.states[plane] = self.states[plane], 1
            return found
        return self.results[plane].pop(0) if self.results[plane] else 0

    def set_register(self, address: int, value: int, mask: int) -> bool:
        if address == (0x400E1400 if self.four else 0x400E1A00):
            self.restarted = value == 0xA500000D
            return True
        plane, offset = self._place(address)
        if plane is None or offset not in (0, 4):
            return False
        if offset == 0:
            self.modes[plane] = value
            return True
        key, argument, command = value >> 24, value >> 8 & 0xFFFF, value & 0xFF
        error = self._command(plane, argument, command) if key == 0x5A else 2
        self.refusals += bool(error)
        self.states[plane] = 1 | error
        return True

    def _place(self, address: int) -> tuple[int | None, int]:
        """Which controller's registers, and which of them."""
        plane, offset = divmod(address - 0x400E0A00, 0x200)
        return (plane if 0 <= plane < (1 if self.four else 2) else None), offset

    def _command(self, plane: int, argument: int, command: int) -> int:
        """The error bits of EEFC_FSR."""
        start = self.flashing.origin + plane * self.plane
        address = start + argument * self.page
        locked = {(region * self.region) for region in self.locked}
        if command == 0x0A:
            bits = sum(1 << i for i in range(self.plane // self.region) if start + i * self.region in locked)
            self.results[plane] = [bits >> shift & 0xFFFFFFFF for shift in range(0, 128, 32)]
        elif command == 0x0D:
            self.results[plane] = [int(self.security) | 2 * self.boots_flash]
        elif command in (0x0B, 0x0C) and argument == 1:
            self.boots_flash = command == 0x0B
        elif command in (0x08, 0x09):
            (self.locked.add if command == 0x08 else self.locked.discard)(address // self.region)
        elif command == 0x05:
            numbers = [s.number for s in self.flashing.sectors if start <= s.address < start + self.plane]
            if any(self.flashing.sectors[n].address // self.region in self.locked for n in numbers):
                return 4
            for number in numbers:
                self.flash.erase(number)
        elif command == 0x07 and self.four:
            first = argument & ~3
            pages = 4 << (argument & 3)
            sector = self.flashing.touched(start + first * self.page, pages * self.page)
            if first % pages or len(sector) != 1 or sector[0].size != pages * self.page:
                return 2
            if sector[0].address // self.region in self.locked:
                return 4
            self.flash.erase(sector[0].number)
        elif command == 0x01 or (command == 0x03 and not self.four):
            if self.modes[plane] != 0x600:
                return 2
            if address // self.region in self.locked:
                return 4
            if command == 0x03:
                self.flash.erase((address - self.flashing.origin) // self.page)
            return 0 if self.program(address) else 2
        else:
            return 2
        return 0
