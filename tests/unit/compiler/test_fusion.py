# SPDX-License-Identifier: Apache-2.0
"""Which operators are joined, and what the arena has of it. Bytes are compared by tests/fuzz."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.arena import plan_arena
from compiler.fusion import scheduled
from compiler.graph import Graph, Operator
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.geometry import Padding
from compiler.schedule import Schedule
from compiler.settings import Optimize, Settings
from tests.harness import isa_of
from tests.unit.compiler.ops.build import tensor

NARROW, WIDE, SMALL = (1, 16, 16, 16), (1, 16, 16, 64), (1, 8, 8, 64)


def graph() -> Graph:
    """1x1 to 64 channels, then 3x3 by channel with stride 2: 4,096, 16,384 and 4,096 bytes."""
    random = np.random.default_rng(0)
    wide, window = (random.integers(-127, 128, shape) for shape in ((64, 1, 1, 16), (1, 3, 3, 64)))
    tensors = (
        tensor(0, NARROW, scale=0.1),
        tensor(1, wide.shape, scale=0.01, data=wide),
        tensor(2, WIDE, scale=0.1),
        tensor(3, window.shape, scale=(0.01,) * 64, data=window, axis=3),
        tensor(4, SMALL, scale=0.1),
        tensor(5, WIDE, scale=0.1),
    )
    operators = (
        Operator(0, "CONV_2D", (0, 1), (2,), Conv2DAttributes(Padding.SAME, 1, 1)),
        Operator(1, "DEPTHWISE_CONV_2D", (2, 3), (4,), Conv2DAttributes(Padding.SAME, 2, 2)),
    )
    return Graph("test", {t.index: t for t in tensors}, operators, (0,), (4,))


def plan(made: Graph, settings: Settings) -> tuple[Schedule, int]:
    schedule = scheduled(made, isa_of("cortex-m4"), settings, 4000)
    return schedule, plan_arena(schedule.lifetimes(False), schedule.sharings(False)).bytes


def joined(schedule: Schedule) -> list[str]:
    return [d.op for d in schedule.dispatches if len(d.operators) > 1]


def test_a_wide_tensor_between_two_layers_is_kept_by_rows() -> None:
    schedule, arena = plan(graph(), Settings(Optimize.BALANCED))
    assert joined(schedule) == ["CONV_2D + DEPTHWISE_CONV_2D"]
    assert 4096 <= arena < 16 * 16 * 64
    (one,) = schedule.dispatches
    assert one.lowered.macs == 16 * 16 * 64 * 16 + 8 * 8 * 64 * 9


def test_for_size_only_where_memory_demands_it() -> None:
    schedule, arena = plan(graph(), Settings(Optimize.SIZE))
    assert joined(schedule) == []
    assert arena > 16 * 16 * 64
    schedule, arena = plan(graph(), Settings(Optimize.SIZE, arena_bytes=12 * 1024))
    assert joined(schedule) == ["CONV_2D + DEPTHWISE_CONV_2D"]
    assert arena <= 12 * 1024


def test_a_tensor_that_is_needed_whole_is_kept_whole() -> None:
    output = replace(graph(), outputs=(2, 4))
    assert joined(plan(output, Settings(arena_bytes=0))[0]) == []
    again = Operator(2, "RELU", (2,), (5,))
    read_twice = replace(graph(), operators=(*graph().operators, again), outputs=(4, 5))
    assert joined(plan(read_twice, Settings(arena_bytes=0))[0]) == []


def test_the_least_where_nothing_is_enough() -> None:
    arenas = [plan(graph(), Settings(optimize, arena_bytes=0))[1] for optimize in Optimize]
    assert max(arenas) < 10 * 1024


@pytest.mark.parametrize("shape", [(), (4096,), (64, 64), (16, 16, 16), (1, 2, 8, 16, 16), (2, 8, 16, 16)], ids=str)
def test_what_is_no_image_is_computed_whole(shape: tuple[int, ...]) -> None:
    """Alike for any rank; a chain of vectors has no rows."""
    tensors = (tensor(0, shape, scale=0.1), tensor(1, shape, scale=1 / 128), tensor(2, shape, scale=1 / 128))
    relus = (Operator(0, "RELU", (0,), (1,)), Operator(1, "RELU", (1,), (2,)))
    schedule, arena = plan(Graph("test", {t.index: t for t in tensors}, relus, (0,), (2,)), Settings(arena_bytes=0))
    assert joined(schedule) == []
    assert len(schedule.dispatches) == 2 and arena >= int(np.prod(shape))
