# SPDX-License-Identifier: Apache-2.0
"""Firmware in QEMU with its UART on a pseudo terminal: it stands for a device on a serial port."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boards.loader import load_board
from qemu.command import machine_command


@contextmanager
def emulator_pty(board: str, elf: Path) -> Iterator[str]:
    """Gives the terminal's name. It is ours, and raw from the start."""
    ours, its = socket.socketpair()
    waker, woken = socket.socketpair()
    master, slave = os.openpty()
    tty.setraw(slave)
    command = machine_command(load_board(board).emulator, elf, "chardev:console")
    command += ["-chardev", f"socket,id=console,fd={its.fileno()}"]
    command += ["-chardev", f"socket,id=waker,fd={woken.fileno()}", "-mon", "chardev=waker,mode=readline"]
    process = subprocess.Popen(command, pass_fds=(its.fileno(), woken.fileno()))
    its.close()
    woken.close()
    over = threading.Event()
    thread = threading.Thread(target=_pump, args=(ours, waker, master, over), daemon=True)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        over.set()
        thread.join(5)
        process.kill()
        process.wait()
        ours.close()
        waker.close()
        os.close(slave)
        os.close(master)


def _pump(emulator: socket.socket, waker: socket.socket, terminal: int, over: threading.Event) -> None:
    """Bytes in both directions, until it is over or the emulator ends. Where none came QEMU's main loop is woken: it
    does not notice by itself that the guest has turned its receiver on."""
    while not over.is_set():
        ready = select.select([emulator.fileno(), waker.fileno(), terminal], [], [], 0.05)[0]
        if not ready:
            waker.sendall(b"\n")
        if waker.fileno() in ready:
            waker.recv(4096)
        if terminal in ready:
            emulator.sendall(os.read(terminal, 4096))
        if emulator.fileno() in ready:
            data = emulator.recv(4096)
            if not data:
                return
            while data:
                data = data[os.write(terminal, data) :]
