# SPDX-License-Identifier: Apache-2.0
"""A chip in Nordic's serial DFU boot loader as Adafruit builds it: hci_slip.c, hci_transport.c, dfu_single_bank.c and
dfu_init.c. It acknowledges what is whole and in order, restarts where it is told something wrong, and says no more."""

from __future__ import annotations

import struct
import time
from binascii import crc_hqx
from dataclasses import dataclass, field

from boards.flashing import Flashing
from tests.flash.line import Line
from tests.flash.memory import Flash

INIT, START, DATA, STOP = 1, 3, 4, 5
LARGEST = 600
SOFTDEVICE, ANY = 0x00B7, 0xFFFE


@dataclass
class NordicDfuDevice:
    """`busy_s`: it hears nothing for so long for each page that it erases. `started`: it has left for the program;
    `lingers`: it listens for a while after its restart, before it does."""

    flashing: Flashing
    device_type: int = 0x0052
    busy_s: float = 0.01
    lingers: bool = False
    flash: Flash = field(init=False)
    started: bool = False
    restarts: int = 0
    ignored: int = 0
    """Bytes that came while it erased."""
    expected: int = 1
    state: str = "idle"
    size: int = 0
    received: int = 0
    init: bytes = b""

    def __post_init__(self) -> None:
        self.flash = Flash(self.flashing)

    def serve(self, line: Line) -> None:
        frame, inside, escaped = bytearray(), False, False
        while True:
            byte = line.take(1)[0]
            if self.started and not self.lingers:
                continue
            if byte == 0xC0:
                if inside and frame:
                    self._packet(line, bytes(frame))
                    inside = False
                else:
                    inside = True
                frame.clear()
                escaped = False
            elif inside and byte == 0xDB and not escaped:
                escaped = True
            elif inside and len(frame) < LARGEST:
                frame.append({0xDC: 0xC0, 0xDD: 0xDB}.get(byte, byte) if escaped else byte)
                escaped = False

    def _packet(self, line: Line, frame: bytes) -> None:
        reliable_with_crc, vendor = 0xC0, 14
        if len(frame) <= 6 or frame[0] & 0xC0 != reliable_with_crc or frame[1] & 0xF != vendor:
            return
        if sum(frame[:4]) & 0xFF or crc_hqx(frame[:-2], 0xFFFF) != int.from_bytes(frame[-2:], "little"):
            return
        in_order = frame[0] & 7 == self.expected
        self.expected = (self.expected + in_order) % 8
        head = bytes((self.expected << 3, 0, 0))
        line.give(b"\xc0" + head + bytes((-sum(head) & 0xFF,)) + b"\xc0")
        assert frame[1] >> 4 | frame[2] << 4 == len(frame) - 6
        if in_order:
            payload = frame[8:-2]
            self._handle(line, frame[4], payload[: len(payload) // 4 * 4])

    def _handle(self, line: Line, kind: int, payload: bytes) -> None:
        if kind == START:
            mode, softdevice, loader, size = struct.unpack("<B3xIII", payload)
            fits = size <= len(self.flash.data) and size % 4 == 0
            if mode != 4 or softdevice or loader or not fits or self.state != "idle":
                self._restart()
                return
            for number in range(-(-size // 4096)):
                self.flash.erase(number)
            self._deafness(line, self.busy_s * -(-size // 4096))
            self.state, self.size, self.received, self.init = "ready", size, 0, b""
        elif kind == INIT and self.state == "ready":
            self.init, self.state = payload, "data"
            if not self._welcome(payload):
                self._restart()
        elif kind == INIT:
            self._restart()
        elif kind == DATA and self.state == "data" and self.received + len(payload) <= self.size:
            self.flash.program(self.flashing.origin + self.received, payload)
            self.received += len(payload)
        elif kind == STOP and self.state == "data" and self.received == self.size:
            self.state = "checked"
            held = self.flash.read(self.flashing.origin, self.size)
            at = 10 + 2 * int.from_bytes(self.init[8:10], "little")
            self.started = crc_hqx(held, 0xFFFF) == int.from_bytes(self.init[at : at + 2], "little")
            if self.started:
                self._restart()

    def _welcome(self, init: bytes) -> bool:
        if len(init) < 12:
            return False
        device, _, _, count = struct.unpack_from("<HHIH", init)
        wanted = struct.unpack_from(f"<{count}H", init, 10) if len(init) >= 12 + 2 * count else ()
        return device == self.device_type and bool({SOFTDEVICE, ANY} & set(wanted))

    def _restart(self) -> None:
        self.restarts += not self.started
        self.state, self.expected = "idle", 1

    def _deafness(self, line: Line, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ignored += len(line.take(4096, 0.0))
