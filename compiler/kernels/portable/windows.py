# SPDX-License-Identifier: Apache-2.0
"""Walking windows over an image whose borders are cut, not padded: what pools and the int16x8 layers share.

Consecutive windows of an axis that are cut alike form a run; a kernel gets a table of runs for each axis. So the
innermost loops know no border, and the instructions executed depend on the geometry alone.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.kernels.kernel import INPUT, OUTPUT, Argument, Constant, KernelFunction
from compiler.kernels.portable.loops import PortableKernel
from compiler.kernels.problems import Window


@dataclass(frozen=True)
class Run:
    """`repeat` consecutive windows with `taps` taps inside the input, the first of them tap `first` of the kernel,
    over input cell `cell`."""

    repeat: int
    first: int
    taps: int
    cell: int


def runs(size: int, outputs: int, kernel: int, stride: int, pad: int, dilation: int) -> tuple[Run, ...]:
    """The runs of one axis of `size` cells. Raises ValueError where a window lies in the padding altogether."""
    found: list[Run] = []
    for output in range(outputs):
        inside = [t for t in range(kernel) if 0 <= output * stride - pad + t * dilation < size]
        if not inside:
            raise ValueError(f"window {output} of {outputs} lies in the padding")
        first, cell = inside[0], output * stride - pad + inside[0] * dilation
        last = found[-1] if found else None
        if last and (last.first, last.taps) == (first, len(inside)) and last.cell + last.repeat * stride == cell:
            found[-1] = Run(last.repeat + 1, last.first, last.taps, last.cell)
        else:
            found.append(Run(1, first, len(inside), cell))
    return tuple(found)


@dataclass(frozen=True)
class Grid:
    """The runs of both axes."""

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]


def grid(w: Window) -> Grid:
    """The runs of a window's geometry."""
    return Grid(
        runs(w.input_height, w.output_height, w.kernel_height, w.stride_height, w.pad_top, w.dilation_height),
        runs(w.input_width, w.output_width, w.kernel_width, w.stride_width, w.pad_left, w.dilation_width),
    )


def every_window_sees_input(w: Window) -> bool:
    """True where no window lies in the padding altogether."""
    try:
        grid(w)
    except ValueError:
        return False
    return True


RUN_BYTES = 16


@dataclass(frozen=True)
class Patch:
    """The part of a window inside the input: the address of its first cell, its taps, and the number of bytes that
    its first tap lies behind the kernel's first."""

    cell: Value
    row_taps: Value
    column_taps: Value
    tap_offset: Value


@dataclass(frozen=True)
class WindowKernel(PortableKernel):
    """Calls `window` for each output pixel in order. Subclasses add their parameters behind these."""

    parameters: ClassVar[tuple[str, ...]] = (
        "input", "output", "rows", "row_runs", "row_step", "columns", "column_runs", "column_step", "pixel_bytes",
        "tap_row_step", "tap_column_step",
    )  # fmt: skip

    @abstractmethod
    def window(self, f: KernelFunction, patch: Patch, output: Value, cut: Value) -> None:
        """One output pixel at `output`. `cut` is the number of the pair of runs, counted by rows."""

    def build(self, f: KernelFunction) -> None:
        output, cut = f.pointer("output"), f.const(0)

        def row_run(_: Value, carried: list[Value]) -> list[Value]:
            row_entry, cut, output = carried
            repeat, row_taps, row_offset, row_tap = (f.load_i32(row_entry, 4 * i) for i in range(4))

            def row(_: Value, carried: list[Value]) -> list[Value]:
                line, output = carried

                def column_run(_: Value, carried: list[Value]) -> list[Value]:
                    entry, this_cut, output = carried
                    repeat, taps, offset, tap = (f.load_i32(entry, 4 * i) for i in range(4))
                    tap_offset = f.add(row_tap, tap)

                    def column(_: Value, carried: list[Value]) -> list[Value]:
                        cell, output = carried
                        self.window(f, Patch(cell, row_taps, taps, tap_offset), output, this_cut)
                        return [f.offset(cell, f.integer("column_step")), f.offset(output, f.integer("pixel_bytes"))]

                    _, output = f.loop(repeat, column, [f.offset(line, offset), output])
                    return [f.offset(entry, RUN_BYTES), f.add(this_cut, 1), output]

                *_, output = f.loop(f.integer("column_runs"), column_run, [f.pointer("columns"), cut, output])
                return [f.offset(line, f.integer("row_step")), output]

            _, output = f.loop(repeat, row, [f.offset(f.pointer("input"), row_offset), output])
            return [f.offset(row_entry, RUN_BYTES), f.add(cut, f.integer("column_runs")), output]

        f.loop(f.integer("row_runs"), row_run, [f.pointer("rows"), cut, output])

    def taps(
        self, f: KernelFunction, patch: Patch, start: Value, carried: list[Value], tap: Callable[..., list[Value]]
    ) -> list[Value]:
        """Folds `tap(cell, carried) -> carried` over the taps inside the input, by rows, from address `start` on."""
        row_step, column_step = f.integer("tap_row_step"), f.integer("tap_column_step")

        def tap_row(_: Value, carried: list[Value]) -> list[Value]:
            row, *rest = carried

            def tap_column(_: Value, carried: list[Value]) -> list[Value]:
                cell, *rest = carried
                return [f.offset(cell, column_step), *tap(cell, rest)]

            _, *rest = f.loop(patch.column_taps, tap_column, [row, *rest])
            return [f.offset(row, row_step), *rest]

        _, *rest = f.loop(patch.row_taps, tap_row, [start, *carried])
        return rest


def window_arguments(
    w: Window, element_bytes: int, tap_bytes: int = 0, first_channel: int = 0, input_channel: int = 0
) -> tuple[Argument, ...]:
    """The arguments of a `WindowKernel`. `tap_bytes` is what one tap takes in the table of taps; the channels from
    `first_channel` on are written, those from `input_channel` on read."""
    cells = grid(w)
    cell = w.input_channels * element_bytes
    line = w.input_width * cell

    def table(axis: tuple[Run, ...], cell_bytes: int, tap: int) -> Constant:
        rows = (struct.pack("<4i", r.repeat, r.taps, r.cell * cell_bytes, r.first * tap) for r in axis)
        return Constant(b"".join(rows), steers=True)

    return (
        type(INPUT)(INPUT.role, 0, input_channel * element_bytes),
        type(OUTPUT)(OUTPUT.role, 0, first_channel * element_bytes),
        table(cells.rows, line, w.kernel_width * tap_bytes),
        len(cells.rows),
        w.stride_height * line,
        table(cells.columns, cell, tap_bytes),
        len(cells.columns),
        w.stride_width * cell,
        w.output_channels * element_bytes,
        w.dilation_height * line,
        w.dilation_width * cell,
    )
