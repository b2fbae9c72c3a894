# SPDX-License-Identifier: Apache-2.0
"""docs/OPERATORS.md says what the operators' rules say, and its figures are those that were measured."""

from __future__ import annotations

import json
from typing import Any

from bench.operators import COLLECTIONS, RESULTS, TEXT, render
from compiler.ops import operators
from compiler.ops.definition import rule
from tests.ops.outcomes import Verdict


def results() -> Any:
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_text_is_up_to_date() -> None:
    assert TEXT.read_text(encoding="utf-8") == render(results()), "run `python -m bench.operators`"


def test_every_rule_is_a_sentence() -> None:
    for name, definition in operators().items():
        for constraint in definition.constraints:
            sentence = rule(constraint)
            assert sentence[:1].isupper() and sentence[-1:] in ".)", f"{name}: {sentence!r}"


def test_nothing_fails_on_any_core() -> None:
    for core, collections in results().items():
        assert set(collections) == set(COLLECTIONS)
        for title, collection in collections.items():
            assert collection["counts"][Verdict.FAILING.value] == 0, f"{core}, {title}: {collection['reasons']}"
