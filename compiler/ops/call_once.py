# SPDX-License-Identifier: Apache-2.0
"""CALL_ONCE: runs a subgraph before the first inference; it gives variables their initial values.

Source: TensorFlow Lite, kernels/call_once.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.resolved import replaced_operator


@dataclass(frozen=True)
class CallOnceAttributes:
    """Options of CALL_ONCE: the number of the subgraph."""

    subgraph: int = 0


def parse(options: Any) -> CallOnceAttributes:
    return CallOnceAttributes() if options is None else CallOnceAttributes(options.InitSubgraphIndex())


DEFINITIONS = (
    replaced_operator(
        "CALL_ONCE",
        parse,
        "The subgraph that it runs only assigns constants to variables.",
        lambda view: f"subgraph {view.attributes.subgraph} does more",
        computes=False,
    ),
)
