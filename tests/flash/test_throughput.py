# SPDX-License-Identifier: Apache-2.0
"""How much of a line's rate reaches the flash: at least nine tenths of what the protocol's own frames leave.

The line is paced, and slowly, so that the machine's own delays hardly count.
"""

from __future__ import annotations

from binascii import b2a_uu
from collections.abc import Callable

import cbor2
import pytest

from tests.flash.bench import flash_device
from tests.flash.line import BITS_A_BYTE, Faults
from tests.flash.rigs import RIGS
from tests.flash.smp_device import SmpDevice
from toolchain.flash.nordic_dfu import ACK_S, ERASE_S, LEAST_ERASE_S, PAGE, WRITE_S
from toolchain.flash.smp_wire import CRC_BYTES, HEADER, LENGTH_BYTES, lines

BAUD, SIZE, SHARE = 38400, 8192, 0.9


def stm32(size: int) -> int:
    """Blocks of 256: command, address and data with their acknowledgements; read back alike (AN3155, 3.4 and 3.6)."""
    write, read = (2 + 1) + (5 + 1) + (1 + 256 + 1 + 1), (2 + 1) + (5 + 1) + (2 + 1) + 256
    return -(-size // 256) * (write + read)


def wch(size: int) -> int:
    """56 bytes with head, length, address, pad and sum, and an answer of 9; compared alike."""
    return -(-size // 56) * 2 * ((2 + 1 + 2 + 4 + 1 + 56 + 1) + 9)


def lpc(size: int) -> int:
    """uuencoded lines of 45 bytes, after 20 of them a sum and OK, a copy each 4096 bytes; read back alike."""
    lines = sum(len(b2a_uu(bytes(min(45, size - at)))) + 1 for at in range(0, size, 45))
    checks = -(-size // 900) * (len("65536\r\n") + len("OK\r\n"))
    orders = ("W 268435968 4096\r\n", "P 0 0\r\n", "C 0 268435968 4096\r\n", "R 0 4096\r\n")
    return 2 * (lines + checks) + -(-size // 4096) * sum(len(order) + len("0\r\n") for order in orders)


def lpc8xx(size: int) -> int:
    """Plain data, a copy each 1024 bytes; read back alike."""
    orders = ("W 268435968 1024\r\n", "P 0 0\r\n", "C 0 268435968 1024\r\n", "R 0 1024\r\n")
    return 2 * size + -(-size // 1024) * sum(len(order) + len("0\r\n") for order in orders)


def samd21(size: int) -> int:
    """Rows erased by registers; 4096 bytes to RAM, a check sum, two orders to write; read back, as over USB."""
    return samd21_orders(size) + 2 * size


def samd21_uart(size: int) -> int:
    """The same with XMODEM's packets of 128 bytes and their acknowledgements both ways."""
    return samd21_orders(size) + 2 * -(-size // 128) * (133 + 1)


def samd21_orders(size: int) -> int:
    word, told = len("W00000000,00000000#"), len("w00000000,4#") + 4
    row = 2 * word + 2 * told
    orders = (
        "S00000000,00000000#",
        "Z00000000,00000000#Z00000000#\n\r",
        "Y00000000,0#Y\n\r",
        "Y00000000,00000000#Y\n\r",
    )
    each = sum(len(order) for order in orders)
    return -(-size // 256) * row + -(-size // 4096) * each


def sam3x(size: int) -> int:
    """Pages of 256 bytes, word by word, with an order to erase and write; read back by XMODEM."""
    word, told = len("W00000000,00000000#"), len("w00000000,4#") + 4
    return -(-size // 256) * (65 * word + told) + -(-size // 128) * (133 + 1)


def nordic_dfu(size: int) -> int:
    """Packets of 512 bytes with their type, header, CRC and ends, a byte in 128 escaped; an acknowledgement each. The
    chip hears nothing while it erases and writes, so the host has to pause; in the end silence is the good answer."""
    packets = -(-size // 512) * (2 + 4 + 4 + 512 + 2 + 512 // 128 + 6)
    pages = -(-size // PAGE)
    pauses_s = max(LEAST_ERASE_S, ERASE_S * pages) + WRITE_S * (pages + 1) + (ERASE_S + WRITE_S) * pages + ACK_S
    return packets + int(pauses_s * BAUD / BITS_A_BYTE)


def py32(size: int) -> int:
    """As STM32, in blocks of 128."""
    write, read = (2 + 1) + (5 + 1) + (1 + 128 + 1 + 1), (2 + 1) + (5 + 1) + (2 + 1) + 128
    return -(-size // 128) * (write + read)


def xmodem(size: int) -> int:
    """Blocks of 1024 with head, number, complement, check sum, and the acknowledgement."""
    return -(-size // 1024) * (1024 + 5 + 1)


def smp(size: int) -> int:
    """Requests that fill the device's buffer: a message of a header and a map of offset and data, with its length and
    check sum, in lines of base64; each with an answer that tells the next offset."""
    message, answer = (
        SmpDevice.buffer - LENGTH_BYTES - CRC_BYTES,
        HEADER.size + len(cbor2.dumps({"rc": 0, "off": size})),
    )
    data = message - HEADER.size - len(cbor2.dumps({"off": size, "data": b""})) - 2
    return -(-size // data) * (len(lines(bytes(message))) + len(lines(bytes(answer))))


ALLOWED: dict[str, Callable[[int], int]] = {
    "stm32": stm32,
    "py32": py32,
    "wch": wch,
    "lpc": lpc,
    "lpc8xx": lpc8xx,
    "samd21": samd21,
    "samd21_uart": samd21_uart,
    "sam3x": sam3x,
    "smp": smp,
    "nordic_dfu": nordic_dfu,
    "xmodem": xmodem,
    "ymodem": xmodem,
}
"""Bytes in both directions that writing and comparing so much takes, one after another."""


@pytest.mark.sweep
@pytest.mark.parametrize("protocol", ALLOWED)
def test_nine_tenths_of_the_line(protocol: str) -> None:
    rig = RIGS[protocol]
    data = rig.image(min(SIZE, rig.room))
    outcome = flash_device(rig.device(rig.flashing), rig.flashing, data, Faults(baud=BAUD), patience=1.0)
    best_s = ALLOWED[protocol](len(data)) * BITS_A_BYTE / BAUD
    assert best_s / outcome.seconds >= SHARE, f"{best_s:.2f} s of {outcome.seconds:.2f} s"
