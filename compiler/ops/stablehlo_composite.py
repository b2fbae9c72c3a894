# SPDX-License-Identifier: Apache-2.0
"""STABLEHLO_COMPOSITE: an operator that comes with its own definition, a subgraph that takes its place.

Source: TensorFlow Lite, kernels/stablehlo_composite.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.resolved import replaced_operator


@dataclass(frozen=True)
class CompositeAttributes:
    """Options of STABLEHLO_COMPOSITE: the number of the subgraph."""

    decomposition: int = 0


def parse(options: Any) -> CompositeAttributes:
    return CompositeAttributes() if options is None else CompositeAttributes(options.DecompositionSubgraphIndex())


DEFINITIONS = (
    replaced_operator(
        "STABLEHLO_COMPOSITE",
        parse,
        "The subgraph that defines the operator is in the file, and its values have the operator's types and "
        "quantisations.",
        lambda view: f"subgraph {view.attributes.decomposition} cannot take its place",
    ),
)
