# SPDX-License-Identifier: Apache-2.0
"""Requantisation in every form of every instruction set: ties, the ends of int32, shifts from -31 to 30."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from compiler.codegen.requantize import Multiplier, multiply_by_quantized_multiplier
from compiler.graph import DType
from compiler.kernels.kernel import INPUT, OUTPUT, KernelCall, KernelFunction, Lowered
from compiler.kernels.portable.loops import PortableKernel
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, Requantization, Window
from compiler.numerics import (
    conv_2d,
    depthwise_conv_2d,
    fully_connected,
)
from compiler.numerics import multiply_by_quantized_multiplier as reference
from tests.harness import isa_of, layer_model, run
from tests.programs import Entry, run_program

ALL_SHIFTS = tuple(range(-31, 31))
SHIFTS = [(-31, -30, -17, -8, -1, 0, 1, 2, 15, 30), pytest.param(ALL_SHIFTS, marks=pytest.mark.sweep)]
MULTIPLIERS = (1 << 30, (1 << 30) + 1, 0x5A827999, 0x7FFFFFFF)
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imac", "rv32ec")
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
CHANNELS, DEPTH = 24, 4
MARGIN = 1024
"""More than the products of DEPTH inputs with weights of at most 1, and a zero point."""


def accumulators(shift: int, limit: int) -> list[int]:
    """Within +-`limit`: the ends of the range, and around the ties of a right shift after a product by half."""
    right = max(-shift, 0)
    ties = [sign * odd << right for odd in (1, 3, 5, 127, 255) for sign in (1, -1)]
    near = [0, LOWEST, LOWEST + 1, HIGHEST, HIGHEST - 1, 1 << 30, -(1 << 30), *ties]
    return sorted({v for x in near for v in (x - 1, x, x + 1) if max(LOWEST, -limit) <= v <= min(HIGHEST, limit)})


@dataclass(frozen=True)
class Rescale(PortableKernel):
    """int32 elements by a multiplier; `small` ones stay below 2**29 after the left shift."""

    small: bool

    parameters: ClassVar[tuple[str, ...]] = ("input", "output", "count", "multiplier", "left", "right")

    @property
    def name(self) -> str:
        return f"rescale_test_{self.small:d}"

    def build(self, f: KernelFunction) -> None:
        def element(_: Any, carried: list[Any]) -> list[Any]:
            source, target = carried
            by = Multiplier(f.integer("multiplier"), f.integer("left"), f.integer("right"))
            f.store(multiply_by_quantized_multiplier(f, self.isa, f.load_i32(source), by, self.small), target)
            return [f.offset(source, 4), f.offset(target, 4)]

        f.loop(f.integer("count"), element, [f.pointer("input"), f.pointer("output")])


@pytest.mark.parametrize("shifts", SHIFTS, ids=["some", "all"])
@pytest.mark.parametrize("core", (*CORES, "host"))
@pytest.mark.parametrize("small", [False, True])
def test_portable_form(core: str, small: bool, shifts: tuple[int, ...], tmp_path: Path) -> None:
    isa = isa_of(core)
    entries: list[Entry] = []
    expected = []
    for shift in shifts:
        limit = max((1 << 29 >> max(shift, 0)) - 1, 0) if small else 1 << 31
        x = np.array(accumulators(shift, limit), np.int32)
        for multiplier in MULTIPLIERS:
            arguments = (INPUT, OUTPUT, x.size, multiplier, max(shift, 0), max(-shift, 0))
            lowered = Lowered((KernelCall(Rescale(isa, small), arguments),))
            model = layer_model(core, lowered, [x], [(DType.INT32, x.shape)], f"layer{len(entries)}")
            entries.append(Entry(model, [[x]]))
            expected.append(reference(x, multiplier, shift))
    if core == "host":
        found = [run(entry.model, entry.rows, tmp_path) for entry in entries]
    else:
        found = run_program(entries, tmp_path)
    for ((output,),), want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(output, want)


def requantization(random: np.random.Generator, shift: int, minimum: int) -> Requantization:
    multipliers = np.array([*MULTIPLIERS, *random.integers(1 << 30, 1 << 31, CHANNELS - len(MULTIPLIERS))])
    zero_point = minimum if minimum > -128 else -5
    return Requantization(multipliers, np.full(CHANNELS, shift), zero_point, minimum, 127)


def defined(shift: int) -> int:
    """Accumulators from here on overflow in the reference: in its left shift, or where it adds the zero point."""
    return 1 << 31 >> max(shift, 0)


def has_room(shift: int) -> bool:
    """Whether inputs of any value keep small accumulators in the defined range."""
    return defined(shift) > 2 * MARGIN


def layers(random: np.random.Generator, shift: int, limit: int, minimum: int) -> list[tuple[Any, Any, Any, Any]]:
    """The same accumulators by each kind of layer: (layer, lowering's name, reference, shape of the input)."""
    if shift >= 0:
        limit = min(limit, defined(shift) - MARGIN if has_room(shift) else defined(shift) // 2)
    choices = accumulators(shift, limit)
    bias = np.array([choices[i] for i in np.linspace(0, len(choices) - 1, CHANNELS).astype(int)])
    weights = random.integers(-1, 2, (CHANNELS, DEPTH)).astype(np.int8)
    r = requantization(random, shift, minimum)
    dense = FullyConnected(1, weights, bias, 3, 0, r)
    pointwise = Conv2D(Window(2, 2, DEPTH, 2, 2, CHANNELS, 1, 1, 1, 1, 0, 0), weights[:, None, None], bias, 3, r)
    window = Window(3, 3, CHANNELS, 2, 2, CHANNELS, 2, 2, 1, 1, 0, 0)
    depthwise = DepthwiseConv2D(window, np.ascontiguousarray(weights.T.reshape(2, 2, CHANNELS)), bias, 3, r)
    return [
        (dense, "fully_connected", fully_connected, (1, DEPTH)),
        (pointwise, "conv_2d", conv_2d, (2, 2, DEPTH)),
        (depthwise, "depthwise_conv_2d", depthwise_conv_2d, (3, 3, CHANNELS)),
    ]


@pytest.mark.parametrize("shifts", SHIFTS, ids=["some", "all"])
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("limit", "minimum"), [(1 << 31, -128), (1 << 27, -128), (1 << 27, -20)], ids=["whole", "ties", "clamped"]
)
def test_layers(core: str, limit: int, minimum: int, shifts: tuple[int, ...], tmp_path: Path) -> None:
    random, isa = np.random.default_rng(4), isa_of(core)
    entries: list[Entry] = []
    expected = []
    for shift in shifts:
        for layer, lowering, compute, shape in layers(random, shift, limit, minimum):
            # The accumulators are the biases where all inputs are the zero point.
            rows = [np.full(shape, 3, np.int8)]
            if has_room(shift):
                rows.append(random.integers(-128, 128, shape).astype(np.int8))
            want = [compute(layer, x) for x in rows]
            lowered = getattr(isa, lowering)(layer)
            model = layer_model(core, lowered, rows[:1], [(DType.INT8, want[0].shape)], f"layer{len(entries)}")
            entries.append(Entry(model, [[x] for x in rows]))
            expected.append(want)
    for number, (found, want) in enumerate(zip(run_program(entries, tmp_path), expected, strict=True)):
        for (output,), values in zip(found, want, strict=True):
            np.testing.assert_array_equal(output, values, f"shift {shifts[number // 3]}, layer {number % 3}")
