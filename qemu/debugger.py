# SPDX-License-Identifier: Apache-2.0
"""As much of GDB's remote serial protocol as it takes to read and write the memory of a stopped guest, and to stop it.

Source: GDB manual, appendix E. QEMU's monitor reads memory into files alone, and cannot write it.
"""

from __future__ import annotations

import socket

CHUNK = 1900
"""Bytes a packet: QEMU's stub takes 4,096 characters, two a byte."""


class DebuggerError(Exception):
    """The stub refused a command or did not answer."""


class Debugger:
    """A client of QEMU's GDB stub on a connected socket. The guest stays stopped while it is attached."""

    def __init__(self, stream: socket.socket, timeout_s: float = 10.0) -> None:
        self._stream = stream
        self._stream.settimeout(timeout_s)
        self._pending = bytearray()

    def write_memory(self, address: int, data: bytes) -> None:
        """Write through the core's view of the address space. QEMU drops what it has no memory for."""
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK]
            answer = self._command(f"M{address + start:x},{len(part):x}:{part.hex()}")
            if answer != "OK":
                raise DebuggerError(f"cannot write {len(part)} bytes at {address + start:#x}: {answer or 'refused'}")

    def read_memory(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`, as the core sees them."""
        found = b""
        while len(found) < size:
            answer = self._command(f"m{address + len(found):x},{min(CHUNK, size - len(found)):x}")
            if not answer or answer.startswith("E"):
                raise DebuggerError(f"cannot read {size} bytes at {address:#x}: {answer or 'refused'}")
            found += bytes.fromhex(answer)
        return found

    def watch(self, address: int) -> None:
        """Have the guest stop behind the instruction that next writes to the word at `address`, and each time again."""
        self._accepted(f"Z2,{address:x},4")

    def unwatch(self, address: int) -> None:
        """End `watch`."""
        self._accepted(f"z2,{address:x},4")

    def register(self, number: int) -> int:
        """A 32-bit register by GDB's number: 0 to 15 are r0 to pc on Arm, 32 is pc on RISC-V."""
        every = bytes.fromhex(self._command("g"))
        return int.from_bytes(every[4 * number : 4 * number + 4], "little")

    def _accepted(self, text: str) -> None:
        answer = self._command(text)
        if answer != "OK":
            raise DebuggerError(f"the GDB stub refuses {text}: {answer or 'no such command'}")

    def _command(self, text: str) -> str:
        body = text.encode()
        self._stream.sendall(b"$" + body + b"#" + b"%02x" % (sum(body) & 0xFF))
        # Notes that the guest stopped come in between, unasked.
        while (answer := self._packet()).startswith(("T", "S")):
            pass
        return answer

    def _packet(self) -> str:
        while self._byte() != b"$":
            pass
        body = bytearray()
        while (byte := self._byte()) != b"#":
            body += byte
        checksum = self._byte() + self._byte()
        if int(checksum, 16) != sum(body) & 0xFF:
            raise DebuggerError("a packet of the GDB stub is damaged")
        self._stream.sendall(b"+")
        return body.decode("ascii")

    def _byte(self) -> bytes:
        if not self._pending:
            try:
                received = self._stream.recv(4096)
            except OSError as error:
                raise DebuggerError(f"the GDB stub does not answer: {error}") from error
            if not received:
                raise DebuggerError("the GDB stub closed the connection")
            self._pending += received
        byte = bytes(self._pending[:1])
        del self._pending[:1]
        return byte
