# SPDX-License-Identifier: Apache-2.0
"""GREATER with broadcasting: true where the first input is above the second."""

from __future__ import annotations

from compiler.ops.comparisons import comparison

DEFINITIONS = (comparison("GREATER", ">"),)
