# SPDX-License-Identifier: Apache-2.0
"""NXP's ISP boot loader over UART: LPC11xx, 13xx, 17xx (UM10398, chapter 26; UM10360, chapter 32) and, with plain data,
LPC8xx (UM10601, chapter 22).

Data goes to RAM, then is copied to prepared and erased sectors. The block with the vectors is written last: until then
the boot ROM finds no valid program and stays in ISP. While the loader runs, its ROM lies in front of the first bytes of
flash; those cannot be read back. They are read back from RAM before they are copied, and the ROM itself checks the sum
of the first eight vectors at each reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from boards.flashing import Flashing, Sector
from toolchain.elf.file import ERASED
from toolchain.flash.agreement import agreed, compare, settled
from toolchain.flash.errors import Damaged, FlashError, Garbage, NoAnswer, Protected
from toolchain.flash.lpc_link import LOCKED, PROTECTED, Code, LpcLink
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step

T = TypeVar("T")

UNLOCK = "U 23130"
LOCK_AT, LOCKS = 0x2FC, frozenset((0x12345678, 0x87654321, 0x43218765, 0x4E697370))
"""The word that protects, and its values: CRP1, CRP2, CRP3 and NO_ISP (UM10360, table 569)."""
TRIES, REFUSALS = 10, 3
SECTOR_S, COPY_S = 1.0, 2.0
SECTORS_AT_ONCE, LARGEST_PIECE, LEAST_PIECE = 8, 4096, 44


@dataclass(frozen=True)
class Variant:
    """`blocks`: sizes that can be copied at once. `hidden`: up to so many bytes of flash are behind the boot ROM."""

    plain: bool
    blocks: tuple[int, ...]
    hidden: int


VARIANTS = {
    "lpc": Variant(False, (4096, 1024, 512, 256), 64),
    "lpc8xx": Variant(True, (1024, 512, 256, 128, 64), 512),
}


class Lpc:
    """See BootLoader."""

    proof = Proof.READ_BACK
    from_start = False
    erases = True

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        self.line = Line(baud)
        self._port, self._flashing = port, flashing
        self._variant = VARIANTS.get(flashing.protocol, VARIANTS["lpc"])
        self._link = LpcLink(port, patience, self._variant.plain, flashing.enter)
        self._hidden = self._entry = 0
        self._piece = LARGEST_PIECE

    def connect(self) -> Identity:
        self._link.synchronize()
        self._reliably(lambda: self._link.ask("A 0"))
        self._reliably(lambda: self._link.ask(UNLOCK))
        chip_id = self._numbers("J", 1)[0]
        minor, major = self._numbers("K", 2)
        return Identity(f"NXP ISP {major}.{minor}", chip_id, 0, None, self._is_protected())

    def read(self, address: int, size: int) -> bytes | None:
        """None, too, where the ROM was found in front."""
        start = address & ~3
        if start < self._flashing.origin + self._hidden:
            return None
        try:
            found = self._read(start, (address + size - start + 3) & ~3)
        except (Code, Protected):
            return None
        return found[address - start :][:size]

    def unprotect(self) -> None:
        """Protection ends with the whole flash; the loader obeys the old level until the next reset."""
        self._erase(self._flashing.sectors)
        if self._is_protected():
            raise Protected(
                "the chip is erased, and its boot loader keeps the protection until it is reset",
                where=self._port.name,
                hint=f"reset it into its boot loader again ({self._flashing.enter or 'see its manual'}), then flash",
            )

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        done = 0
        for at in range(0, len(sectors), SECTORS_AT_ONCE):
            part = sectors[at : at + SECTORS_AT_ONCE]
            self._erase(part)
            done += sum(s.size for s in part)
            step(done)
        if sectors and sectors[0].number == 0:
            self._look_for_the_rom()

    def write(self, address: int, data: bytes, step: Step) -> None:
        lock = data[max(0, self._flashing.origin + LOCK_AT - address) :][:4]
        if address <= self._flashing.origin + LOCK_AT and int.from_bytes(lock, "little") in LOCKS:
            raise FlashError(
                "this image would protect the chip, perhaps for ever: nothing was written",
                where=f"address {self._flashing.origin + LOCK_AT:#x}",
                got=f"{int.from_bytes(lock, 'little'):#010x}",
            )
        blocks, at = [], 0
        while at < len(data):
            size = next((s for s in self._variant.blocks if s <= len(data) - at), self._variant.blocks[-1])
            if self._hidden and address + at == self._flashing.origin:
                # This one is read back from RAM besides.
                size = min(s for s in self._variant.blocks if s >= self._hidden)
            blocks.append((at, size))
            at += size
        done = 0
        for at, size in (*blocks[1:], *blocks[:1]):
            self._write(address + at, data[at : at + size].ljust(size, ERASED))
            done += size
            step(min(done, len(data)))

    def verify(self, address: int, data: bytes, step: Step) -> None:
        if address == self._flashing.origin:
            self._entry = int.from_bytes(data[4:8], "little")
        at = max(0, self._flashing.origin + self._hidden - address)
        if at:
            self.proof = Proof.BEHIND_ROM
        while at < len(data):
            wanted = data[at : at + LARGEST_PIECE]
            found = self._read_surely(address + at, wanted)
            compare(address + at, wanted, found)
            at += len(wanted)
            step(min(at, len(data)))

    def start(self, address: int) -> bool:
        """Address 0 is the ROM's; the program begins where its own reset vector says."""
        entry = self._entry & ~1
        if not self._flashing.origin < entry < self._flashing.end:
            return False
        self._link.ask(f"G {entry} T")
        return True

    def _is_protected(self) -> bool:
        """CRP1 and CRP2 forbid reading; at CRP3 and NO_ISP there is no loader to ask."""
        try:
            self._read(self._flashing.origin + LOCK_AT, 4)
        except Protected:
            return True
        return False

    def _numbers(self, command: str, count: int) -> tuple[int, ...]:
        return agreed(lambda: self._reliably(lambda: self._link.numbers(command, count)), self._port.name)

    def _read(self, address: int, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self._reliably(partial(self._read_piece, address + len(found), size - len(found)))
        return found

    def _read_piece(self, address: int, limit: int) -> bytes:
        return self._link.fetch(address, min(self._piece, limit))

    def _store(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at += self._reliably(partial(self._store_piece, self._flashing.buffer + at, data[at:]))

    def _store_piece(self, address: int, data: bytes) -> int:
        piece = data[: self._piece]
        self._link.store(address, piece)
        return len(piece)

    def _read_surely(self, address: int, wanted: bytes) -> bytes:
        """What differs is read again, since sums miss some errors and plain data has none."""
        read = partial(self._read, address, len(wanted))
        return settled(wanted, read, read, self._port.name)

    def _erase(self, sectors: Sequence[Sector]) -> None:
        run = f"{sectors[0].number} {sectors[-1].number}"
        self._reliably(lambda: self._prepared(run, f"E {run}", SECTOR_S * len(sectors)))

    def _prepared(self, run: str, command: str, wait_s: float) -> None:
        """Each erasure and each copy ends what was prepared."""
        self._link.ask(f"P {run}")
        self._link.ask(command, wait_s)

    def _look_for_the_rom(self) -> None:
        """After an erasure: where the first bytes are not erased and those behind them are, they are the ROM's."""
        origin, hidden = self._flashing.origin, self._variant.hidden
        front, behind = self._read(origin, hidden), self._read(origin + hidden, hidden)
        self._hidden = hidden if front.strip(ERASED) and not behind.strip(ERASED) else 0

    def _write(self, address: int, block: bytes) -> None:
        """A copy whose answer is lost is judged by what the block then holds."""
        skipped = max(0, self._flashing.origin + self._hidden - address)
        sectors = self._flashing.touched(address, len(block))
        run = f"{sectors[0].number} {sectors[-1].number}"
        buffer = self._flashing.buffer
        for attempt in range(TRIES):
            self._store(block)
            if skipped and self._read_surely(buffer, block) != block:
                continue
            try:
                self._prepared(run, f"C {address} {buffer} {len(block)}", COPY_S)
                return
            except Code as error:
                if attempt == TRIES - 1 or error.code == PROTECTED:
                    raise
            except (NoAnswer, Garbage):
                self._link.recover()
            wanted = block[skipped:]
            found = self._read_surely(address + skipped, wanted) if wanted else b""
            if found.strip(ERASED):
                if found == wanted:
                    return
                break
            if skipped and not wanted.strip(ERASED):
                break
        raise Damaged(address)

    def _reliably(self, action: Callable[[], T]) -> T:
        """Does it again after a disturbance, and after a refusal that may come of one. Short pieces come through where
        long ones do not."""
        refusals = 0
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage):
                if attempt == TRIES - 1:
                    raise
                self._link.recover()
                self._piece = max(LEAST_PIECE, self._piece // 8 * 4)
            except Code as error:
                refusals += 1
                if error.code == PROTECTED:
                    raise Protected("the boot loader refuses: the chip is protected", where=self._port.name) from error
                if refusals == REFUSALS or attempt == TRIES - 1:
                    raise
                if error.code == LOCKED:
                    with suppress(NoAnswer, Garbage):
                        self._link.answer(UNLOCK)
        raise AssertionError("the last attempt returns or raises")


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Lpc:
    """See protocol.Maker."""
    return Lpc(port, flashing, baud, patience)
