# SPDX-License-Identifier: Apache-2.0
"""A serial port at the other end of a network: a plain TCP socket, or pyserial's server of RFC 2217."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import serial
from serial.rfc2217 import PortManager


class PtyPort(serial.Serial):
    """What the server has for its port. A pseudo terminal takes neither modem lines nor parity, so they are noted."""

    cts = dsr = ri = cd = False

    def __init__(self, name: str) -> None:
        self.asked: list[tuple[str, object]] = []
        super().__init__(name, timeout=0)
        self.asked.clear()

    @property
    def dtr(self) -> bool:
        return True

    @dtr.setter
    def dtr(self, value: bool) -> None:
        self.asked.append(("dtr", value))

    @property
    def rts(self) -> bool:
        return True

    @rts.setter
    def rts(self, value: bool) -> None:
        self.asked.append(("rts", value))

    @property
    def parity(self) -> str:
        return self._told

    @parity.setter
    def parity(self, value: str) -> None:
        self._told, self._parity = value, serial.PARITY_NONE
        self.asked.append(("parity", value))


class _Connection:
    """Where a manager writes its own messages."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        self._stream.sendall(data)


def _pump(stream: socket.socket, port: PtyPort, over: threading.Event, manager: PortManager | None) -> None:
    """Bytes in both directions, until the client hangs up; through the manager of RFC 2217 where there is one."""
    while not over.is_set():
        ready = select.select([stream, port.fileno()], [], [], 0.02)[0]
        if stream in ready:
            data = stream.recv(4096)
            if not data:
                return
            os.write(port.fileno(), data if manager is None else b"".join(manager.filter(data)))
        if port.fileno() in ready:
            back = os.read(port.fileno(), 4096)
            stream.sendall(back if manager is None else b"".join(manager.escape(back)))


@contextmanager
def over_rfc2217(name: str) -> Iterator[tuple[str, PtyPort]]:
    """Serves the port to one client; gives the URL, and the port with what the client asked of it."""

    def serve(stream: socket.socket, over: threading.Event) -> None:
        _pump(stream, port, over, PortManager(port, _Connection(stream)))

    with PtyPort(name) as port, _serving(serve) as address:
        yield f"rfc2217://{address}", port


@contextmanager
def over_socket(name: str) -> Iterator[str]:
    """Serves the port's bytes to one client; gives the URL."""

    def serve(stream: socket.socket, over: threading.Event) -> None:
        _pump(stream, port, over, None)

    with PtyPort(name) as port, _serving(serve) as address:
        yield f"socket://{address}"


@contextmanager
def _serving(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while not over.is_set():
                if select.select([server], [], [], 0.05)[0]:
                    stream, _ = server.accept()
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with stream:
                        serve(stream, over)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join(5)
            assert not thread.is_alive()
