# SPDX-License-Identifier: Apache-2.0
"""EQUAL with broadcasting: true where both inputs are equal."""

from __future__ import annotations

from compiler.graph import DType
from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("EQUAL", "==", DType.BOOL),)
