# SPDX-License-Identifier: Apache-2.0
"""report.html and the comparison of reports, from a report written by hand."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from toolchain.report.differences import compare_reports
from toolchain.report.page import HEIGHT, WIDTH, page

REPORT: dict[str, Any] = {
    "schema": 1,
    "board": "bluepill",
    "model": {"name": "<b>&net.tflite", "prefix": "net", "sha256": "ab" * 32, "stateful": False},
    "inputs": [{"name": "in", "bytes": 100}],
    "outputs": [{"name": "net/last/Softmax", "bytes": 10}],
    "numerics": "tflm",
    "notes": [],
    "flash": {"code": 3000, "constants": 1000, "total": 4000, "limit": 65536},
    "ram": {"arena": 200, "static": 0, "stack": 300, "total": 500, "limit": 20480},
    "arena": {
        "bytes": 200,
        "lower_bound": 200,
        "tensors": [
            {"name": "in", "offset": 100, "bytes": 100, "first": 0, "last": 0},
            {"name": "net/first/Relu;fused", "offset": 0, "bytes": 100, "first": 0, "last": 1},
            {"name": "scratch of dispatch 1", "offset": 100, "bytes": 50, "first": 1, "last": 1},
        ],
    },
    "stack": {"bound": 300, "measured": None, "path": [{"function": "main", "bytes": 24}]},
    "dispatches": [
        {
            "index": index,
            "op": op,
            "name": name,
            "kernel": "kernel_x",
            "macs": macs,
            "constants_bytes": 500,
            "scratch_bytes": 50 * index,
            "instructions": None,
        }
        for index, op, name, macs in (
            (0, "CONV_2D", "net/first/Relu;fused", 3000),
            (1, "SOFTMAX", "net/last/Softmax", 0),
        )
    ],
    "instructions": None,
    "toolchain": {"gcc": "gcc 12", "llvm": "22", "llvmlite": "0.50"},
}


def profiled(instructions: tuple[int, int] = (6000, 400)) -> dict[str, Any]:
    report = copy.deepcopy(REPORT)
    for dispatch, count in zip(report["dispatches"], instructions, strict=True):
        dispatch["instructions"] = count
    report["instructions"] = sum(instructions)
    report["stack"]["measured"] = 250
    return report


class Balance(HTMLParser):
    """Checks that elements close in order, and gathers what would load another file."""

    VOID = ("meta", "rect", "line", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [name for name, _ in attrs if name in ("src", "href", "data", "srcset")]
        if tag in ("link", "script", "iframe"):
            self.loads.append(tag)
        if tag not in self.VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("report", [REPORT, profiled()], ids=["built", "profiled"])
def test_the_page_is_whole_and_needs_no_other_file(report: dict[str, Any]) -> None:
    html = page(report, compare_reports(report, REPORT))
    checked = Balance()
    checked.feed(html)
    checked.close()
    assert (checked.open, checked.loads) == ([], [])
    assert "url(" not in html and "@import" not in html
    assert "&lt;b&gt;&amp;net.tflite" in html and "<b>&net" not in html


def test_buffers_are_drawn_by_time_and_address() -> None:
    boxes = re.findall(
        r'<rect class="(\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', page(REPORT)
    )
    half_w, half_h = WIDTH / 2, HEIGHT / 2
    assert [(kind, *map(float, rest)) for kind, *rest in boxes] == [
        ("end", 0, 0, half_w, half_h),
        ("tensor", 0, half_h, WIDTH, half_h),
        ("scratch", half_w, half_h / 2, half_w, half_h / 2),
    ]
    assert "net/first/Relu: 100 bytes at 0 to 99, dispatches 0 to 1" in page(REPORT)


def test_what_is_not_measured_is_said() -> None:
    assert "not profiled yet" in page(REPORT) and "not measured yet" in page(REPORT)
    html = page(profiled())
    assert "250 measured" in html and "6,400" in html and ">2.00<" in html


def test_a_comparison_tells_each_change() -> None:
    other = profiled((3000, 400))
    other["flash"] = {"code": 2000, "constants": 1000, "total": 3000, "limit": 65536}
    found = compare_reports(profiled(), other)
    figures = {figure.name: figure.told for figure in found.figures}
    assert figures["flash"] == "+1,000 (+33.3 %)"
    assert figures["constants"] == "same"
    assert figures["instructions"] == "+3,000 (+88.2 %)"
    assert [(layer.name, layer.change) for layer in found.layers] == [("0 CONV_2D", 3000), ("1 SOFTMAX", 0)]
    assert compare_reports(REPORT, other).layers == ()
    assert 'class="right more">+1,000' in page(profiled(), found)


def test_joined_layers_are_compared_with_their_parts() -> None:
    joined = profiled()
    first, last = joined["dispatches"]
    joined["dispatches"] = [last | {"index": 0, "op": f"{first['op']} + {last['op']}", "instructions": 7000}]
    for now, then, change in ((joined, profiled(), 600), (profiled(), joined, -600)):
        layers = compare_reports(now, then).layers
        assert [(layer.name, layer.change) for layer in layers] == [("0 CONV_2D + SOFTMAX", change)]


def test_layers_that_run_in_another_order_are_left_out() -> None:
    other = profiled()
    other["dispatches"] = [other["dispatches"][1], {**other["dispatches"][0], "name": "net/other"}]
    assert compare_reports(profiled(), other).layers == ()


def test_figures_that_a_report_lacks_have_no_change() -> None:
    figures = {figure.name: figure for figure in compare_reports(REPORT, profiled()).figures}
    assert (figures["stack measured"].now, figures["stack measured"].other) == (None, 250)
    assert figures["stack measured"].told == ""
