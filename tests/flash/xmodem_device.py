# SPDX-License-Identifier: Apache-2.0
"""A boot loader that receives by XMODEM-CRC or YMODEM."""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass

from tests.flash.line import Line

SOH, STX, EOT, ACK, NAK, CAN, ASK = 0x01, 0x02, 0x04, b"\x06", b"\x15", b"\x18", b"C"


@dataclass
class XmodemDevice:
    """`limit`: cancels beyond that many bytes. `received` is complete where `done`."""

    named: bool = False
    limit: int = 1 << 20
    received: bytes = b""
    size: int | None = None
    done: bool = False
    ask_s: float = 0.3

    def serve(self, line: Line) -> None:
        expected, ended = (0 if self.named else 1), False
        line.give(ASK)
        while True:
            kind = line.take(1, self.ask_s)
            if not kind:
                if not self.done:
                    line.give(ASK if not self.received else NAK)
            elif kind[0] == EOT:
                # The first one is doubted: a lone byte may be a disturbed one.
                line.give(ACK if ended else NAK)
                if ended and not self.done:
                    expected = 0
                    self.done = not self.named
                    if self.named:
                        line.give(ASK)
                ended = True
            elif kind[0] in (SOH, STX):
                expected = self._block(line, 128 if kind[0] == SOH else 1024, expected, ended)
            else:
                line.take(2000, 0.05)
                line.give(NAK)

    def _block(self, line: Line, size: int, expected: int, ended: bool) -> int:
        """Returns the number that is expected next."""
        head = line.take(2, 0.3)
        data, check = line.take(size, 0.3), line.take(2, 0.3)
        good = len(check) == 2 and head[0] ^ head[1] == 0xFF and crc_hqx(data, 0) == int.from_bytes(check, "big")
        if not good:
            line.take(2000, 0.05)
            line.give(NAK)
            return expected
        if head[0] == (expected - 1) & 0xFF and not (self.named and ended):
            line.give(ACK)
            return expected
        if head[0] != expected & 0xFF or len(self.received) + size > self.limit:
            line.give(CAN + CAN)
            return expected
        line.give(ACK)
        if self.named and ended:
            self.done = not data[0]  # no name: no more files; what follows is of no account
            self.received = self.received[: self.size]
        elif self.named and expected == 0:
            self.size = int(data.split(b"\0")[1].split()[0])
            line.give(ASK)
        else:
            self.received += data
        return expected + 1
