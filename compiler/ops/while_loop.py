# SPDX-License-Identifier: Apache-2.0
"""WHILE: a loop whose number of iterations is known when the model is compiled is unrolled.

Source: TensorFlow Lite, kernels/while.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.resolved import replaced_operator

MOST_OPERATORS = 4000
"""The most operators that the loops and branches of a model may become."""


@dataclass(frozen=True)
class WhileAttributes:
    """Options of WHILE: the numbers of the subgraphs."""

    condition: int = 0
    body: int = 0


def parse(options: Any) -> WhileAttributes:
    if options is None:
        return WhileAttributes()
    return WhileAttributes(options.CondSubgraphIndex(), options.BodySubgraphIndex())


DEFINITIONS = (
    replaced_operator(
        "WHILE",
        parse,
        "The number of iterations follows from constants alone, all values keep their type and quantisation, and the "
        f"unrolled loops of a model have at most {MOST_OPERATORS} operators.",
        lambda view: "the loop cannot be unrolled",
    ),
)
