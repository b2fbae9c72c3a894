# SPDX-License-Identifier: Apache-2.0
"""Operators: one module each, found by being here. `operators()` maps TFLite names to definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from compiler.ops.definition import OperatorDefinition


@cache
def operators() -> Mapping[str, OperatorDefinition]:
    """All operator definitions by TFLite builtin name, in name order."""
    modules = sorted(m.name for m in iter_modules(__path__))
    return registry({m: getattr(import_module(f"{__name__}.{m}"), "DEFINITIONS", ()) for m in modules})


def registry(modules: Mapping[str, Sequence[OperatorDefinition]]) -> Mapping[str, OperatorDefinition]:
    """The definitions of several modules by operator. Raises ValueError where two define one operator."""
    found: dict[str, tuple[str, OperatorDefinition]] = {}
    for module, definitions in modules.items():
        for definition in definitions:
            if definition.name in found:
                raise ValueError(f"{definition.name} is defined by {found[definition.name][0]} and by {module}")
            found[definition.name] = module, definition
    return {name: definition for name, (_, definition) in sorted(found.items())}
