# SPDX-License-Identifier: Apache-2.0
"""`size` and `schedule`: what report.json says, as tables."""

from __future__ import annotations

from toolchain.emulation import Built
from toolchain.request import Request
from toolchain.terminal import Terminal


def size(request: Request) -> None:
    """The size table."""
    Terminal().sizes(Built.of(request).report)


def schedule(request: Request) -> None:
    """The dispatches in order, with their kernels and buffers, then the arena."""
    report, terminal = Built.of(request).report, Terminal()
    rows = [
        (
            d["index"],
            d["op"],
            d["kernel"],
            ", ".join(d["reads"]),
            ", ".join(d["writes"]),
            d["macs"],
            d["constants_bytes"],
            d["scratch_bytes"],
        )
        for d in report["dispatches"]
    ]
    headers = ("#", "operator", "kernel", "reads", "writes", "MACs", "constants B", "scratch B")
    terminal.table(headers, rows, right=(0, 5, 6, 7))
    arena = report["arena"]
    tensors = [(t["name"], t["offset"], t["bytes"], f"{t['first']}-{t['last']}") for t in arena["tensors"]]
    terminal.line("")
    terminal.table(("arena buffer", "offset", "bytes", "dispatches"), tensors, right=(1, 2, 3))
    terminal.line(f"arena {arena['bytes']:,} bytes; no plan can be below {arena['lower_bound']:,}", "bold")
