# SPDX-License-Identifier: Apache-2.0
"""One device from boot loader to running application, and what state it is left in where that fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from boards.flashing import Flashing, Sector
from toolchain.elf.file import ERASED
from toolchain.flash.errors import (
    Damaged,
    FlashError,
    Garbage,
    LinkLost,
    Mismatch,
    NoAnswer,
    Protected,
    Refused,
    TooLong,
    WriteIgnored,
    WrongChip,
)
from toolchain.flash.plan import Plan
from toolchain.flash.port import Port
from toolchain.flash.protocol import BootLoader, Identity, Proof, maker_of
from toolchain.flash.wiring import Wiring

Progress = Callable[[str, int, int], None]
"""Called with a stage, the bytes of it that are done, and all of them."""

CONNECTS, REPAIRS = 3, 3
PROBE_BYTES = 256
BITS_A_BYTE = 11
SLACK_S, SECTOR_S, SLOWEST = 180.0, 5.0, 40.0
"""What a session may take: a fixed part, one for each sector, and this many times the pure transfer."""


@dataclass(frozen=True)
class Settings:
    """`resume`: sectors that hold their part of the image already are left alone. `patience` multiplies the usual
    waits."""

    flashing: Flashing
    baud: int
    wiring: Wiring
    unprotect: bool = False
    resume: bool = False
    patience: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What was done: bytes of the image, seconds of the transfer, how the content was checked, blocks repaired. `kept`:
    sectors that held their part already; None where nobody looked, or the boot loader cannot read."""

    loader: str
    written: int
    seconds: float
    proof: Proof
    repairs: int
    started: bool
    kept: int | None = None

    @property
    def rate(self) -> float:
        """Bytes a second, written and checked."""
        return self.written / max(self.seconds, 1e-6)


def flash(port: Port, plan: Plan, settings: Settings, progress: Progress) -> Outcome:
    """Identifies, erases the touched sectors, writes, verifies, starts. FlashError says what failed and how the chip
    was left."""
    loader = maker_of(settings.flashing.protocol)(port, settings.flashing, settings.baud, settings.patience)
    _limit(port, plan, settings)
    identity = _ready(port, loader, settings, progress, plan.image.end)
    begun = time.monotonic()
    with _state("the chip is as it was: nothing was erased"):
        before = loader.read(plan.image.address, min(PROBE_BYTES, len(plan.image.data)))
        kept = _kept(loader, plan, progress) if settings.resume else None
    again = "flash again" if before is None else "flash again, with resume=yes to keep what is right already"
    with _state(f"the program on the chip is not whole and will not run: {again}; nothing else is wrong with it"):
        pending = [sector for sector in plan.sectors if sector not in (kept or ())]
        repairs = _write(loader, plan, pending, before, progress)
    seconds = time.monotonic() - begun
    started = _start(port, loader, plan, settings)
    found = None if kept is None else len(kept)
    return Outcome(identity.loader, len(plan.image.data), seconds, loader.proof, repairs, started, found)


def erase(port: Port, settings: Settings, progress: Progress) -> Identity:
    """Erases every sector of the board's flash. Refused by loaders that cannot."""
    flashing = settings.flashing
    loader = maker_of(flashing.protocol)(port, flashing, settings.baud, settings.patience)
    if not loader.erases:
        raise Refused("this boot loader erases only what it then writes", where=f"protocol={flashing.protocol}")
    port.deadline = time.monotonic() + SLACK_S + SECTOR_S * len(flashing.sectors)
    identity = _ready(port, loader, settings, progress, flashing.origin)
    total = flashing.end - flashing.origin
    with _state("the flash may be erased in part"):
        loader.erase(flashing.sectors, lambda done: progress("erase", done, total))
        found = loader.read(flashing.origin, min(PROBE_BYTES, total))
        if found is not None and found.strip(ERASED):
            raise WriteIgnored("the chip accepted the erasure and the flash did not change", where=port.name)
    return identity


def _limit(port: Port, plan: Plan, settings: Settings) -> None:
    transfer_s = 2 * len(plan.image.data) * BITS_A_BYTE / settings.baud
    port.deadline = time.monotonic() + SLACK_S + SECTOR_S * len(plan.sectors) + SLOWEST * transfer_s


def _ready(port: Port, loader: BootLoader, settings: Settings, progress: Progress, end: int) -> Identity:
    """Into the boot loader; all that can be refused is refused here, before anything is erased."""
    port.set_line(loader.line)
    progress("connect", 0, 0)
    identity = _connect(port, loader, settings)
    _check_chip(port, identity, settings.flashing)
    if identity.protected:
        if not settings.unprotect:
            raise Protected(
                "the chip is protected against reading: its boot loader neither erases nor writes",
                where=port.name,
                hint="unprotect=yes removes the protection, which WIPES THE WHOLE CHIP",
            )
        progress("unprotect", 0, 0)
        loader.unprotect()
        identity = loader.connect()
        _check_chip(port, identity, settings.flashing)
    limit = identity.flash_bytes
    if limit is not None and end - settings.flashing.origin > limit:
        raise WrongChip(
            "the image is larger than this chip's flash",
            where=port.name,
            got=f"{end - settings.flashing.origin} bytes",
            allowed=f"{limit} bytes, as the chip says",
        )
    return identity


def _connect(port: Port, loader: BootLoader, settings: Settings) -> Identity:
    for attempt in range(CONNECTS):
        entered = settings.wiring.enter(port)
        try:
            return loader.connect()
        except (NoAnswer, Garbage):
            if attempt == CONNECTS - 1 or not entered:
                raise
    raise AssertionError("the last attempt returns or raises")


def _check_chip(port: Port, identity: Identity, flashing: Flashing) -> None:
    right_family = not flashing.family or identity.family == flashing.family
    right_id = not flashing.chip_ids or identity.chip_id in flashing.chip_ids
    if identity.chip_id is None or (right_id and right_family):
        return
    family = f" of family {identity.family:#04x}" if flashing.family else ""
    wanted = f" of family {flashing.family:#04x}" if flashing.family else ""
    raise WrongChip(
        "this is another chip than the board's",
        where=port.name,
        got=f"id {identity.chip_id:#05x}{family}",
        allowed=" or ".join(f"{i:#05x}" for i in flashing.chip_ids) + wanted,
        hint="name the right board; nothing was erased",
    )


def _kept(loader: BootLoader, plan: Plan, progress: Progress) -> tuple[Sector, ...] | None:
    """The sectors that hold their part of the image; None where none can be read. Only to be left alone: the whole
    image is verified in the end."""
    kept, readable, done = [], False, 0
    for sector in plan.sectors:
        part = plan.part(sector.address, sector.end)
        found = loader.read(part.address, len(part.data))
        readable = readable or found is not None
        if found == part.data:
            kept.append(sector)
        done += len(part.data)
        progress("compare", done, len(plan.image.data))
    if not readable:
        return None
    return () if loader.from_start and len(kept) < len(plan.sectors) else tuple(kept)


def _write(loader: BootLoader, plan: Plan, sectors: list[Sector], before: bytes | None, progress: Progress) -> int:
    """Erases and writes these sectors, verifies all; what is damaged is erased and written again. Returns the number
    of repairs."""
    image, repairs = plan.image, 0
    while True:
        try:
            _pass(loader, plan, sectors, progress)
            return repairs
        except (Damaged, Mismatch) as error:
            if repairs == REPAIRS * max(1, len(plan.sectors)) or _hopeless(loader, error, repairs):
                raise _explained(loader, plan, before, error) from error
            repairs += 1
            damaged = image.address if loader.from_start else error.address
            sectors = [s for s in plan.sectors if s.end > damaged] or list(plan.sectors)


def _hopeless(loader: BootLoader, error: Damaged | Mismatch, repairs: int) -> bool:
    """A mismatch is worth few attempts, a bad link more; without sectors to erase nothing can be repaired."""
    return loader.proof is Proof.TRANSFER or (isinstance(error, Mismatch) and repairs >= REPAIRS)


def _pass(loader: BootLoader, plan: Plan, sectors: list[Sector], progress: Progress) -> None:
    """The run with the vectors comes last, as loaders that write them last within a run expect."""
    image, runs = plan.image, list(reversed(_runs(sectors)))
    size, erased, written = sum(s.size for s in sectors), 0, 0
    parts = [plan.part(run[0].address, run[-1].end) for run in runs] if plan.sectors else [image]
    total = sum(len(part.data) for part in parts)
    for run in runs:
        loader.erase(run, lambda done, before=erased: progress("erase", before + done, size))  # type: ignore[misc]
        erased += sum(s.size for s in run)
    for part in parts:
        loader.write(
            part.address,
            part.data,
            lambda done, before=written: progress("write", before + done, total),  # type: ignore[misc]
        )
        written += len(part.data)
    loader.verify(image.address, image.data, lambda done: progress("verify", done, len(image.data)))


def _runs(sectors: Sequence[Sector]) -> list[list[Sector]]:
    """Sectors that follow each other, together."""
    runs: list[list[Sector]] = []
    for sector in sectors:
        if runs and runs[-1][-1].end == sector.address:
            runs[-1].append(sector)
        else:
            runs.append([sector])
    return runs


def _explained(loader: BootLoader, plan: Plan, before: bytes | None, error: Damaged | Mismatch) -> FlashError:
    """Tells a flash that does not change from one that changed wrongly."""
    if isinstance(error, Damaged):
        return error
    now = loader.read(plan.image.address, min(PROBE_BYTES, len(plan.image.data)))
    if now is not None and now == before:
        return WriteIgnored(
            "the boot loader accepted the data and the flash did not change",
            where=error.where,
            got=f"{error.found:#04x} still, {error.expected:#04x} was written" if error.found is not None else None,
            hint="the sectors are write-protected (unprotect=yes), or the chip is a clone that only pretends to write",
        )
    return error


def _start(port: Port, loader: BootLoader, plan: Plan, settings: Settings) -> bool:
    """By the boot loader, else by the reset line. A failure here does not undo that the flash is right."""
    try:
        started = loader.start(plan.start)
    except LinkLost:
        raise
    except FlashError:
        started = False
    return settings.wiring.leave(port) or started


@contextmanager
def _state(left: str) -> Iterator[None]:
    """Adds to a failure how the chip is left."""
    try:
        yield
    except (Damaged, LinkLost, NoAnswer, Garbage, TooLong) as error:
        error.leaves(left)
        raise
