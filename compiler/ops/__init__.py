# SPDX-License-Identifier: Apache-2.0
"""Operators: one module each, found by being here. `operators()` maps TFLite names to definitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from compiler.ops.definition import OperatorDefinition


@cache
def operators() -> Mapping[str, OperatorDefinition]:
    """All operator definitions by TFLite builtin name, in name order."""
    found: dict[str, OperatorDefinition] = {}
    for module in sorted(m.name for m in iter_modules(__path__)):
        for definition in getattr(import_module(f"{__name__}.{module}"), "DEFINITIONS", ()):
            found[definition.name] = definition
    return dict(sorted(found.items()))
