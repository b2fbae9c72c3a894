# SPDX-License-Identifier: Apache-2.0
"""The average of each channel over a whole int8 image, a value at a time: the least code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Value
from compiler.isa import Isa
from compiler.kernels.compact import Compact, compact
from compiler.kernels.kernel import INPUT, OUTPUT, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import PortableKernel
from compiler.kernels.portable.pools import LARGEST_WINDOW, divided, divisor_words
from compiler.kernels.problems import Window

_CODE = 170
_TAP, _CHANNEL = 6, 30
"""Instructions a value and an output, about."""


@dataclass(frozen=True)
class WholeAverage(PortableKernel):
    """Ties go away from zero or (`ties_up`) up. `cells` are the image's pixels, `channels` apart."""

    ties_up: bool

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "cells", "channels", "half", "reciprocal", "shift")

    @property
    def name(self) -> str:
        return f"whole_average{'_up' * self.ties_up}"

    @property
    def code_bytes(self) -> int:
        return _CODE

    def build(self, f: KernelFunction) -> None:
        def channel(_: Value, carried: list[Value]) -> list[Value]:
            source, target = carried

            def cell(_: Value, state: list[Value]) -> list[Value]:
                at, total = state
                return [f.offset(at, f.integer("channels")), f.add(total, f.load_s8(at))]

            _, total = f.loop(f.integer("cells"), cell, [source, f.const(0)])
            words = (f.integer("half"), f.integer("reciprocal"), f.integer("shift"))
            f.store_i8(divided(f, self.isa, self.ties_up, total, words), target)
            return [f.offset(source, 1), f.offset(target, 1)]

        f.loop(f.integer("channels"), channel, [f.pointer("input"), f.pointer("output")])


def whole_average(isa: Isa, w: Window, ties_up: bool) -> Compact | None:
    """The average pool of an image by one window that holds it, without clamp; None of others."""
    cells = w.input_height * w.input_width
    whole = (w.kernel_height, w.kernel_width) == (w.input_height, w.input_width)
    if not whole or (w.output_height, w.output_width) != (1, 1) or w.pad_top or w.pad_left or cells > LARGEST_WINDOW:
        return None
    arguments = (INPUT, OUTPUT, cells, w.input_channels, *divisor_words(cells, ties_up))
    call = KernelCall(WholeAverage(isa, ties_up), arguments)
    return compact(Lowered((call,), instructions=w.input_channels * (cells * _TAP + _CHANNEL)))
