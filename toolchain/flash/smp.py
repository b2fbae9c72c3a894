# SPDX-License-Identifier: Apache-2.0
"""MCUmgr's Simple Management Protocol over serial: MCUboot's serial recovery (MCUboot, docs/serial_recovery.md), and
Zephyr applications with an MCUmgr server.

The server erases by itself and says which byte it wants next. Afterwards it names the images that it holds, each with
the SHA-256 that it found in it; MCUboot lists only those that it has checked and would start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import cbor2

from boards.flashing import Flashing, Sector
from toolchain.flash.errors import Garbage, Mismatch, NoAnswer, Refused
from toolchain.flash.port import Line, Port
from toolchain.flash.protocol import Identity, Proof, Step
from toolchain.flash.smp_wire import (
    CRC_BYTES,
    HEADER,
    LENGTH_BYTES,
    Body,
    Group,
    ImageCommand,
    Operation,
    OsCommand,
    Requests,
)
from toolchain.flash.streaming import Streaming
from toolchain.images.mcuboot import hash_of

T = TypeVar("T")
USUAL_BUFFER, LEAST_BUFFER = 512, 93
"""What MCUboot takes where it does not tell, and what a single line carries."""
REPLY_S, CHECK_S, ERASE_S_A_BYTE = 2.5, 15.0, 0.15 / 4096
"""The slowest flash known erases 128 KB in 4 s; the server may erase the whole slot before it answers the first."""
TRIES, SETBACKS = 5, 20
IMAGE_HEADER_BYTES = 32
"""Of an image, servers want this much in the first request."""


class Smp(Streaming):
    """See BootLoader."""

    proof = Proof.ON_CHIP

    def __init__(self, port: Port, flashing: Flashing, baud: int, patience: float) -> None:
        super().__init__(port)
        self.line = Line(baud)
        self._flashing, self._patience = flashing, patience
        self._requests = Requests(port)
        self._buffer = USUAL_BUFFER

    def connect(self) -> Identity:
        """Its buffer and its slot are optional questions: a refusal is an answer, too."""
        try:
            told = self._reliably(lambda: self._ask(Operation.READ, Group.OS, OsCommand.PARAMETERS, {}))
            self._buffer = max(LEAST_BUFFER, _number(told.get("buf_size"), USUAL_BUFFER))
        except Refused:
            self._buffer = USUAL_BUFFER
        except NoAnswer as error:
            raise NoAnswer(
                error.what,
                where=error.where,
                hint=f"bring the board into its boot loader ({self._flashing.enter or 'see its manual'}); TX and RX "
                "may be swapped",
            ) from error
        return Identity("MCUmgr server", flash_bytes=self._slot_bytes())

    def erase(self, sectors: Sequence[Sector], step: Step) -> None:
        """The server erases when it gets the first bytes."""

    def write(self, address: int, data: bytes, step: Step) -> None:
        """Sends what the server asks for. UserError, with nothing sent, for what is no image of MCUboot's."""
        hash_of(data)
        at = setbacks = 0
        while at < len(data):
            wanted = self._reliably(partial(self._upload, data, at))
            setbacks += wanted <= at
            if setbacks > SETBACKS:
                raise Refused("the boot loader asks for the same bytes again and again", where=self._port.name)
            at = wanted
            step(at)

    def verify(self, address: int, data: bytes, step: Step) -> None:
        """The server lists an image with our hash; one that waits in a second slot is chosen for the next start."""
        expected = hash_of(data)
        images = self._images()
        if not any(image.get("slot") == 0 for image in images):
            raise Refused(
                "the boot loader finds no valid image after the upload: it will not start this program",
                where=self._port.name,
                hint="it may want images that are signed by its key, which this is not; otherwise flash again",
            )
        ours = next((image for image in images if _is(image, expected)), None)
        if ours is None:
            raise Mismatch(address, None, None)
        if ours.get("slot") and not ours.get("active"):
            choice: Body = {"hash": expected, "confirm": True}
            self._reliably(lambda: self._ask(Operation.WRITE, Group.IMAGE, ImageCommand.STATE, choice, CHECK_S))
        step(len(data))

    def start(self, address: int) -> bool:
        """The answer may be lost in the reset."""
        with suppress(NoAnswer, Garbage):
            self._ask(Operation.WRITE, Group.OS, OsCommand.RESET, {})
        return True

    def _slot_bytes(self) -> int | None:
        try:
            told = self._reliably(lambda: self._ask(Operation.READ, Group.IMAGE, ImageCommand.SLOTS, {}))
        except Refused:
            return None
        slots = [slot for image in _maps(told.get("images"))[:1] for slot in _maps(image.get("slots"))]
        return _number(slots[0].get("size"), 0) or None if slots else None

    def _images(self) -> list[Body]:
        told = self._reliably(lambda: self._ask(Operation.READ, Group.IMAGE, ImageCommand.STATE, {}, CHECK_S))
        return _maps(told.get("images"))

    def _upload(self, data: bytes, at: int) -> int:
        """Sends the bytes from `at` on that fit a request; returns which byte is wanted next."""
        head: dict[str, object] = {"off": at, "data": b""}
        wait_s = REPLY_S
        if at == 0:
            head["len"] = len(data)
            wait_s += ERASE_S_A_BYTE * (self._flashing.end - self._flashing.origin)
            whole = head | {"sha": hashlib.sha256(data).digest()}
            if self._room(whole) >= IMAGE_HEADER_BYTES:
                head = whole
        body = head | {"data": data[at : at + self._room(head)]}
        try:
            told = self._ask(Operation.WRITE, Group.IMAGE, ImageCommand.UPLOAD, body, wait_s)
        except Refused as error:
            error.leaves("the chip may hold no program now")
            raise
        except (NoAnswer, Garbage):
            self._buffer = max(LEAST_BUFFER, self._buffer * 3 // 4)
            raise
        if told.get("match") is False:
            raise Mismatch(self._flashing.origin, None, None)
        wanted = _number(told.get("off"), -1)
        if not 0 <= wanted <= len(data):
            raise Garbage("the boot loader asks for bytes that are not there", where=self._port.name, got=str(told))
        return wanted

    def _room(self, head: dict[str, object]) -> int:
        """Bytes of data that fit a request, a longer length of which takes two bytes more."""
        return self._buffer - LENGTH_BYTES - HEADER.size - len(cbor2.dumps(head)) - 2 - CRC_BYTES

    def _ask(
        self, operation: Operation, group: Group, command: OsCommand | ImageCommand, body: Body, wait_s: float = REPLY_S
    ) -> Body:
        return self._requests.ask(operation, group, command, body, wait_s * self._patience)

    def _reliably(self, action: Callable[[], T]) -> T:
        for attempt in range(TRIES):
            try:
                return action()
            except (NoAnswer, Garbage):
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _is(image: Body, expected: bytes) -> bool:
    """Whether an image has this hash. Without hashes, MCUboot's word for the slot that it uploads to has to do."""
    return image["hash"] == expected if "hash" in image else image.get("slot") == 0


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _maps(value: object) -> list[Body]:
    """The maps of a list; none where it is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def make(port: Port, flashing: Flashing, baud: int, patience: float) -> Smp:
    """See protocol.Maker."""
    return Smp(port, flashing, baud, patience)
