# SPDX-License-Identifier: Apache-2.0
"""Every network and every foreign operator test on every core: matched, refused or too large, but never failing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ops.outcomes import CORES, Verdict, outcomes
from tests.support import shared_dir
from tests.zoo.golden import Case, read_case

ROWS = 2


@pytest.mark.sweep
@pytest.mark.parametrize("part", ["zoo", "zoo/ops3p"])
@pytest.mark.parametrize("core", ["host", *CORES])
def test_models(core: str, part: str, tmp_path: Path) -> None:
    folder = shared_dir(part)
    names = [path.stem for path in sorted((folder / "models").glob("*.tflite"))]

    def load(name: str) -> Case:
        case = read_case(folder / "models" / f"{name}.tflite", folder / "golden" / f"{name}.npz")
        return replace(case, rows=case.rows[:ROWS])

    found = list(outcomes(core, names, load, tmp_path))
    assert sum(outcome.verdict is Verdict.MATCHED for outcome in found) > 0.85 * len(names)
    failing = [f"{o.name}: {o.reason}" for o in found if o.verdict is Verdict.FAILING]
    assert not failing, "\n".join(failing)
