# SPDX-License-Identifier: Apache-2.0
"""QEMU's machine protocol (QMP): one JSON object a line. Source: QEMU's docs/interop/qmp-spec."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any


class MonitorError(Exception):
    """QEMU refused a command or did not answer."""


class Monitor:
    """A QMP client on a connected socket.

    While it waits it calls `drain` whenever `console` can be read: QEMU answers nothing as long as the guest's output
    finds the console's socket full.
    """

    def __init__(
        self, stream: socket.socket, console: socket.socket, drain: Callable[[], None], timeout_s: float = 10.0
    ) -> None:
        stream.settimeout(timeout_s)
        self._stream, self._console, self._drain = stream, console, drain
        self._timeout_s = timeout_s
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

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._stream, self._console], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise MonitorError("QEMU does not answer")
            if self._console in ready:
                self._drain()
            if self._stream not in ready:
                continue
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
