# SPDX-License-Identifier: Apache-2.0
"""Measured costs: the class of a call, their place in a schedule, and files of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from compiler import choice
from compiler.compile import prepare
from compiler.costs import CostFile, Costs, parse_costs, shipped_file, sources_digest
from compiler.isa import Isa
from compiler.kernels.compact import quick
from compiler.kernels.kernel import INPUT, Constant, Kernel, KernelCall, KernelFunction, Lowered, Place, Role
from compiler.model import Model
from compiler.pricing import call_key, cost_file, instructions_of, priced, still_known
from compiler.schedule import Schedule, build_schedule
from compiler.settings import Optimize, Settings
from tests.harness import isa_of, target_for
from tests.support import ROOT


@dataclass(frozen=True)
class Plain(Kernel):
    """A kernel of nothing."""

    parameters = ("source", "weights", "count")

    @property
    def name(self) -> str:
        return "plain"

    def build(self, f: KernelFunction) -> None:
        del f


def call(weights: Constant, count: int = 3, place: Place = INPUT) -> KernelCall:
    return KernelCall(Plain(), (place, weights, count))


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    path = ROOT / "models" / "mnist_int8.tflite"
    isa: Isa = isa_of("cortex-m4")
    return build_schedule(prepare(Model(path.name, path.read_bytes())), isa)


def test_a_class_is_what_steers() -> None:
    one = call_key(call(Constant(b"abcd")))
    assert one == call_key(call(Constant(b"wxyz")))
    assert one == call_key(call(Constant(b"abcd"), place=Place(Role.INPUT, 1, 64)))
    others = {
        call_key(call(Constant(b"abcdefgh"))),
        call_key(call(Constant(b"abcd"), count=4)),
        call_key(call(Constant(b"abcd", steers=True))),
        call_key(call(Constant(b"wxyz", steers=True))),
        call_key(call(Constant(b"abcd"), place=Place(Role.SCRATCH))),
    }
    assert len({one, *others}) == 6


def test_costs_are_sums_of_calls_and_unknown_where_one_is() -> None:
    short, long = call(Constant(b"abcd")), call(Constant(b"abcdefgh"))
    costs = Costs({call_key(short): 10, call_key(long): 100})
    assert instructions_of(Lowered((short, long, short)), costs) == 120
    assert instructions_of(Lowered((short, call(Constant(b"")))), costs) is None


def test_an_operator_is_priced_whole_or_not_at_all(schedule: Schedule) -> None:
    assert priced(schedule, Costs()) is schedule
    first = next(d for d in schedule.dispatches if d.lowered.alternatives)
    ways = quick(first.lowered)
    calls = [c for way in ways for c in way.calls]
    every = Costs({call_key(c): 7 for c in calls})
    found = priced(schedule, every).dispatches[first.index].lowered
    assert [way.instructions for way in quick(found)] == [7 * len(way.calls) for way in ways]
    some = Costs({call_key(c): 7 for c in ways[0].calls if c not in ways[-1].calls})
    assert priced(schedule, some).dispatches[first.index] == first


def test_the_choice_is_never_worse_by_measure_than_by_estimate(schedule: Schedule) -> None:
    file = shipped_file("dsp")
    assert file is not None
    every = Costs()
    for family in file.families.values():
        every = every.joined(family.costs)
    known = priced(schedule, every)
    estimated = choice.choose(schedule, Settings(Optimize.SPEED), 0)
    chosen = choice.choose(known, Settings(Optimize.SPEED, costs=every), 0)
    by_measure = [instructions_of(d.lowered, every) for d in estimated.dispatches]
    assert None not in by_measure
    assert choice.instructions_of(chosen) <= sum(count or 0 for count in by_measure)


def test_files_say_the_same_again_and_know_when_they_are_stale() -> None:
    one = call(Constant(b"abcd"))
    target = target_for("cortex-m4f")
    file = cost_file(target, [one], Costs({call_key(one): 10, "other": 1}, {"plain": 48}))
    assert parse_costs(file.text) == file
    assert file.costs == Costs({call_key(one): 10}, {"plain": 48})
    assert file.stale == ()
    assert replace(file, llvmlite="0").stale == tuple(file.families)
    module, family = next(iter(file.families.items()))
    changed = replace(file, families={module: replace(family, sources="0")})
    assert changed.stale == (module,)
    assert changed.costs == Costs()
    # Sources that make the same code need no measuring.
    assert still_known(changed, target, [one, call(Constant(b""))]) == file.costs
    other = replace(changed.families[module], kernels={"plain": "0"})
    assert still_known(replace(file, families={module: other}), target, [one]) == Costs()
    assert still_known(file, target_for("cortex-m7"), [one]) == Costs()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "families": []}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_costs(text)


def test_digests_cover_what_is_imported() -> None:
    digests = {sources_digest(f"compiler.kernels.{name}") for name in ("kernel", "overlap", "dsp.patch_lowering")}
    assert len(digests) == 3


def test_shipped_files_are_as_they_are_written() -> None:
    paths = sorted((ROOT / "compiler" / "measured").iterdir())
    assert len(paths) == 6
    for path in paths:
        file: CostFile = parse_costs(path.read_text())
        assert file.isa == path.stem
        assert file.text == path.read_text()


@pytest.mark.sweep
def test_shipped_files_are_of_these_sources() -> None:
    """`python -m bench.tune` measures what is stale."""
    for path in sorted((ROOT / "compiler" / "measured").iterdir()):
        assert parse_costs(path.read_text()).stale == (), path.name
