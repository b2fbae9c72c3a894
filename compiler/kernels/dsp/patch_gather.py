# SPDX-License-Identifier: Apache-2.0
"""Gathers input patches for `PatchMatrix`: bytes to int16, the pixels of a group interleaved by quads of elements.

A patch is a number of runs of consecutive bytes (a row of the window; the whole patch of a 1x1 convolution). The whole
quads of all runs come first, the up to three bytes left of each run behind them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from compiler.codegen.builder import I8, I16, I32, PTR, Function, Value
from compiler.kernels.dsp.instructions import extend_quad, joined_quad
from compiler.kernels.dsp.row_ring import RING_PARAMETERS
from compiler.kernels.kernel import KernelFunction


class Source(Enum):
    """Where patches come from.

    DIRECT: the bytes of one pixel, converted where they are multiplied (each is used once, or a buffer would be large).
    FLAT: consecutive patches. PLANE: windows of the input itself (no padding). RING: windows of a ring of padded rows.
    """

    DIRECT = "direct"
    FLAT = "flat"
    PLANE = "plane"
    RING = "ring"


_DIRECT = ("groups", "output_channels", "run_bytes")
_FLAT = ("groups", "output_channels", "source_back", "output_back", "run_bytes", "tails")
_WINDOW = (
    "groups",
    "output_channels",
    "rows",
    "columns",
    "column_step",
    "row_step",
    "rows_step",
    "rows_advance",
    "first_rows",
    "tap_step",
    "run_bytes",
    "tails",
)


@dataclass(frozen=True)
class Gather:
    """How patches are read: `runs` of `unroll` quads a step plus `tail` bytes each (0 steps: no whole quad).

    `straight`: one step is the whole run. `taps`: runs of one row of the window (dilation; else 1). `aligned`: groups
    divide the rows of the output, so none spans two. `copy_bytes`: of the ring's rows. `joined`:
    for weights in that form.
    """

    source: Source
    runs: int
    unroll: int
    tail: int = 0
    straight: bool = False
    taps: int = 1
    aligned: bool = False
    copy_bytes: int = 4
    joined: bool = False

    @property
    def name(self) -> str:
        ring = f"_c{self.copy_bytes}" if self.source is Source.RING else ""
        taps = f"t{self.taps}" if self.taps > 1 else ""
        tail = f"e{self.tail}" if self.tail else ""
        marks = f"{'s' * self.straight}{'a' * self.aligned}{'j' * self.joined}"
        return f"{self.source.value}{self.runs}x{self.unroll}{tail}{taps}{marks}{ring}"

    def convert(self, f: Function, word: Value) -> tuple[Value, Value]:
        """The two words of a quad in the buffer."""
        return joined_quad(f, word) if self.joined else extend_quad(f, word)

    @property
    def parameters(self) -> tuple[str, ...]:
        if self.source is Source.DIRECT:
            return _DIRECT
        if self.source is Source.FLAT:
            return _FLAT
        return _WINDOW + (RING_PARAMETERS if self.source is Source.RING else ())


class Walk(ABC):
    """Walks over the output in groups of `pixels`; `outputs` holds the group's output addresses in the frame."""

    def __init__(self, f: KernelFunction, gather: Gather, pixels: int) -> None:
        self.f, self.gather, self.pixels = f, gather, pixels
        self.outputs = f.alloca(PTR, pixels)

    @abstractmethod
    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        """Emits the loops: gathers each group into the buffer, then `multiply`."""

    def _note_outputs(self, output: Value) -> Value:
        """Consecutive output addresses from `output` on; returns the one behind them."""
        for p in range(self.pixels):
            self.f.store(output, self.outputs, 4 * p)
            output = self.f.offset(output, self.f.integer("output_channels"))
        return output

    def _run(self, source: Value, quads: Value, tails: Value | None, index: int) -> tuple[Value, Value]:
        """Converts run `index`. Returns the addresses behind it in the source and in the buffer's whole quads."""
        f, g = self.f, self.gather
        stride = 8 * self.pixels

        def step(at: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            for i in range(g.unroll):
                first, second = g.convert(f, f.load(I32, at, 4 * i, align=1))
                f.store(first, carried[0], stride * i)
                f.store(second, carried[0], stride * i + 4)
            return f.offset(at, 4 * g.unroll), [f.offset(carried[0], stride * g.unroll)]

        if g.straight:
            source, (quads,) = step(source, [quads])
        elif g.unroll:
            source, (quads,) = f.loop_until(f.offset(source, f.integer("run_bytes")), source, step, [quads])
        for i in range(g.tail):
            assert tails is not None
            element = index * g.tail + i
            f.store(f.sext(f.load(I8, source, i), I16), tails, element // 4 * stride + element % 4 * 2)
        return f.offset(source, g.tail), quads

    def _tails(self, target: Value) -> Value | None:
        return self.f.offset(target, self.f.integer("tails")) if self.gather.tail else None


class DirectWalk(Walk):
    """One pixel a group, whose bytes are the buffer."""

    def __init__(self, f: KernelFunction, gather: Gather, pixels: int) -> None:
        super().__init__(f, gather, pixels)
        self.source = f.alloca(PTR)

    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        f = self.f
        f.store(f.pointer("input"), self.source)

        def group(_: Value, carried: list[Value]) -> list[Value]:
            behind = self._note_outputs(carried[0])
            multiply()
            f.store(f.offset(f.load(PTR, self.source), f.integer("run_bytes")), self.source)
            return [behind]

        f.loop(f.integer("groups"), group, [f.pointer("output")])


class FlatWalk(Walk):
    """Patches that lie one behind the other. The last group overlaps the one before it where groups do not divide."""

    def groups(self, buffer: Callable[[], Value], multiply: Callable[[], None]) -> None:
        f = self.f

        def group(index: Value, carried: list[Value]) -> list[Value]:
            last = f.compare("==", f.add(index, 1), f.integer("groups"))
            source = f.offset(carried[0], f.select(last, f.integer("source_back"), 0))
            output = f.offset(carried[1], f.select(last, f.integer("output_back"), 0))
            target = buffer()
            behind = self._note_outputs(output)
            for p in range(self.pixels):
                quads, following = f.offset(target, 8 * p), source
                tails = self._tails(quads)
                for run in range(self.gather.runs):
                    # Several runs read the same bytes: weights that are sums of int8.
                    following, quads = self._run(source, quads, tails, run)
                source = following
            multiply()
            return [source, behind]

        f.loop(f.integer("groups"), group, [f.pointer("input"), f.pointer("output")])
