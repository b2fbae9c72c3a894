# SPDX-License-Identifier: Apache-2.0
"""report.html: what report.json says, drawn. One file that needs no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolchain.report.contents import short_name
from toolchain.report.differences import Comparison
from toolchain.templates import render

WIDTH, HEIGHT = 1000, 300
"""The arena's drawing, in its own units."""
_LEAST_TEXT = 22
"""Units below which a rectangle is too low for its name."""
_LETTER = 6.6


@dataclass(frozen=True)
class Part:
    """A piece of a memory bar: `kind` is its colour's name, `share` of the whole in per cent."""

    kind: str
    bytes: int
    share: float


@dataclass(frozen=True)
class Bar:
    """A memory: what fills it, and how full it is in per cent."""

    name: str
    total: int
    limit: int
    parts: tuple[Part, ...]
    full: float


@dataclass(frozen=True)
class Box:
    """A buffer in the arena's drawing: time to the right, addresses upwards."""

    kind: str
    label: str
    title: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layer:
    """A row of the table. `share` of all instructions (of all MACs where nothing was profiled) in per cent."""

    index: int
    op: str
    name: str
    full_name: str
    kernel: str
    macs: int
    constants: int
    scratch: int
    instructions: int | None
    share: float
    rate: str


def page(report: Mapping[str, Any], comparison: Comparison | None = None) -> str:
    """The HTML text of a report, with its comparison to another one where given."""
    ram = report["ram"]
    values = {
        "report": report,
        "bars": (
            _bar("Flash", report["flash"], ("constants", "code")),
            _bar("RAM", ram, ("arena", "static", "stack")),
        ),
        "boxes": _boxes(report),
        "steps": len(report["dispatches"]),
        "ticks": _ticks(len(report["dispatches"])),
        "levels": _levels(report["arena"]["bytes"]),
        "width": WIDTH,
        "height": HEIGHT,
        "layers": _layers(report),
        "macs": sum(d["macs"] for d in report["dispatches"]),
        "comparison": comparison,
    }
    return render("report.html", values)


def _bar(name: str, use: Mapping[str, int], kinds: tuple[str, ...]) -> Bar:
    total = max(use["total"], 1)
    parts = tuple(Part(kind, use[kind], 100 * use[kind] / total) for kind in kinds if use[kind])
    return Bar(name, use["total"], use["limit"], parts, 100 * use["total"] / use["limit"])


def _boxes(report: Mapping[str, Any]) -> tuple[Box, ...]:
    steps, size = max(len(report["dispatches"]), 1), report["arena"]["bytes"]
    ends = {port["name"] for port in (*report["inputs"], *report["outputs"])}

    def box(tensor: Mapping[str, Any]) -> Box:
        width = (tensor["last"] - tensor["first"] + 1) * WIDTH / steps
        height = tensor["bytes"] * HEIGHT / size
        scratch = tensor["name"].startswith("scratch of dispatch")
        kind = "scratch" if scratch else "end" if tensor["name"] in ends else "tensor"
        name = short_name(tensor["name"])
        label = _fitting(name, width) if height >= _LEAST_TEXT else ""
        end = tensor["offset"] + tensor["bytes"]
        title = (
            f"{name}: {tensor['bytes']:,} bytes at {tensor['offset']:,} to {end - 1:,}, "
            f"dispatches {tensor['first']} to {tensor['last']}"
        )
        y = HEIGHT - end * HEIGHT / size
        return Box(kind, label, title, tensor["first"] * WIDTH / steps, y, width, height)

    return tuple(box(tensor) for tensor in report["arena"]["tensors"])


def _fitting(name: str, width: float) -> str:
    """As much of a name as a rectangle has room for: all, or its last parts."""
    parts = name.split("/")
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((end for end in ends if len(end) * _LETTER < width - 10), "")


def _ticks(steps: int) -> tuple[tuple[int, float], ...]:
    """Numbers of dispatches below the drawing, at most 20, each in the middle of its dispatch."""
    every = max(1, -(-steps // 20))
    return tuple((step, (step + 0.5) * WIDTH / steps) for step in range(0, steps, every))


def _levels(size: int) -> tuple[tuple[int, float], ...]:
    """Addresses beside the drawing."""
    return tuple((size * part // 4, HEIGHT - HEIGHT * part / 4) for part in range(5))


def _layers(report: Mapping[str, Any]) -> tuple[Layer, ...]:
    key = "macs" if report["instructions"] is None else "instructions"
    whole = max(sum(d[key] or 0 for d in report["dispatches"]), 1)
    return tuple(
        Layer(
            index=d["index"],
            op=d["op"],
            name=short_name(d["name"]),
            full_name=d["name"],
            kernel=d["kernel"],
            macs=d["macs"],
            constants=d["constants_bytes"],
            scratch=d["scratch_bytes"],
            instructions=d["instructions"],
            share=100 * (d[key] or 0) / whole,
            rate=f"{d['instructions'] / d['macs']:.2f}" if d["instructions"] and d["macs"] else "",
        )
        for d in report["dispatches"]
    )
