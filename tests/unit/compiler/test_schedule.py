# SPDX-License-Identifier: Apache-2.0
"""The schedule: parts of a tensor that lie in it take no dispatch and no memory."""

from __future__ import annotations

from compiler.arena import plan_arena
from compiler.graph import DType, Graph, Operator, Tensor
from compiler.schedule import Region, Schedule, build_schedule
from tests.harness import isa_of
from tests.unit.compiler.ops.build import tensor


def split(length: int, parts: int) -> Schedule:
    """A byte table over [1, length], split, and each part through a byte table again."""
    axis = tensor(1, (), DType.INT32, None, data=1)
    source, made = tensor(0, (1, length)), tensor(2, (1, length))
    pieces = [tensor(3 + i, (1, length // parts)) for i in range(parts)]
    results = [tensor(3 + parts + i, (1, length // parts)) for i in range(parts)]
    operators = [
        Operator(0, "LOGISTIC", (0,), (2,)),
        Operator(1, "SPLIT", (1, 2), tuple(t.index for t in pieces)),
        *(
            Operator(2 + i, "LOGISTIC", (p.index,), (r.index,))
            for i, (p, r) in enumerate(zip(pieces, results, strict=True))
        ),
    ]
    tensors: dict[int, Tensor] = {t.index: t for t in (axis, source, made, *pieces, *results)}
    graph = Graph("test", tensors, tuple(operators), (0,), tuple(r.index for r in results))
    return build_schedule(graph, isa_of("cortex-m4"))


def test_aligned_parts_are_regions_of_the_whole() -> None:
    schedule = split(48, 3)
    assert [d.op for d in schedule.dispatches] == ["LOGISTIC"] * 4
    whole = schedule.region_of[2].buffer
    assert [schedule.region_of[i] for i in (3, 4, 5)] == [Region(whole, 0), Region(whole, 16), Region(whole, 32)]
    assert [d.reads[0] for d in schedule.dispatches[1:]] == [schedule.region_of[i] for i in (3, 4, 5)]
    buffers = schedule.lifetimes(keep_inputs=False)
    assert buffers[whole].first == 0 and buffers[whole].last == 3
    plan_arena(buffers)


def test_parts_off_the_alignment_are_copied() -> None:
    schedule = split(36, 3)
    assert [d.op for d in schedule.dispatches] == ["LOGISTIC", "SPLIT", *["LOGISTIC"] * 3]
    assert len({schedule.region_of[i].buffer for i in (2, 3, 4, 5)}) == 4
    assert all(region.offset == 0 for region in schedule.region_of.values())
