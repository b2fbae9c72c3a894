# SPDX-License-Identifier: Apache-2.0
"""LESS with broadcasting: true where the first input is below the second."""

from __future__ import annotations

from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("LESS", "<"),)
