# SPDX-License-Identifier: Apache-2.0
"""IF: a branch that is known when the model is compiled takes the place of the operator.

Source: TensorFlow Lite, kernels/if.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.resolved import replaced_operator


@dataclass(frozen=True)
class IfAttributes:
    """Options of IF: the numbers of the subgraphs."""

    then: int = 0
    otherwise: int = 0


def parse(options: Any) -> IfAttributes:
    return IfAttributes() if options is None else IfAttributes(options.ThenSubgraphIndex(), options.ElseSubgraphIndex())


DEFINITIONS = (
    replaced_operator(
        "IF",
        parse,
        "The condition follows from constants alone, and the branch's values have the types and quantisations of the "
        "operator's.",
        lambda view: "the branch depends on the input",
    ),
)
