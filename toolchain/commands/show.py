# SPDX-License-Identifier: Apache-2.0
"""`size` and `schedule`: what report.json says, as tables."""

from __future__ import annotations

from toolchain.emulation import Built
from toolchain.report.columns import Column
from toolchain.report.contents import read_report, short_name
from toolchain.report.terminal import Terminal
from toolchain.request import ModelRequest, Request


def size(request: Request) -> None:
    """The size table."""
    Terminal().sizes(Built.of(request).report)


def schedule(request: ModelRequest) -> None:
    """The dispatches in order, with their kernels and buffers, then the arena."""
    report, terminal = read_report(request.folder / "report.json"), Terminal()
    rows = [
        (
            d["index"],
            d["op"],
            d["kernel"],
            ", ".join(map(short_name, d["reads"])),
            ", ".join(map(short_name, d["writes"])),
            d["macs"],
            d["constants_bytes"],
            d["scratch_bytes"],
        )
        for d in report["dispatches"]
    ]
    columns = (
        Column("#", number=True),
        Column("operator"),
        Column("kernel", cut=True),
        Column("reads", cut=True, spare=2),
        Column("writes", cut=True, spare=1),
        *(Column(name, number=True) for name in ("MACs", "constants B", "scratch B")),
    )
    terminal.table(columns, rows)
    arena = report["arena"]
    tensors = [(short_name(t["name"]), t["offset"], t["bytes"], f"{t['first']}-{t['last']}") for t in arena["tensors"]]
    terminal.line("")
    numbers = (Column(name, number=True) for name in ("offset", "bytes", "dispatches"))
    terminal.table((Column("arena buffer", cut=True), *numbers), tensors)
    terminal.line(f"arena {arena['bytes']:,} bytes; no plan can be below {arena['lower_bound']:,}", "bold")
