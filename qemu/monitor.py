# SPDX-License-Identifier: Apache-2.0
"""QEMU's machine protocol (QMP): one JSON object a line. Source: QEMU's docs/interop/qmp-spec."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class MonitorError(Exception):
    """QEMU refused a command or did not answer."""


class Monitor:
    """A QMP client on a connected socket."""

    def __init__(self, stream: socket.socket, timeout_s: float = 10.0) -> None:
        stream.settimeout(timeout_s)
        self._stream = stream
        self._pending = b""
        self._message()
        self.execute("qmp_capabilities")

    def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """Run a command and return what it returns. MonitorError carries QEMU's own words."""
        request = {"execute": command, "arguments": dict(arguments or {})}
        try:
            self._stream.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise MonitorError(f"QEMU does not take commands: {error}") from error
        while True:
            answer = self._message()
            if "error" in answer:
                raise MonitorError(f"{command}: {answer['error'].get('desc', answer['error'])}")
            if "return" in answer:
                return answer["return"]

    def read_memory(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`, as the first core sees them."""
        with tempfile.TemporaryDirectory(prefix="tinykiln-") as folder:
            path = Path(folder) / "memory"
            self.execute("memsave", {"val": address, "size": size, "filename": str(path), "cpu-index": 0})
            return path.read_bytes()

    def _message(self) -> dict[str, Any]:
        while b"\n" not in self._pending:
            try:
                received = self._stream.recv(65536)
            except OSError as error:
                raise MonitorError(f"QEMU does not answer: {error}") from error
            if not received:
                raise MonitorError("QEMU closed its monitor")
            self._pending += received
        line, self._pending = self._pending.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
