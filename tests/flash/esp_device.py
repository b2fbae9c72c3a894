# SPDX-License-Identifier: Apache-2.0
"""An ESP32-C3 in its ROM loader, as Espressif's serial protocol describes it: SLIP frames, checked sums, flash written
in numbered blocks that were announced, and an MD5 of what is really there; and in the loader that a host puts into its
RAM first, which takes larger blocks and answers more tersely."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.flash.line import Line

END, ESCAPE, ESCAPED_END, ESCAPED_ESCAPE = 0xC0, 0xDB, 0xDC, 0xDD
SYNC_DATA = b"\x07\x07\x12\x20" + b"\x55" * 32
SEED, BLOCK, LOADED_BLOCK, RAM_BLOCK, SECTOR = 0xEF, 0x400, 0x4000, 0x1800, 0x1000
GREETING = b"OHAI"
INVALID, FAILED, BAD_SUM, BAD_WRITE, BAD_DEFLATE = 0x05, 0x06, 0x07, 0x08, 0x0B
SYNC_ANSWERS = 8
CHIP_ID = 5
SPI_CMD, SPI_USER2, SPI_W0, SPI_START, SPI_READ_ID = 0x60002000, 0x60002020, 0x60002058, 1 << 18, 0x9F
FLASH_ID = 0x1640EF
"""A Winbond W25Q32: 4 MB."""


@dataclass
class Refusal(Exception):
    """What the loader answers instead."""

    code: int


@dataclass
class Transfer:
    """A piece of flash that is being written: `data` as it comes, `left` blocks to come."""

    address: int
    size: int
    blocks: int
    compressed: bool
    to_ram: bool = False
    next: int = 0
    data: bytearray = field(default_factory=bytearray)


@dataclass
class EspDevice:
    """`stuck`: a bit of this byte never changes. `ignores`: blocks are acknowledged and not written. `banner`: what the
    ROM prints at the start. `chip_id`: 5 is the ESP32-C3."""

    chip_id: int = CHIP_ID
    size: int = 4 << 20
    stuck: int | None = None
    ignores: bool = False
    banner: bytes = b"ESP-ROM:esp32c3-api1-20210207\r\nboot:0x4 (DOWNLOAD(USB/UART0/1))\r\nwaiting for download\r\n"
    flash: bytearray = field(init=False)
    synced: bool = False
    attached: bool = False
    loaded: bool = False
    """Whether the loader in RAM runs."""
    finished: bool = False
    transfer: Transfer | None = None
    registers: dict[int, int] = field(default_factory=dict)
    erased: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flash = bytearray(b"\x5a" * self.size)

    def serve(self, line: Line) -> None:
        line.give(self.banner)
        while True:
            request = _frame(line)
            if len(request) < 8 or request[0] != 0:
                continue
            _, operation, size, checksum = struct.unpack("<BBHI", request[:8])
            data = request[8:]
            if size != len(data) or not (self.synced or operation == 0x08):
                continue
            for answer in self.answers(operation, data, checksum):
                line.give(answer)

    def answers(self, operation: int, data: bytes, checksum: int) -> list[bytes]:
        commands: dict[int, Callable[[bytes, int], tuple[int, bytes]]] = {
            0x02: self._begin,
            0x03: self._block,
            0x04: self._finish,
            0x05: self._begin_memory,
            0x06: self._run,
            0x07: self._block,
            0x08: self._sync,
            0x09: self._write_register,
            0x0A: self._read_register,
            0x0B: self._parameters,
            0x0D: self._attach,
            0x0F: lambda data, _: (0, b""),
            0x10: self._begin_deflated,
            0x11: self._block,
            0x12: self._finish,
            0x13: self._md5,
            0x14: self._security,
        }
        try:
            if operation not in commands:
                raise Refusal(INVALID)
            value, body = commands[operation](data, checksum)
            status = b"\0\0"
        except Refusal as refusal:
            value, body, status = 0, b"", bytes((1, refusal.code))
        ran = operation == 0x06 and status == b"\0\0"
        if not self.loaded or ran:
            status += b"\0\0"
        answer = struct.pack("<BBHI", 1, operation, len(body) + len(status), value) + body + status
        return [_slip(answer)] * (SYNC_ANSWERS if operation == 0x08 else 1) + [_slip(GREETING)] * ran

    def _sync(self, data: bytes, _: int) -> tuple[int, bytes]:
        if data != SYNC_DATA:
            raise Refusal(INVALID)
        self.synced = True
        return 0x20120707, b""

    def _read_register(self, data: bytes, _: int) -> tuple[int, bytes]:
        return self.registers.get(_words(data, 1)[0], 0), b""

    def _write_register(self, data: bytes, _: int) -> tuple[int, bytes]:
        address, value, mask, _delay = _words(data, 4)
        self.registers[address] = self.registers.get(address, 0) & ~mask | value & mask
        if address == SPI_CMD and value & SPI_START:
            self.registers[SPI_CMD] = 0
            reads_id = self.registers.get(SPI_USER2, 0) & 0xFF == SPI_READ_ID
            self.registers[SPI_W0] = FLASH_ID if reads_id and self.attached else 0
        return 0, b""

    def _attach(self, data: bytes, _: int) -> tuple[int, bytes]:
        _words(data, 2)
        self.attached = True
        return 0, b""

    def _parameters(self, data: bytes, _: int) -> tuple[int, bytes]:
        identity, size, block, sector, page, mask = _words(data, 6)
        if (identity, size, block, sector, page, mask) != (0, self.size, 0x10000, SECTOR, 0x100, 0xFFFF):
            raise Refusal(FAILED)
        return 0, b""

    def _begin_memory(self, data: bytes, _: int) -> tuple[int, bytes]:
        size, blocks, block, offset = _words(data, 4)
        if self.loaded or block > RAM_BLOCK or blocks * block < size:
            raise Refusal(INVALID)
        self.transfer = Transfer(offset, size, blocks, False, to_ram=True)
        return 0, b""

    def _run(self, data: bytes, _: int) -> tuple[int, bytes]:
        _stay, entry = _words(data, 2)
        if self.transfer is None or not self.transfer.to_ram or self.transfer.next != self.transfer.blocks or not entry:
            raise Refusal(FAILED)
        self.loaded, self.attached, self.transfer = True, True, None
        return 0, b""

    def _begin(self, data: bytes, _: int) -> tuple[int, bytes]:
        return self._announce(data, compressed=False)

    def _begin_deflated(self, data: bytes, _: int) -> tuple[int, bytes]:
        return self._announce(data, compressed=True)

    def _announce(self, data: bytes, compressed: bool) -> tuple[int, bytes]:
        """Erases the sectors at once. The ROM, and newer loaders, are told besides whether to encrypt."""
        size, blocks, block, offset, *_ = _words(data, 4 if self.loaded and len(data) == 16 else 5)
        end = offset + -(-size // SECTOR) * SECTOR
        if not self.attached or block != (LOADED_BLOCK if self.loaded else BLOCK) or offset % SECTOR or end > self.size:
            raise Refusal(FAILED)
        if not compressed and blocks * block < size:
            raise Refusal(INVALID)
        self.erased.append((offset, end))
        if not self.ignores:
            self.flash[offset:end] = b"\xff" * (end - offset)
        self.transfer = Transfer(offset, size, blocks, compressed)
        return 0, b""

    def _block(self, data: bytes, checksum: int) -> tuple[int, bytes]:
        size, number, *_ = _words(data[:16], 4)
        payload, transfer = data[16:], self.transfer
        if transfer is None or size != len(payload) or number != transfer.next or number >= transfer.blocks:
            raise Refusal(INVALID)
        total = SEED
        for byte in payload:
            total ^= byte
        if total != checksum:
            raise Refusal(BAD_SUM)
        transfer.data += payload
        transfer.next += 1
        if transfer.next == transfer.blocks and not transfer.to_ram:
            self._store(transfer)
        return 0, b""

    def _store(self, transfer: Transfer) -> None:
        data = bytes(transfer.data)
        if transfer.compressed:
            try:
                data = zlib.decompress(data)
            except zlib.error as error:
                raise Refusal(BAD_DEFLATE) from error
        data = data[: transfer.size]  # what fills the last block is not written
        end = transfer.address + len(data)
        if len(data) < transfer.size or not any(
            first <= transfer.address and end <= last for first, last in self.erased
        ):
            raise Refusal(BAD_WRITE)
        if not self.ignores:
            self.flash[transfer.address : end] = data
        if self.stuck is not None and transfer.address <= self.stuck < end:
            self.flash[self.stuck] ^= 0x10

    def _finish(self, data: bytes, _: int) -> tuple[int, bytes]:
        _words(data, 1)
        self.finished, self.transfer = True, None
        return 0, b""

    def _md5(self, data: bytes, _: int) -> tuple[int, bytes]:
        """The ROM answers with digits, the uploaded loader with bytes."""
        address, size, *_rest = _words(data, 4)
        if not self.attached or address + size > self.size:
            raise Refusal(FAILED)
        found = hashlib.md5(self.flash[address : address + size])
        return 0, found.digest() if self.loaded else found.hexdigest().encode()

    def _security(self, data: bytes, _: int) -> tuple[int, bytes]:
        """Flags, flash encryption's counter, key purposes, chip id, API version."""
        return 0, struct.pack("<IB7sII", 0, 0, bytes(7), self.chip_id, 0)


def _words(data: bytes, count: int) -> tuple[int, ...]:
    if len(data) != 4 * count:
        raise Refusal(INVALID)
    return struct.unpack(f"<{count}I", data)


def _frame(line: Line) -> bytes:
    """The next frame that is not empty. What is not between two ends is dropped."""
    while line.take(1)[0] != END:
        pass
    while True:
        found = bytearray()
        while (byte := line.take(1)[0]) != END:
            if byte == ESCAPE:
                byte = {ESCAPED_END: END, ESCAPED_ESCAPE: ESCAPE}.get(line.take(1)[0], 0)
            found.append(byte)
        if found:
            return bytes(found)


def _slip(data: bytes) -> bytes:
    escaped = data.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
    return b"\xc0" + escaped + b"\xc0"
