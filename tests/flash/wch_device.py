# SPDX-License-Identifier: Apache-2.0
"""A chip in WCH's ISP boot loader: frames, key exchange and order of commands as recorded traces show them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from boards.flashing import Flashing
from tests.flash.line import Line
from tests.flash.memory import Flash

GOOD, WRONG_PHRASE, DIFFERS, FAILED = 0x00, 0xF1, 0xF5, 0xFE
PHRASE = b"MCU ISP & WCH.CN"
BUFFER = 64
UID = bytes.fromhex("cdaba1716cbcdad9")
VERSION = bytes((0, 2, 6, 0))
FACTORY = bytes.fromhex("a55aff00ff00ff00ffffffff")


@dataclass
class WchDevice:
    """`keeps_protection`: option bytes do not change, as some versions have it. `silent_end`: as BTVER 2.31."""

    flashing: Flashing
    chip_id: int = 0x70
    family: int = 0x17
    keeps_protection: bool = False
    silent_end: bool = False
    options: bytearray = field(default_factory=lambda: bytearray(FACTORY))
    version: bytes = VERSION
    uid: bytes = UID
    flash: Flash = field(init=False)
    started: bool = False
    key: bytes | None = None
    identified: bool = False
    next: int | None = None
    pending: int = 0
    requests: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)

    @property
    def locked(self) -> bool:
        return self.options[0] != 0xA5

    def serve(self, line: Line) -> None:
        while True:
            if line.take(1) != b"\x57" or line.take(1) != b"\xab":
                continue
            head = line.take(3)
            command, size = struct.unpack("<BH", head)
            if size > BUFFER - 3:
                continue
            payload, checksum = line.take(size), line.take(1)[0]
            if sum(head + payload) & 0xFF != checksum:
                continue
            self.requests.append(b"\x57\xab" + head + payload + bytes((checksum,)))
            answer = self.answer(command, payload)
            if answer is not None:
                line.give(reply(command, answer))

    def answer(self, command: int, payload: bytes) -> bytes | None:
        """The reply's payload; None for silence."""
        if command == 0xA1:
            self.identified = payload[2:] == PHRASE
            return bytes((self.chip_id, self.family)) if self.identified else bytes((WRONG_PHRASE, 0))
        if not self.identified:
            return None
        if command == 0xA7:
            return payload[:2] + bytes(self.options) + self.version + self.uid if payload[0] == 0x1F else None
        if command == 0xA8:
            if not self.keeps_protection:
                was_locked, self.options = self.locked, bytearray(payload[2:14])
                if was_locked and not self.locked:
                    for sector in self.flashing.sectors:
                        self.flash.erase(sector.number)
            return bytes((GOOD, 0))
        if command == 0xA3:
            if len(payload) < 30:
                return bytes((FAILED, 0))
            self.key = key_of(payload, self.chip_id, self.uid)
            return bytes((sum(self.key) & 0xFF, 0))
        if command == 0xA2:
            self.started, self.identified, self.key = payload == b"\x01" and not self.locked, False, None
            return None if self.silent_end else bytes((GOOD, 0))
        if command == 0xA4:
            return bytes((self._erase(payload), 0))
        if command in (0xA5, 0xA6):
            return bytes((self._data(command, payload), 0))
        return bytes((FAILED, 0))

    def _erase(self, payload: bytes) -> int:
        count = int.from_bytes(payload, "little")
        if self.locked or self.key is None or len(payload) != 4 or not 0 < count <= len(self.flashing.sectors):
            return FAILED
        for number in range(count):
            self.flash.erase(number)
        self.next, self.pending = None, 0
        return GOOD

    def _data(self, command: int, payload: bytes) -> int:
        if self.locked or self.key is None or len(payload) < 5:
            return FAILED
        address = int.from_bytes(payload[:4], "little")
        data = bytes(b ^ self.key[i % 8] for i, b in enumerate(payload[5:]))
        if len(data) % 8 or not self.flash.holds(self.flashing.origin + address, len(data)):
            return FAILED
        if command == 0xA6:
            return GOOD if self.flash.read(self.flashing.origin + address, len(data)) == data else DIFFERS
        if self.next is not None and address != self.next:
            return FAILED
        self.flash.program(self.flashing.origin + address, data)
        self.next = address + len(data) if data else None
        return GOOD


def key_of(seed: bytes, chip_id: int, uid: bytes) -> bytes:
    """The general formula: places in the seed that depend on its length."""
    a, b, u = len(seed) // 5, len(seed) // 7, sum(uid) & 0xFF
    places = (4 * b, a, b, 6 * b, 3 * b, 3 * a, 5 * b)
    key = [seed[place] ^ u for place in places]
    return bytes((*key, (key[0] + chip_id) & 0xFF))


def reply(command: int, payload: bytes) -> bytes:
    body = struct.pack("<BBH", command, 0, len(payload)) + payload
    return b"\x55\xaa" + body + bytes((sum(body) & 0xFF,))
