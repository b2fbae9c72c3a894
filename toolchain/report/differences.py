# SPDX-License-Identifier: Apache-2.0
"""Two reports side by side: the figures that a user weighs, and the layers that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

_FIGURES = (
    ("flash", ("flash", "total")),
    ("code", ("flash", "code")),
    ("constants", ("flash", "constants")),
    ("RAM", ("ram", "total")),
    ("arena", ("ram", "arena")),
    ("static", ("ram", "static")),
    ("stack bound", ("stack", "bound")),
    ("stack measured", ("stack", "measured")),
    ("instructions", ("instructions",)),
)


@dataclass(frozen=True)
class Figure:
    """A figure of both reports: bytes, or instructions. None where a report does not have it."""

    name: str
    now: int | None
    other: int | None

    @property
    def change(self) -> int | None:
        """Above zero where this report's figure is larger."""
        return None if self.now is None or self.other is None else self.now - self.other

    @property
    def told(self) -> str:
        """The change in words: with its sign, and in per cent."""
        if self.change is None:
            return ""
        share = f" ({100 * self.change / self.other:+.1f} %)" if self.change and self.other else ""
        return f"{self.change:+,}{share}" if self.change else "same"


@dataclass(frozen=True)
class _Step:
    """Dispatches up to one that another build has, too."""

    name: str
    operators: tuple[str, ...]
    instructions: int


@dataclass(frozen=True)
class Comparison:
    """`title` names the other report's build; `layers` are instructions by layer, where both were profiled."""

    title: str
    figures: tuple[Figure, ...]
    layers: tuple[Figure, ...]


def compare_reports(report: Mapping[str, Any], other: Mapping[str, Any]) -> Comparison:
    """This report against another one, of any board and model."""
    figures = (Figure(name, _at(report, path), _at(other, path)) for name, path in _FIGURES)
    return Comparison(
        f"{other['model']['name']} on {other['board']}",
        tuple(figure for figure in figures if figure.now is not None or figure.other is not None),
        tuple(_layers(report, other)),
    )


def _layers(report: Mapping[str, Any], other: Mapping[str, Any]) -> list[Figure]:
    """Layers by the tensor they compute, in this report's order; layers that one of the builds has joined are compared
    together."""
    if report["instructions"] is None or other["instructions"] is None:
        return []
    both = {d["name"] for d in report["dispatches"]} & {d["name"] for d in other["dispatches"]}
    ours, theirs = (_steps(each["dispatches"], both) for each in (report, other))
    return [
        Figure(step.name, step.instructions, theirs[tensor].instructions)
        for tensor, step in ours.items()
        if sorted(step.operators) == sorted(theirs[tensor].operators)
    ]


def _steps(dispatches: Sequence[Mapping[str, Any]], ends: Set[str]) -> dict[str, _Step]:
    """The steps by the tensors that they end with."""
    found: dict[str, _Step] = {}
    step: list[Mapping[str, Any]] = []
    for dispatch in dispatches:
        step.append(dispatch)
        if dispatch["name"] in ends:
            op = " + ".join(d["op"] for d in step)
            instructions = sum(d["instructions"] for d in step)
            found[dispatch["name"]] = _Step(f"{step[0]['index']} {op}", tuple(op.split(" + ")), instructions)
            step = []
    return found


def _at(report: Mapping[str, Any], path: tuple[str, ...]) -> int | None:
    value: Any = report
    for key in path:
        value = value[key]
    return None if value is None else int(value)
