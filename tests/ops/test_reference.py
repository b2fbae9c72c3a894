# SPDX-License-Identifier: Apache-2.0
"""The operators' NumPy references give the golden bytes of every small model whose operators are supported."""

from __future__ import annotations

import pytest

from compiler.reference import outputs_of_rows
from tests.ops.models import case, is_supported, names
from tests.support import shared_dir

LEAST_SUPPORTED = 460
"""A guard against constraints that grow by mistake: so many of the models must be supported."""


def test_many_models_are_supported() -> None:
    shared_dir("ops")
    assert sum(map(is_supported, names())) >= LEAST_SUPPORTED


@pytest.mark.parametrize("name", names())
def test_reference(name: str) -> None:
    if not is_supported(name):
        pytest.skip("an operator of this model is not supported yet")
    found = case(name)
    for row, outputs in enumerate(outputs_of_rows(found.graph, found.rows)):
        found.check(row, outputs)
