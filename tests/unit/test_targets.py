# SPDX-License-Identifier: Apache-2.0
"""Figures beside their targets: what is met, missed or left out. Nothing is built here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.anchors import ANCHORS, MODELS
from bench.models import Measured
from bench.targets import (
    ARENA,
    BALANCED,
    CORES,
    FASTER,
    FLASH,
    SPEED,
    Figure,
    counted,
    exit_code,
    geometric_mean,
    main,
    missing,
    sized,
    summary,
    told,
)
from compiler.settings import Optimize

NOT_THERE = "x.tflite is not there"


def of(instructions: int, spread: int = 0, flash: int = 1, arena: int = 1) -> Measured:
    return Measured(instructions, spread, flash, 1, 1, 1, arena, 1, 1)


def figures(
    measure: Callable[[str, str, Optimize], Measured], absent: Mapping[str, str] | None = None
) -> dict[tuple[str, str, str], Figure]:
    found = list(counted(list(MODELS), absent or {}, measure))
    by_place = {(figure.model, figure.core, figure.what): figure for figure in found}
    assert len(by_place) == len(found)
    return by_place


def most(name: str, core: str, setting: Optimize) -> int:
    return round(1e6 * (BALANCED[name] if setting is Optimize.BALANCED else SPEED[core][name]))


@pytest.mark.parametrize(
    ("value", "least", "met"),
    [(9.0, False, True), (10.0, False, True), (10.1, False, False), (9.9, True, False), (10.0, True, True)],
)
def test_a_figure_may_be_its_target(value: float, least: bool, met: bool) -> None:
    assert Figure("ic", "M4", "", 10.0, value, least=least).met is met


def test_what_is_not_measured_is_neither_met_nor_missed() -> None:
    figure = Figure("ic", "M4", "", 10.0, None, why=NOT_THERE)
    assert figure.met is None
    assert figure.verdict == f"not measured: {NOT_THERE}"


def test_all_at_their_limits_are_met() -> None:
    def measure(name: str, core: str, setting: Optimize) -> Measured:
        count = most(name, core, setting)
        return of(count, count // 1000, FLASH[name], ARENA[name])

    found = figures(measure)
    single = [figure for figure in found.values() if figure.model != "mean"]
    assert [figure for figure in single if not figure.met] == []
    assert {figure.core for figure in single} == set(CORES)


def test_one_above_is_missed() -> None:
    def measure(name: str, core: str, setting: Optimize) -> Measured:
        count = most(name, core, setting) + 1
        return of(count, count // 1000 + 1, FLASH[name] + 1, ARENA[name] + 1)

    single = [figure for figure in figures(measure).values() if figure.model != "mean"]
    assert [figure for figure in single if figure.met is not False] == []


def test_means_are_of_what_was_measured() -> None:
    def measure(name: str, core: str, _: Optimize) -> Measured:
        times = {"ic": 1, "vww": 2, "kws": 4, "ad": 8}[name]
        anchor = ANCHORS.get((name, core))
        return of(anchor.instructions // times if anchor else 1)

    found = figures(measure)
    for core, target in FASTER.items():
        figure = found["mean", core, "times faster, speed"]
        assert figure.value is not None
        assert math.isclose(figure.value, 2**1.5, rel_tol=1e-4)
        assert figure.met is (target <= 2**1.5)


def test_a_mean_of_some_models_is_none() -> None:
    asked = []

    def measure(name: str, core: str, _: Optimize) -> Measured:
        asked.append((name, core))
        return of(1)

    found = figures(measure, {"ic": NOT_THERE})
    assert all(name != "ic" for name, _ in asked) and asked
    assert all(figure.met is None and figure.why for figure in found.values() if figure.model in ("mean", "ic"))
    assert found["kws", "M55", "instructions, speed"].met


def test_geometric_mean() -> None:
    assert math.isclose(geometric_mean([2.0, 8.0]), 4.0)


def test_models_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / f"{MODELS['kws']}.tflite").touch()
    absent = missing(tmp_path, MODELS)
    assert set(absent) == {"ic", "vww", "ad"}
    assert absent["ic"] == f"{tmp_path / MODELS['ic']}.tflite is not there"
    first = next(iter(sized(["ic"], absent, tmp_path)))
    assert (first.model, first.met, first.why) == ("ic", None, absent["ic"])


def test_summary_and_exit_code() -> None:
    met, missed = Figure("ic", "M4", "", 1, 1), Figure("ic", "M4", "", 1, 2)
    left = Figure("ic", "M4", "", 1, None, why=NOT_THERE)
    assert (summary([met, missed, left]), exit_code([met, missed, left])) == ("1 of 2 targets met, 1 not measured", 1)
    assert (summary([met, met]), exit_code([met, met])) == ("2 of 2 targets met", 0)
    assert exit_code([met, left]) == 0
    assert exit_code([left]) == exit_code([]) == 2


def test_numbers_as_they_are_told() -> None:
    assert [told(number) for number in (1234567, 3.14159, None)] == ["1,234,567", "3.14", ""]


def test_one_input_has_no_spread(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["targets", "--inputs", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "at least 2" in capsys.readouterr().err
