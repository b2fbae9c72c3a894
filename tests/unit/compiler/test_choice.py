# SPDX-License-Identifier: Apache-2.0
"""The choice among lowerings: budgets of flash and arena, against trying all combinations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from compiler import choice
from compiler.arena import lower_bound
from compiler.compile import prepare
from compiler.costs import Costs
from compiler.isa import Isa
from compiler.kernels.kernel import Lowered
from compiler.model import Model
from compiler.schedule import Schedule, build_schedule
from compiler.settings import Optimize, Settings
from tests.harness import isa_of
from tests.support import ROOT


@dataclass(frozen=True)
class Figures:
    flash: int
    instructions: int
    peak: int


def figures(schedule: Schedule) -> Figures:
    lowered = [d.lowered for d in schedule.dispatches]
    peak = lower_bound(schedule.lifetimes(keep_inputs=False), schedule.sharings(keep_inputs=False))
    return Figures(choice._flash(Costs(), *lowered), sum(each.instructions for each in lowered), peak)


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    path = ROOT / "models" / "mnist_int8.tflite"
    isa: Isa = isa_of("cortex-m4")
    return build_schedule(prepare(Model(path.name, path.read_bytes())), isa)


def test_settings_order_flash_and_instructions(schedule: Schedule) -> None:
    found = {o: figures(choice.choose(schedule, Settings(o), 30_000)) for o in Optimize}
    speed, balanced, size = (found[o] for o in (Optimize.SPEED, Optimize.BALANCED, Optimize.SIZE))
    assert size.flash <= balanced.flash <= speed.flash
    assert speed.instructions <= balanced.instructions <= size.instructions
    assert size.flash < speed.flash


def test_one_lowering_is_left_and_the_board_limits_flash(schedule: Schedule) -> None:
    free = figures(choice.choose(schedule, Settings(Optimize.SPEED), 0)).flash
    least = figures(choice.choose(schedule, Settings(Optimize.SIZE), 0)).flash
    for limit in (least + (free - least) // 2, least, 0):
        chosen = choice.choose(schedule, Settings(Optimize.SPEED, limit), 0)
        assert not any(d.lowered.alternatives for d in chosen.dispatches)
        assert figures(chosen).flash <= max(limit, least + len(chosen.dispatches) * choice.FLASH_UNIT)


def test_scratch_keeps_to_the_arena(schedule: Schedule) -> None:
    tensors = schedule.lifetimes(keep_inputs=False)[: len(schedule.buffer_bytes)]
    for optimize in Optimize:
        chosen = choice.choose(schedule, Settings(optimize), 30_000)
        apart = optimize is Optimize.BALANCED
        bound = lower_bound(tensors) if apart else lower_bound(tensors, schedule.sharings(keep_inputs=False))
        least = [min(choice._candidates(d), key=lambda o: o.scratch_bytes) for d in schedule.dispatches]
        needed = [replace(d, lowered=o) for d, o in zip(schedule.dispatches, least, strict=True)]
        smallest = figures(replace(schedule, dispatches=tuple(needed))).peak
        allowed = bound + min(int(bound * choice.SCRATCH_SHARE), choice.SCRATCH_MOST)
        assert figures(chosen).peak <= max(allowed, smallest)


def test_fewest_instructions_is_exact() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        options = [
            [
                choice._Option(Lowered((), instructions=int(rng.integers(1, 50))), int(rng.integers(1, 30)))
                for _ in range(3)
            ]
            for _ in range(5)
        ]
        limit = int(rng.integers(20, 120))
        within = [c for c in product(*options) if sum(o.flash for o in c) <= limit]
        found = choice._fewest(options, limit)
        if within:
            assert sum(o.instructions for o in found) == min(sum(o.lowered.instructions for o in c) for c in within)
        else:
            least = tuple(min(each, key=lambda o: (o.flash, o.lowered.instructions)).lowered for each in options)
            assert sum(o.instructions for o in found) <= sum(o.instructions for o in least)
