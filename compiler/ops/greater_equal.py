# SPDX-License-Identifier: Apache-2.0
"""GREATER_EQUAL with broadcasting: true where the first input is not below the second."""

from __future__ import annotations

from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("GREATER_EQUAL", ">="),)
