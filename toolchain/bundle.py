# SPDX-License-Identifier: Apache-2.0
"""The models of one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.artifact import CompiledModel, ObjectFile
from compiler.errors import UserError

ALIGNMENT = 16


@dataclass(frozen=True)
class Bundle:
    """One or several compiled models that run one after another, never at once.

    They share one arena, as large as the largest plan: a model's inputs and outputs last until another model's inputs
    are written or it is invoked. Models with state keep an arena of their own, since their state must last.
    """

    models: tuple[CompiledModel, ...]

    def __post_init__(self) -> None:
        check_names([(model.name, model.prefix) for model in self.models])

    @property
    def first(self) -> CompiledModel:
        return self.models[0]

    @property
    def name(self) -> str:
        return " + ".join(model.name for model in self.models)

    @property
    def arenas(self) -> tuple[CompiledModel, ...]:
        """The models whose arenas are linked: the largest of those that share, then those with state."""
        sharing = [model for model in self.models if not model.stateful]
        largest = (max(sharing, key=lambda model: model.arena_bytes),) if sharing else ()
        return (*largest, *(model for model in self.models if model.stateful))

    @property
    def guests(self) -> tuple[CompiledModel, ...]:
        """The models that use the first of `arenas` without bringing it."""
        return tuple(model for model in self.models if model not in self.arenas)

    @property
    def arena_bytes(self) -> int:
        end = 0
        for model in self.arenas:
            end = -(-end // ALIGNMENT) * ALIGNMENT + model.arena_bytes
        return end

    @property
    def constants_bytes(self) -> int:
        return sum(model.constants_bytes for model in self.models)

    @property
    def objects(self) -> tuple[ObjectFile, ...]:
        """The objects of all models; kernels that several models use come once. ValueError where two of one name
        differ."""
        found: dict[str, ObjectFile] = {}
        for part in (part for model in self.models for part in model.objects):
            known = found.setdefault(part.name, part)
            if known.data != part.data:
                raise ValueError(f"two kernels are named {part.name}")
        return tuple(found.values())


def check_names(models: Sequence[tuple[str, str]]) -> None:
    """UserError where two of these models, each a file name and the start of its C names, have the same ones."""
    prefixes = [prefix for _, prefix in models]
    twice = sorted({prefix for prefix in prefixes if prefixes.count(prefix) > 1})
    if twice:
        raise UserError(
            "two models have the same C names",
            where=", ".join(name for name, prefix in models if prefix in twice),
            got=", ".join(f"{prefix}_invoke" for prefix in twice),
            hint="rename one of the files: C names come from the file name",
        )
