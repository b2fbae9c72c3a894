# SPDX-License-Identifier: Apache-2.0
"""Dispatches run in the order of the smallest peak, and never before what they need."""

from __future__ import annotations

import numpy as np

from compiler.arena import check_plan, plan_arena
from compiler.graph import DType, Graph, Operator, Tensor
from compiler.ops.concatenation import ConcatenationAttributes
from compiler.order import ordered
from compiler.schedule import Schedule, build_schedule
from tests.harness import isa_of
from tests.unit.compiler.ops.build import tensor

JOINED = ConcatenationAttributes(1)


def branches(count: int) -> Schedule:
    """An input of 16 bytes; in model order `count` times eight of it joined, then each halved by a slice."""
    begin = tensor(100, (2,), DType.INT32, None, data=np.array([0, 1]))
    size = tensor(101, (2,), DType.INT32, None, data=np.array([1, 20]))
    source = tensor(0, (1, 16))
    large = [tensor(1 + i, (1, 128)) for i in range(count)]
    small = [tensor(20 + i, (1, 20)) for i in range(count)]
    operators = [
        *(Operator(i, "CONCATENATION", (0,) * 8, (t.index,), JOINED) for i, t in enumerate(large)),
        *(
            Operator(count + i, "SLICE", (a.index, 100, 101), (b.index,))
            for i, (a, b) in enumerate(zip(large, small, strict=True))
        ),
    ]
    tensors: dict[int, Tensor] = {t.index: t for t in (begin, size, source, *large, *small)}
    graph = Graph("test", tensors, tuple(operators), (0,), tuple(t.index for t in small))
    return build_schedule(graph, isa_of("cortex-m4"))


def test_branches_run_one_after_the_other() -> None:
    schedule = branches(4)
    found = ordered(schedule)
    assert [d.op for d in found.dispatches] == ["CONCATENATION", "SLICE"] * 4
    assert [d.index for d in found.dispatches] == list(range(8))
    plans = [plan_arena(s.lifetimes(False), s.sharings(False)) for s in (schedule, found)]
    assert plans[0].bytes >= 4 * 128 > 16 + 128 + 4 * 32 >= plans[1].bytes
    check_plan(plans[1])


def test_reads_and_writes_keep_their_order() -> None:
    found = ordered(branches(5))
    written: set[int] = {found.region_of[0].buffer}
    for dispatch in found.dispatches:
        assert {r.buffer for r in dispatch.reads if r is not None} <= written
        written |= {w.buffer for w in dispatch.writes}


def test_a_chain_stays_as_it_is() -> None:
    schedule = branches(1)
    assert ordered(schedule) is schedule
