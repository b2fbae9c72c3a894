# SPDX-License-Identifier: Apache-2.0
"""NOT_EQUAL with broadcasting: true where the inputs differ."""

from __future__ import annotations

from compiler.graph import DType
from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("NOT_EQUAL", "!=", DType.BOOL),)
