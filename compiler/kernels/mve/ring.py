# SPDX-License-Identifier: Apache-2.0
"""A ring of the input rows in use, padded left and right, in scratch memory (Helium copies).

Rows outside the input and the paddings hold the input's zero point, so that the inner loops know no border; the
copies also allow the output to overlap the input.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import Value
from compiler.kernels.kernel import INPUT, SCRATCH, Argument, KernelFunction
from compiler.kernels.mve.vector import CHUNK, copy_bytes, fill_bytes
from compiler.kernels.problems import Window

RING_PARAMETERS = (
    "input",
    "input_row",
    "input_height",
    "pad_top",
    "ring",
    "ring_row",
    "ring_lead",
    "input_zero_point",
    "output_height",
)


@dataclass(frozen=True)
class RingShape:
    """Compile-time facts: rows kept (the reach of the window), rows a step, and which of the kept rows are used."""

    rows: int
    stride: int
    used: tuple[int, ...]

    @classmethod
    def of(cls, w: Window) -> RingShape:
        used = tuple(r * w.dilation_height for r in range(w.kernel_height))
        return cls(used[-1] + 1, w.stride_height, used)

    @property
    def name(self) -> str:
        dilation = self.used[1] if len(self.used) > 1 else 1
        return f"h{len(self.used)}s{self.stride}" + (f"d{dilation}" if dilation > 1 else "")


def ring_row_bytes(w: Window, multiplier: int = 1) -> int:
    """A row with its paddings, each byte `multiplier` times, on whole chunks."""
    width = w.pad_left + w.input_width + w.pad_right
    return -(-width * w.input_channels * multiplier // CHUNK) * CHUNK


def ring_bytes(w: Window, multiplier: int = 1, rows: int | None = None) -> int:
    """The scratch memory of a ring of `rows` (by default the window's reach), a chunk that vector loads may run into
    included."""
    return (rows or RingShape.of(w).rows) * ring_row_bytes(w, multiplier) + CHUNK


def ring_arguments(w: Window, input_zero_point: int, multiplier: int = 1) -> tuple[Argument, ...]:
    """The arguments of RING_PARAMETERS, the ring at the start of the scratch memory."""
    return (
        INPUT,
        w.input_width * w.input_channels,
        w.input_height,
        w.pad_top,
        SCRATCH,
        ring_row_bytes(w, multiplier),
        w.pad_left * w.input_channels * multiplier,
        input_zero_point,
        w.output_height,
    )


class RowRing:
    """Emits the ring of a kernel whose parameters include RING_PARAMETERS; with `multiplier` each byte of the input
    is repeated that many times."""

    def __init__(self, f: KernelFunction, shape: RingShape, multiplier: Value | None = None) -> None:
        self.f, self.shape, self.multiplier = f, shape, multiplier
        self.fresh = min(shape.rows, shape.stride)
        self.ring, self.row = f.pointer("ring"), f.integer("ring_row")
        self.zero_point = f.integer("input_zero_point")
        self.size = f.mul(self.row, shape.rows)
        self.end = f.offset(self.ring, self.size)

    def start(self) -> tuple[Value, Value]:
        """Fills the ring up to the first output row: (oldest slot, next input row)."""
        f = self.f
        fill_bytes(f, self.ring, self.zero_point, f.add(self.size, CHUNK))
        first = f.sub(0, f.integer("pad_top"))
        return self.fetch(self.shape.rows - self.fresh, self.ring, first)

    def advance(self, slot: Value, row: Value) -> tuple[Value, Value]:
        """Brings in the rows of the next output row."""
        slot, row = self.fetch(self.fresh, slot, row)
        return slot, row

    def fetch(self, count: int, slot: Value, row: Value) -> tuple[Value, Value]:
        f = self.f
        row_bytes, lead = f.integer("input_row"), f.integer("ring_lead")

        def one(_: Value, carried: list[Value]) -> list[Value]:
            slot, row = carried
            target = f.offset(slot, lead)
            f.branch(
                f.compare_unsigned("<", row, f.integer("input_height")),
                lambda: self._copy(target, f.offset(f.pointer("input"), f.mul(row, row_bytes)), row_bytes),
                lambda: fill_bytes(f, target, self.zero_point, self._repeated(row_bytes)),
            )
            following = f.offset(slot, self.row)
            wrapped = f.builder.icmp_unsigned("==", following, self.end)
            return [f.builder.select(wrapped, self.ring, following), f.add(row, 1)]

        slot, row = f.loop(count, one, [slot, row])
        return slot, row

    def _repeated(self, row_bytes: Value) -> Value:
        return row_bytes if self.multiplier is None else self.f.mul(row_bytes, self.multiplier)

    def _copy(self, target: Value, source: Value, row_bytes: Value) -> None:
        f, multiplier = self.f, self.multiplier
        if multiplier is None:
            copy_bytes(f, target, source, row_bytes)
            return

        def byte(index: Value, carried: list[Value]) -> list[Value]:
            fill_bytes(f, carried[0], f.load_s8(source, index), multiplier)
            return [f.offset(carried[0], multiplier)]

        f.loop(row_bytes, byte, [target])

    def skip(self, row: Value) -> Value:
        """The next input row to fetch, past rows that no window reads (stride beyond the window's reach)."""
        return self.f.add(row, self.shape.stride - self.fresh)

    def rows(self, oldest: Value) -> list[Value]:
        """Addresses of the window's rows, left padding included."""
        f, addresses = self.f, []
        for used in self.shape.used:
            address = f.offset(oldest, f.mul(self.row, used)) if used else oldest
            if used:
                beyond = f.builder.icmp_unsigned(">=", address, self.end)
                address = f.offset(address, f.select(beyond, f.sub(0, self.size), 0))
            addresses.append(address)
        return addresses
