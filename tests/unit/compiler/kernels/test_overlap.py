# SPDX-License-Identifier: Apache-2.0
"""Outputs over inputs, at the least distances that kernels state: the bytes are those of disjoint tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.artifact import CompiledModel, Port
from compiler.codegen.objects import Accessor, ArenaAddress, BoundCall, Program, generate_objects
from compiler.graph import DType
from compiler.kernels import overlap
from compiler.kernels.kernel import INPUT, KernelCall, Lowered, Overlap, Place, Role
from compiler.kernels.portable import formula, maps, pools
from compiler.kernels.portable.loops import Element
from compiler.kernels.problems import FullyConnected, Window
from tests.harness import isa_of, target_for
from tests.programs import Entry, batches, run_program
from tests.unit.compiler.kernels import mve_layers

CORES = ("cortex-m4", "cortex-m55", "cortex-m0", "rv32imac", "cortex-m3", "rv32ec")
ALIGNMENT = 16
ROWS = 2
SAME = (1, 1, 1, 1)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A lowering with the sizes in bytes of its input and its output."""

    name: str
    lowered: Lowered
    input_bytes: int
    output_bytes: int


def _window(height: int, width: int, channels: int, outputs: int, size: int = 3, stride: int = 1) -> Window:
    """A square window with SAME padding."""

    def axis(n: int) -> tuple[int, int]:
        out = -(-n // stride)
        return out, max(0, (out - 1) * stride + size - n) // 2

    (rows, top), (columns, left) = axis(height), axis(width)
    return Window(height, width, channels, rows, columns, outputs, size, size, stride, stride, top, left)


def _of(name: str, w: Window, lowered: Lowered) -> Iterator[Layer]:
    sizes = w.input_height * w.input_width * w.input_channels, w.output_height * w.output_width * w.output_channels
    for number, one in enumerate((lowered, *lowered.alternatives)):
        yield Layer(f"{name} {number}", one, *sizes)


def _convolutions(core: str) -> Iterator[Layer]:
    rng, isa = np.random.default_rng(5), isa_of(core)
    shapes: list[tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = [
        ((8, 8, 16, 16), (3, 3), {"pad": SAME}),
        ((9, 8, 4, 24), (3, 3), {"pad": SAME, "kind": "none"}),
        ((8, 7, 16, 8), (3, 3), {"pad": (0, 1, 0, 1), "stride": (2, 2)}),
        ((12, 6, 1, 20), (10, 4), {"pad": (4, 5, 1, 1), "stride": (2, 2)}),
        ((9, 9, 3, 8), (3, 3), {"pad": (0, 1, 0, 1), "stride": (2, 2)}),
        ((8, 8, 8, 8), (3, 3), {"pad": (2, 2, 2, 2), "dilation": (2, 2)}),
        ((8, 9, 8, 12), (2, 3), {}),
        ((8, 8, 16, 32), (1, 1), {"stride": (2, 2)}),
        ((9, 7, 16, 16), (1, 1), {"stride": (2, 2)}),
        ((5, 5, 16, 16), (1, 1), {}),
        ((6, 7, 8, 24), (1, 1), {}),
        ((6, 6, 32, 8), (1, 1), {}),
        ((7, 5, 9, 7), (1, 1), {"kind": "left"}),
        ((4, 4, 64, 64), (1, 1), {}),
        ((6, 6, 4, 4), (3, 3), {"pad": (3, 3, 3, 3)}),
        ((11, 27, 1, 1), (3, 3), {"stride": (2, 2)}),
    ]
    for shape, kernel, how in shapes:
        layer = mve_layers.conv(rng, shape, kernel, **how)
        yield from _of(f"conv {shape} {kernel} {how}", layer.window, isa.conv_2d(layer))


def _depthwise(core: str) -> Iterator[Layer]:
    rng, isa = np.random.default_rng(6), isa_of(core)
    shapes: list[tuple[tuple[int, ...], tuple[int, int], int, dict[str, Any]]] = [
        ((8, 8, 16), (3, 3), 1, {"pad": SAME}),
        ((9, 7, 24), (3, 3), 1, {"pad": SAME}),
        ((8, 9, 40), (3, 3), 1, {"pad": (0, 1, 0, 1), "stride": (2, 2)}),
        ((9, 7, 5), (3, 3), 1, {"pad": SAME}),
        ((8, 8, 8), (3, 3), 1, {"pad": (0, 1, 0, 1), "stride": (2, 2)}),
        ((34, 48, 4), (3, 3), 1, {"pad": SAME}),
        ((60, 100, 2), (3, 3), 1, {"pad": SAME}),
        ((60, 100, 2), (3, 3), 1, {"pad": (0, 1, 0, 1), "stride": (2, 2)}),
        ((8, 8, 4), (3, 3), 2, {"pad": SAME}),
        ((9, 9, 8), (5, 5), 1, {"pad": (2, 2, 2, 2)}),
        ((9, 6, 4), (7, 1), 1, {}),
        ((9, 9, 6), (3, 3), 1, {"pad": (2, 2, 2, 2), "dilation": (2, 2)}),
    ]
    for shape, kernel, multiplier, how in shapes:
        layer = mve_layers.depthwise(rng, shape, kernel, multiplier, **how)
        yield from _of(f"depthwise {shape} {kernel} x{multiplier} {how}", layer.window, isa.depthwise_conv_2d(layer))


def _others(core: str) -> Iterator[Layer]:
    isa = isa_of(core)
    rng = np.random.default_rng(7)
    for batches_, depth, outputs in ((6, 8, 24), (6, 40, 24), (7, 20, 5), (1, 64, 16), (1, 200, 12)):
        plain = mve_layers.conv(rng, (1, batches_, depth, outputs), (1, 1))
        layer = FullyConnected(
            batches_, plain.weights.reshape(outputs, depth), plain.bias, plain.input_zero_point, 0, plain.requantization
        )
        yield from _of(f"fully connected {batches_, depth, outputs}", plain.window, isa.fully_connected(layer))
    for size, stride in ((2, 2), (3, 1), (3, 2)):
        w = _window(8, 8, 16, 16, size, stride)
        yield from _of(f"max pool {size} {stride}", w, pools.max_pool(isa, w, Element.INT8, None))
        yield from _of(f"average pool {size} {stride}", w, pools.average_pool(isa, w, Element.INT8, None))
    line = _window(1, 301, 1, 1, 1)
    yield from _of("byte map", line, maps.byte_map(isa, 301, np.arange(256).astype(np.uint8)[::-1]))
    plus = formula.Formula("overlap_plus", lambda f, _, x, __: f.add(x[0], 1))
    for source, target in ((Element.INT8, Element.INT8), (Element.INT8, Element.INT16), (Element.INT16, Element.INT8)):
        operand = formula.Operand(INPUT, source, (5, 60))
        lowered = formula.elementwise(isa, plus, [operand], target, (5, 60))
        yield Layer(f"formula {source} {target}", lowered, 300 * source.bytes, 300 * target.bytes)


KINDS = {"conv": _convolutions, "depthwise": _depthwise, "others": _others}


def _over(layer: Layer, order: Overlap) -> int:
    """Bytes of what lies over the input: the output or the scratch memory."""
    size = layer.lowered.scratch_bytes if order.scratch else layer.output_bytes
    return size + -size % ALIGNMENT


def _leads(layer: Layer, order: Overlap) -> Iterator[tuple[int, bool]]:
    """Distances by which that is ahead, and whether they are allowed: disjoint, the least and some above, one below."""
    allowed = [
        lead
        for lead in range(-(layer.input_bytes // ALIGNMENT) * ALIGNMENT, _over(layer, order), ALIGNMENT)
        if lead >= order.distance and lead % order.multiple == 0
    ]
    yield _over(layer, order), True
    for lead in sorted({*allowed[:3], *allowed[len(allowed) // 2 :][:1], *allowed[-1:]}):
        yield lead, True
    below = -(-order.distance // ALIGNMENT) * ALIGNMENT - ALIGNMENT
    if below > -layer.input_bytes:
        yield below, False
    if order.multiple > ALIGNMENT and allowed:
        yield allowed[0] + ALIGNMENT, False


def _model(core: str, number: int, layer: Layer, order: Overlap, leads: Sequence[int]) -> CompiledModel:
    """The layer run with the output or the scratch memory ahead by each of `leads`, each time on an input of its own;
    the other of the two is apart."""
    prefix, at, over = f"layer{number}", 64, _over(layer, order)
    other = layer.output_bytes if order.scratch else layer.lowered.scratch_bytes
    inputs, outputs, steps = [], [], []
    for index, lead in enumerate(leads):
        source, target = at + max(lead, 0), at + max(-lead, 0)
        apart = -(-max(source + layer.input_bytes, target + over) // ALIGNMENT) * ALIGNMENT + 64
        at = -(-(apart + other) // ALIGNMENT) * ALIGNMENT + 64
        output, scratch = (apart, target) if order.scratch else (target, apart)
        inputs.append(_port(prefix, "input", index, source, layer.input_bytes))
        outputs.append(_port(prefix, "output", index, output, layer.output_bytes))
        places = {Role.INPUT: source, Role.OUTPUT: output, Role.SCRATCH: scratch}
        steps.append(tuple(_placed(call, places) for call in layer.lowered.calls))
    accessors = tuple(Accessor(p.symbol, ArenaAddress(p.offset)) for p in (*inputs, *outputs))
    program = Program(prefix, at, tuple(steps), accessors)
    objects = generate_objects(program, target_for(core))
    return CompiledModel(
        layer.name, prefix, "", core, tuple(inputs), tuple(outputs), False, False, program.arena_bytes, 0, (), 0, (),
        objects, (),
    )  # fmt: skip


def _placed(call: KernelCall, places: dict[Role, int]) -> BoundCall:
    arguments = (ArenaAddress(places[a.role] + a.offset) if isinstance(a, Place) else a for a in call.arguments)
    return BoundCall(call.kernel, tuple(arguments))


def _port(prefix: str, kind: str, index: int, offset: int, size: int) -> Port:
    return Port(f"{prefix}_{kind}_{index}", f"{kind}{index}", DType.INT8, (size,), size, offset, (), ())


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_over_inputs_are_as_if_they_were_apart(core: str, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    entries: list[Entry] = []
    tried: list[tuple[Layer, Overlap, list[tuple[int, bool]]]] = []
    for layer in KINDS[kind](core):
        for order in layer.lowered.overlaps:
            leads = list(_leads(layer, order))
            model = _model(core, len(entries), layer, order, [lead for lead, _ in leads])
            rows = [rng.integers(-128, 128, layer.input_bytes).astype(np.int8) for _ in range(ROWS)]
            entries.append(Entry(model, [[row] * len(leads) for row in rows]))
            tried.append((layer, order, leads))
    found = [
        outputs
        for number, batch in enumerate(batches(entries))
        for outputs in run_program(batch, tmp_path / str(number))
    ]
    seen: Counter[str] = Counter()
    for (layer, order, leads), results in zip(tried, found, strict=True):
        for index, (lead, allowed) in enumerate(leads):
            same = all(np.array_equal(row[0], row[index]) for row in results)
            assert same or not allowed, f"{layer.name}: wrong with {order} and {lead} bytes ahead"
            seen["allowed" if allowed else "harmless" if same else "harmful"] += 1
    assert seen["allowed"] >= 3 * len(tried), seen
    # The distances are not larger than need be: most of what they forbid does harm.
    assert seen["harmful"] > seen["harmless"], seen


def test_the_order_of_steps_gives_the_distance() -> None:
    """Written out: two rows of two bytes in, one row of six bytes out for each, then the other way round."""
    grown = Window(2, 1, 2, 2, 1, 6, 1, 1, 1, 1, 0, 0)
    assert overlap.of_groups(grown, 1, reads_first=True) == Overlap(6 - 2)
    assert overlap.of_groups(grown, 1, reads_first=False) == Overlap(12 - 2)
    shrunk = replace(grown, input_channels=6, output_channels=2)
    assert overlap.of_groups(shrunk, 1, reads_first=True) == Overlap(2 - 6)
    assert overlap.of_groups(shrunk, 1, reads_first=False) == Overlap(2)
    # Five pixels by groups of three: the other group covers one of them again.
    line = Window(1, 5, 2, 1, 5, 4, 1, 1, 1, 1, 0, 0)
    assert overlap.of_groups(line, 3, reads_first=True) == Overlap(12 - 4)
    assert overlap.of_groups(line, 3, reads_first=True, second_repeats=True) == Overlap(12 - 4)
    narrow = replace(line, input_channels=1, output_channels=1)
    assert overlap.of_groups(narrow, 2, reads_first=True) == Overlap(4 - 3)
    assert overlap.of_groups(narrow, 2, reads_first=True, second_repeats=True) == Overlap(2 - 1)
    wide = replace(narrow, input_width=10, stride_width=2)
    assert overlap.of_groups(wide, 4, reads_first=True) == Overlap(4 - 2)
    assert overlap.of_groups(replace(wide, output_channels=2), 4, reads_first=True, second_repeats=True) == Overlap(6)
    assert overlap.from_ring(_window(32, 32, 16, 16)) == Overlap(-512)
    assert overlap.from_ring(_window(32, 32, 3, 16)) == Overlap(30 * 512 - 31 * 96)
    assert overlap.elementwise(10, 1, 4) == Overlap(27)
    assert overlap.elementwise(10, 4, 1) == Overlap(-3)
    assert overlap.of_images(Overlap(0), 3, 8, 4) == Overlap(0)
    assert overlap.of_images(Overlap(0), 3, 4, 8) == Overlap(8)
