# SPDX-License-Identifier: Apache-2.0
"""MCUmgr's Simple Management Protocol on a serial line (Zephyr, Device Management: SMP protocol specification, SMP
transport specification): requests of CBOR maps, packed into lines of base64, one at a time."""

from __future__ import annotations

import base64
import binascii
import struct
import time
from binascii import crc_hqx
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import cbor2

from toolchain.flash.errors import Echo, Garbage, NoAnswer, Refused
from toolchain.flash.port import Port

START, CONTINUE, END = b"\x06\x09", b"\x04\x14", b"\n"
LINE_TEXT = 124
"""Characters of base64 in a line: 127 with the delimiters, which every receiver takes."""
LONGEST_LINE = 4096
HEADER = struct.Struct(">BBHHBB")
"""Operation, flags, size of the body, group, sequence number, command."""
LENGTH_BYTES = CRC_BYTES = 2


class Operation(IntEnum):
    """In the low three bits; an answer is its request plus one."""

    READ = 0
    READ_ANSWER = 1
    WRITE = 2
    WRITE_ANSWER = 3


OPERATION_BITS = 0x7


class Group(IntEnum):
    """Of commands."""

    OS = 0
    IMAGE = 1


class OsCommand(IntEnum):
    """Group 0."""

    RESET = 5
    PARAMETERS = 6


class ImageCommand(IntEnum):
    """Group 1."""

    STATE = 0
    UPLOAD = 1
    SLOTS = 6


class Code(IntEnum):
    """`rc` of an answer (Zephyr, mgmt_defines.h)."""

    OK = 0
    UNKNOWN = 1
    NO_MEMORY = 2
    INVALID = 3
    TIMEOUT = 4
    NO_ENTRY = 5
    BAD_STATE = 6
    TOO_LONG = 7
    NOT_SUPPORTED = 8
    CORRUPT = 9
    BUSY = 10
    ACCESS_DENIED = 11


class ImageCode(IntEnum):
    """`err` of the image group (Zephyr, img_mgmt.h): those that say more than their number to a user."""

    FLASH_WRITE_FAILED = 12
    FLASH_ERASE_FAILED = 13
    INVALID_LENGTH = 21
    INVALID_IMAGE_HEADER = 22
    INVALID_IMAGE_HEADER_MAGIC = 23
    INVALID_FLASH_ADDRESS = 25
    CURRENT_VERSION_IS_NEWER = 27
    IMAGE_ALREADY_PENDING = 28
    INVALID_IMAGE_VECTOR_TABLE = 29
    INVALID_IMAGE_TOO_LARGE = 30


Command = OsCommand | ImageCommand
Body = Mapping[str, object]


@dataclass(frozen=True)
class Message:
    """A request or an answer."""

    operation: int
    group: int
    command: int
    sequence: int
    body: Body

    def packed(self) -> bytes:
        body = cbor2.dumps(dict(self.body))
        return HEADER.pack(self.operation, 0, len(body), self.group, self.sequence, self.command) + body


def unpacked(data: bytes) -> Message | None:
    """A message; None for what is none."""
    if len(data) < HEADER.size:
        return None
    operation, _, size, group, sequence, command = HEADER.unpack_from(data)
    try:
        body = cbor2.loads(data[HEADER.size : HEADER.size + size])
    except (cbor2.CBORDecodeError, ValueError):
        return None
    if not isinstance(body, dict):
        return None
    return Message(operation & OPERATION_BITS, group, command, sequence, body)


def lines(message: bytes) -> bytes:
    """The lines that carry a message."""
    size = (len(message) + CRC_BYTES).to_bytes(LENGTH_BYTES, "big")
    text = base64.b64encode(size + message + crc_hqx(message, 0).to_bytes(CRC_BYTES, "big"))
    parts = [text[i : i + LINE_TEXT] for i in range(0, len(text), LINE_TEXT)]
    return START + (END + CONTINUE).join(parts) + END


@dataclass
class Assembler:
    """Messages out of what a line carries; a console's other output in between is skipped."""

    _line: bytearray = field(default_factory=bytearray)
    _frame: bytes | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole with these bytes."""
        for byte in data:
            if byte != END[0]:
                self._line.append(byte)
                del self._line[:-LONGEST_LINE]
                continue
            line = bytes(self._line)
            self._line.clear()
            message = self._take(line)
            if message is not None:
                yield message

    def _take(self, line: bytes) -> bytes | None:
        at = line.find(START)
        if at >= 0:
            self._frame = b""
        elif line.startswith(CONTINUE) and self._frame is not None:
            at = 0
        else:
            return None
        try:
            self._frame = (self._frame or b"") + base64.b64decode(line[at + len(START) :].rstrip(b"\r"), validate=True)
        except binascii.Error:
            self._frame = None
            return None
        size, rest = int.from_bytes(self._frame[:LENGTH_BYTES], "big"), self._frame[LENGTH_BYTES:]
        if len(rest) < size:
            return None
        self._frame = None
        good = len(rest) == size > CRC_BYTES and crc_hqx(rest, 0) == 0
        return rest[:-CRC_BYTES] if good else None


class Requests:
    """Asks one thing after another. Answers to what is asked no more are skipped, by their sequence numbers."""

    def __init__(self, port: Port) -> None:
        self._port, self._sequence = port, 0

    def ask(self, operation: Operation, group: Group, command: Command, body: Body, wait_s: float) -> Body:
        """The answer's map. Refused where it holds an error; NoAnswer, Garbage or Echo where none comes within
        `wait_s`, whatever else does."""
        self._sequence = (self._sequence + 1) & 0xFF
        request = Message(operation, group, command, self._sequence, body)
        # A line end first: what is left of a damaged line must not spoil this one.
        self._port.write(END + lines(request.packed()))
        heard, end, assembler = b"", time.monotonic() + wait_s, Assembler()
        while (left := end - time.monotonic()) > 0:
            data = self._port.read(left)
            heard = (heard + data)[:64]
            for found in map(unpacked, assembler.feed(data)):
                if found == request:
                    raise Echo("the bytes that we send come back", where=self._port.name, hint="TX and RX are joined")
                if found is not None and _answers(found, request):
                    _check(found.body, command.name.lower(), self._port.name)
                    return found.body
        if heard:
            raise Garbage(
                "what answers is no MCUmgr server, or the line is disturbed",
                where=self._port.name,
                got=heard[:16].hex(" "),
                allowed="lines that begin with 06 09",
                hint="the application may be running instead: enter the boot loader again; check the rate: baud=",
            )
        raise NoAnswer("no answer from the boot loader", where=self._port.name)


def _answers(found: Message, request: Message) -> bool:
    asked = (request.operation + 1, request.group, request.command, request.sequence)
    return (found.operation, found.group, found.command, found.sequence) == asked


def _check(body: Body, what: str, where: str) -> None:
    """Refused for an answer's error, of the first version of the protocol (`rc`) or the second (`err`)."""
    error = body.get("err")
    if isinstance(error, dict):
        group, code = error.get("group"), error.get("rc")
        named = _name(ImageCode, code) if group == Group.IMAGE else ""
    else:
        code = body.get("rc", Code.OK)
        named = _name(Code, code)
    if code == Code.OK:
        return
    reason = body.get("rsn")
    told = " ".join(filter(None, (f"error {code}", named, str(reason) if reason else "")))
    raise Refused(f"the boot loader refuses: {what}", where=where, got=told)


def _name(codes: type[IntEnum], code: object) -> str:
    return next((entry.name.lower().replace("_", " ") for entry in codes if entry == code), "")
