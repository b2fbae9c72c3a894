# SPDX-License-Identifier: Apache-2.0
"""The NumPy reference of whole models gives the golden bytes, the tensor before SOFTMAX included."""

from __future__ import annotations

import pytest

from compiler.reference import outputs_of_rows
from compiler.support import check_supported
from tests.zoo.golden import FLOAT, INTEGER, SHIPPED, STATEFUL, UINT8, load


@pytest.mark.parametrize("name", [*SHIPPED, *INTEGER, *UINT8, *FLOAT, *STATEFUL])
def test_reference(name: str) -> None:
    case = load(name)
    check_supported(case.graph, case.model.name)
    for row, outputs in enumerate(outputs_of_rows(case.graph, case.rows)):
        case.check(row, outputs)
