# SPDX-License-Identifier: Apache-2.0
"""LESS_EQUAL with broadcasting: true where the first input is not above the second."""

from __future__ import annotations

from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("LESS_EQUAL", "<="),)
