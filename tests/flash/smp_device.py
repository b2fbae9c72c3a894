# SPDX-License-Identifier: Apache-2.0
"""A chip in MCUboot's serial recovery, or one whose application has an MCUmgr server (boot_serial.c of MCUboot, and
img_mgmt.c of Zephyr): lines and buffers of fixed size, and one request at a time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from binascii import crc_hqx
from dataclasses import dataclass, field

import cbor2

from boards.flashing import Flashing
from tests.flash.line import Line
from tests.flash.memory import Flash

INVALID, NO_ENTRY, NOT_SUPPORTED = 3, 5, 8
INVALID_IMAGE_TOO_LARGE = 30
LINE_BYTES = 128
ALIGN = 4
SHA256, SIGNATURE = 0x10, 0x22


@dataclass
class SmpDevice:
    """`buffer`: bytes of a frame. `tells`: it knows the newer questions. `hashes`: it lists them. `signed`: it wants a
    signature. `application`: uploads go to a second slot and wait there until they are chosen; errors are of the
    protocol's second version."""

    flashing: Flashing
    buffer: int = 512
    tells: bool = True
    hashes: bool = True
    signed: bool = False
    application: bool = False
    others: list[dict[str, object]] = field(default_factory=list)
    """Images of other slots, as it lists them."""
    flash: Flash = field(init=False)
    started: bool = False
    chosen: bytes | None = None
    next: int = 0
    size: int = 0
    requests: list[tuple[int, int, int, dict[str, object]]] = field(default_factory=list)
    """Operation, group, command, body."""
    longest: int = 0
    """The longest line and the largest frame that came, in bytes."""
    largest: int = 0

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)

    def serve(self, line: Line) -> None:
        text, frame = b"", b""
        while True:
            byte = line.take(1)
            if byte != b"\n":
                text = (text + byte)[: LINE_BYTES + 1]
                continue
            self.longest = max(self.longest, len(text) + 1)
            head, part = text[:2], _decoded(text[2:])
            fits, text = len(text) < LINE_BYTES, b""
            if head not in (b"\x06\x09", b"\x04\x14") or part is None or not fits:
                continue
            frame = part if head == b"\x06\x09" else frame + part
            if len(frame) > self.buffer:
                continue
            size = int.from_bytes(frame[:2], "big")
            if len(frame) - 2 == size > 2 and not crc_hqx(frame[2:], 0):
                self.largest = max(self.largest, len(frame))
                answer = self.answer(frame[2:-2])
                if answer is not None:
                    line.give(_lines(answer))

    def answer(self, request: bytes) -> bytes | None:
        """The answer to a request; None for silence."""
        if len(request) < 8:
            return None
        operation, _, size, group, sequence, command = struct.unpack(">BBHHBB", request[:8])
        if operation & 7 not in (0, 2) or size < len(request) - 8:
            return None
        body = cbor2.loads(request[8:])
        assert isinstance(body, dict)
        self.requests.append((operation & 7, group, command, body))
        told = self._told(operation & 7, group, command, body)
        # A map of no stated length, as zcbor writes them.
        pairs = b"".join(cbor2.dumps(key) + cbor2.dumps(value) for key, value in told.items())
        out = b"\xbf" + pairs + b"\xff"
        return struct.pack(">BBHHBB", operation + 1, 0, len(out), group, sequence, command) + out

    def _told(self, operation: int, group: int, command: int, body: dict[str, object]) -> dict[str, object]:
        if (group, command) == (0, 0):
            return {"r": body["d"]}
        if (group, command) == (0, 5):
            self.started = self.image_hash() is not None and (not self.application or self.chosen == self.image_hash())
            return {"rc": 0}
        if (group, command) == (0, 6) and self.tells:
            return {"buf_size": self.buffer, "buf_count": 1}
        if (group, command) == (1, 6) and self.tells:
            slots = [{"slot": number, "size": len(self.flash.data)} for number in range(1 + self.application)]
            return {"images": [{"image": 0, "slots": slots}]}
        if (group, command) == (1, 0):
            return self._state(body) if operation == 2 else {"images": self._images()}
        if (group, command, operation) == (1, 1, 2):
            return self._upload(body)
        return self._error(NOT_SUPPORTED)

    def _error(self, code: int, image_code: int | None = None) -> dict[str, object]:
        if self.application and image_code is not None:
            return {"err": {"group": 1, "rc": image_code}}
        return {"rc": code}

    def _images(self) -> list[dict[str, object]]:
        running: dict[str, object] = {"slot": 0, "version": "0.9.0", "active": True, "hash": bytes(32)}
        found = [*self.others, running] if self.application else [*self.others]
        digest = self.image_hash()
        if digest is not None:
            entry: dict[str, object] = {"slot": int(self.application), "version": "1.0.0", "bootable": True}
            found.append(entry | ({"hash": digest} if self.hashes or self.application else {}))
        return found

    def _state(self, body: dict[str, object]) -> dict[str, object]:
        if not self.application:
            return self._error(NOT_SUPPORTED)
        if body.get("hash") != self.image_hash() or body.get("confirm") is not True:
            return self._error(NO_ENTRY)
        self.chosen = self.image_hash()
        return {"images": self._images()}

    def _upload(self, body: dict[str, object]) -> dict[str, object]:
        at, data = body.get("off"), body.get("data")
        if not isinstance(at, int) or not isinstance(data, bytes):
            return self._error(INVALID)
        if at == 0:
            size = body.get("len")
            if not isinstance(size, int) or len(data) < min(32, size):
                return self._error(INVALID)
            if size > len(self.flash.data):
                return self._error(INVALID, INVALID_IMAGE_TOO_LARGE)
            if data[:4] != struct.pack("<I", 0x96F3B83D):
                return self._error(INVALID, 23)
            for sector in self.flashing.sectors:
                self.flash.erase(sector.number)
            self.size, self.next = size, 0
        elif at != self.next:
            return {"rc": 0, "off": self.next}
        if self.next + len(data) > self.size:
            return self._error(INVALID)
        if self.next + len(data) < self.size:
            data = data[: len(data) // ALIGN * ALIGN]
        self.flash.program(self.flashing.origin + self.next, data)
        self.next += len(data)
        return {"rc": 0, "off": self.next}

    def image_hash(self) -> bytes | None:
        """The hash of the image in the slot, if that is valid."""
        flash = bytes(self.flash.data)
        magic, _, header, protected, size = struct.unpack_from("<IIHHI", flash)
        end = header + size
        if magic != 0x96F3B83D or end + 4 > len(flash) or protected:
            return None
        records = self._records(flash, end)
        digest = hashlib.sha256(flash[:end]).digest()
        return digest if records.get(SHA256) == digest and (not self.signed or SIGNATURE in records) else None

    @staticmethod
    def _records(flash: bytes, at: int) -> dict[int, bytes]:
        magic, total = struct.unpack_from("<HH", flash, at)
        found: dict[int, bytes] = {}
        place, end = at + 4, at + total
        while magic == 0x6907 and place + 4 <= end <= len(flash):
            kind, size = struct.unpack_from("<HH", flash, place)
            found[kind] = flash[place + 4 : place + 4 + size]
            place += 4 + size
        return found


def _decoded(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _lines(message: bytes) -> bytes:
    frame = struct.pack(">H", len(message) + 2) + message + struct.pack(">H", crc_hqx(message, 0))
    text = base64.b64encode(frame)
    parts = [text[i : i + 124] for i in range(0, len(text), 124)]
    return b"".join((b"\x04\x14" if i else b"\x06\x09") + part + b"\n" for i, part in enumerate(parts))
