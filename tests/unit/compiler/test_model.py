# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from compiler.model import c_prefix


@pytest.mark.parametrize(
    ("stem", "prefix"),
    (
        ("mnist_int8", "mnist_int8"),
        ("A.b-c d", "a_b_c_d"),
        ("9lives", "model_9lives"),
        ("_x", "model__x"),
        ("\N{GREEK SMALL LETTER PI}", "model__"),
        ("stdint", "model_stdint"),
        ("String", "model_string"),
        ("main", "main"),
        ("strings", "model_strings"),
        ("Firmware", "model_firmware"),
    ),
)
def test_names_in_c(stem: str, prefix: str) -> None:
    assert c_prefix(stem) == prefix
