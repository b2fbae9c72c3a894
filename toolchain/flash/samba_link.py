# SPDX-License-Identifier: Apache-2.0
"""Commands of Microchip's SAM-BA monitor: the one in ROM (SAM3X data sheet, chapter SAM-BA Boot Program) and Arduino's
for SAMD. Addresses and values are eight hexadecimal digits, `#` ends a command.

Blocks go plain over USB, and by XMODEM-CRC over a UART, which also wants 0x80 0x80 # to find its rate. Writes of words
are never acknowledged. Over USB some monitors mistake what shares a packet with a command, so each is flushed, and lose
the last packet of a block that fills it.
"""

from __future__ import annotations

from binascii import crc_hqx
from contextlib import suppress

from toolchain.flash.errors import Echo, FlashError, Garbage, NoAnswer
from toolchain.flash.port import Port
from toolchain.flash.xmodem import SMALL, Control

SYNC_TRIES, TRIES = 8, 6
SYNC_S, REPLY_S, LONG_S = 0.3, 1.0, 10.0
AUTO_BAUD, BINARY, NOTHING, BREAK = b"\x80", b"N#", b"z", b"q"
"""NOTHING makes no command, and takes the place of one that was begun; BREAK ends a block that nobody fetched."""
DONE = b"\n\r"
PACKET = 64
FLUSH_BYTES = 4096


class SambaLink:
    """After `synchronize`. `plain`: blocks are not packed."""

    def __init__(self, port: Port, patience: float, enter: str) -> None:
        self._port, self._patience, self._enter = port, patience, enter
        self.name = port.name
        self.plain = True

    def synchronize(self) -> None:
        """Also tells a USB monitor from one on a UART, by reading four bytes at 0, where every chip has its vectors."""
        heard = b""
        for attempt in range(SYNC_TRIES):
            heard += self._port.drain()
            if attempt % 2:
                for byte in (AUTO_BAUD, AUTO_BAUD, b"#"):
                    self._port.write(byte)
                    heard += self._port.drain(0.1 * self._patience)
            with suppress(NoAnswer, Garbage):
                self._binary()
                self._command(f"R{0:08X},{4:08X}")
                found = self._port.take(4, SYNC_S * self._patience)
                self.plain = len(found) == 4
                found = found if self.plain else self._fetch_packed(4)
                if int.from_bytes(found, "little") != self.word(0):
                    raise self._garbled(found)
                return
            if attempt > 1:
                heard += self._recover()
        if heard and not heard.strip(AUTO_BAUD + BINARY + NOTHING + BREAK):
            raise Echo("the bytes that we send come back", where=self._port.name, hint="TX and RX are joined")
        if heard:
            raise self._garbled(heard)
        raise self._silent()

    def version(self) -> str:
        """Such as `v2.0 [Arduino:XYZ] Mar 19 2018 09:45:14`."""
        self._command("V")
        found = self._until(DONE)
        if not found.isascii():
            raise self._garbled(found)
        return found.decode("ascii").strip()

    def word(self, address: int) -> int:
        self._command(f"w{address:08X},4")
        return int.from_bytes(self._take(4), "little")

    def set_word(self, address: int, value: int) -> None:
        self._command(f"W{address:08X},{value:08X}")

    def set_surely(self, address: int, value: int) -> None:
        """For a register that reads as it was written, before something is done by it."""
        for _ in range(TRIES):
            self.set_word(address, value)
            if self.word(address) == value:
                return
        raise Garbage(f"the register at {address:#x} never keeps {value:#x}", where=self._port.name)

    def ask(self, command: str) -> bytes:
        """An extension of Arduino's: the answer begins with the command's letter."""
        self._command(command)
        found = self._until(DONE, LONG_S)
        if found[:1] != command[:1].encode("ascii"):
            raise self._garbled(found)
        return found[1:]

    def checksum(self, address: int, size: int) -> int:
        """CRC-16 of memory, from the chip (extension Z)."""
        found = self.ask(f"Z{address:08X},{size:08X}").rstrip(b"#")
        if len(found) != 8:
            raise self._garbled(found)
        try:
            return int(found, 16)
        except ValueError as error:
            raise self._garbled(found) from error

    def read(self, address: int, size: int) -> bytes:
        """Memory, by bytes."""
        if self.plain and size > PACKET // 2 and size % PACKET == 0:
            last = self.word(address + size - 4).to_bytes(4, "little")
            return self.read(address, size - 4) + last
        self._command(f"R{address:08X},{size:08X}")
        return self._take(size) if self.plain else self._fetch_packed(size)

    def write(self, address: int, data: bytes) -> None:
        """RAM, by bytes."""
        self._command(f"S{address:08X},{len(data):08X}")
        if self.plain:
            self._port.write(data)
        else:
            self._send_packed(data)

    def recover(self) -> None:
        """Breaks off what the monitor is at. NoAnswer where it does not come back."""
        for _ in range(TRIES):
            with suppress(NoAnswer, Garbage):
                self._recover()
                self._binary()
                return
        raise self._silent()

    def _binary(self) -> None:
        """Numbers as bytes from now on; a way to see that the monitor listens."""
        self._port.write(NOTHING + b"#")
        self._port.drain(0.02 * self._patience)
        self._port.write(BINARY)
        found = self._port.take(2, SYNC_S * self._patience)
        if not found:
            raise self._silent()
        found += self._port.drain(0.05 * self._patience)
        if found != DONE:
            raise self._garbled(found)

    def _recover(self) -> bytes:
        """Acknowledges packets that still come, then fills up what the monitor may wait for."""
        self._port.write(BREAK)
        heard = self._port.drain(0.1 * self._patience)
        for _ in range(FLUSH_BYTES // SMALL):
            if Control.SOH not in heard[-SMALL - 5 :]:
                break
            self._port.write(bytes((Control.ACK,)))
            heard = self._port.drain(0.1 * self._patience)
        self._port.write(NOTHING * FLUSH_BYTES)
        return heard + self._port.drain(0.2 * self._patience)

    def _command(self, text: str) -> None:
        self._port.write(text.encode("ascii") + b"#")

    def _take(self, count: int, wait_s: float = REPLY_S) -> bytes:
        found = self._port.take(count, wait_s * self._patience)
        if len(found) < count:
            raise self._garbled(found) if found else self._silent()
        return found

    def _until(self, end: bytes, wait_s: float = REPLY_S) -> bytes:
        found = b""
        while not found.endswith(end):
            if len(found) > SMALL:
                raise self._garbled(found)
            found += self._take(1, wait_s)
        return found[: -len(end)]

    def _fetch_packed(self, size: int) -> bytes:
        data, number = b"", 1
        self._port.write(bytes((Control.CRC,)))
        for _ in range(TRIES + 2 * -(-size // SMALL)):
            kind = self._take(1)
            if kind == bytes((Control.EOT,)) and len(data) >= size:
                self._port.write(bytes((Control.ACK,)))
                return data[:size]
            packet = self._port.take(SMALL + 4, REPLY_S * self._patience)
            body = packet[2 : SMALL + 2]
            head = bytes((number & 0xFF, ~number & 0xFF))
            whole = packet[:2] == head and packet[SMALL + 2 :] == crc_hqx(body, 0).to_bytes(2, "big")
            if kind != bytes((Control.SOH,)) or not whole or len(packet) != SMALL + 4:
                self._port.drain(0.05 * self._patience)
                self._port.write(bytes((Control.NAK,)))
                continue
            self._port.write(bytes((Control.ACK,)))
            data += body
            number += 1
        raise Garbage("a block never arrives whole: the line is disturbed", where=self._port.name)

    def _send_packed(self, data: bytes) -> None:
        """The monitor cancels all of it where one packet is damaged."""
        while (asked := self._take(1)) != bytes((Control.CRC,)):
            if asked not in DONE:
                raise self._garbled(asked)
        self._port.drain()
        for number, at in enumerate(range(0, len(data), SMALL), 1):
            body = data[at : at + SMALL].ljust(SMALL, b"\0")
            head = bytes((Control.SOH, number & 0xFF, ~number & 0xFF))
            self._acknowledged(head + body + crc_hqx(body, 0).to_bytes(2, "big"))
        self._acknowledged(bytes((Control.EOT,)))

    def _acknowledged(self, frame: bytes) -> None:
        self._port.write(frame)
        while (answer := self._take(1)) == bytes((Control.CRC,)):
            continue  # asked again before it saw the packet
        if answer != bytes((Control.ACK,)):
            raise self._garbled(answer)

    def _silent(self) -> NoAnswer:
        return NoAnswer(
            "no answer from the boot loader",
            where=self._port.name,
            hint=f"bring the chip into its boot loader ({self._enter or 'see its manual'}); on a UART TX and RX may be "
            "swapped",
        )

    def _garbled(self, data: bytes) -> FlashError:
        return Garbage(
            "what answers is not this boot loader, or the line is disturbed",
            where=self._port.name,
            got=data[:16].hex(" ") or "an empty answer",
            allowed="SAM-BA's answers",
            hint=f"the application may be running instead: {self._enter or 'enter the boot loader again'}",
        )
