# SPDX-License-Identifier: Apache-2.0
"""Operators are found by their modules' being there, each once."""

from __future__ import annotations

import pytest

from compiler.ops import operators, registry


def test_definitions_are_in_the_order_of_their_names() -> None:
    found = operators()
    assert list(found) == sorted(found)
    assert all(name == definition.name for name, definition in found.items())


def test_an_operator_that_two_modules_define() -> None:
    add, abs_ = operators()["ADD"], operators()["ABS"]
    assert registry({"one": (add,), "two": (abs_,)}) == {"ABS": abs_, "ADD": add}
    with pytest.raises(ValueError, match="ADD is defined by one and by two"):
        registry({"one": (add,), "two": (abs_, add)})
