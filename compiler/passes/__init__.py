# SPDX-License-Identifier: Apache-2.0
"""Passes: each takes a valid graph and leaves a valid graph that computes the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.errors import UserError
from compiler.graph import Graph
from compiler.passes.copy_outputs import copy_outputs
from compiler.passes.fold_constants import fold_constants
from compiler.passes.fuse_activations import fuse_activations
from compiler.passes.fuse_dilation import fuse_dilation
from compiler.passes.fuse_padding import fuse_padding
from compiler.passes.inline_subgraphs import inline_subgraphs
from compiler.passes.join_parts import join_parts
from compiler.passes.remove_channels import remove_channels
from compiler.passes.remove_dead import remove_dead
from compiler.passes.remove_identities import remove_identities
from compiler.passes.resolve_variables import resolve_variables
from compiler.passes.signed_bytes import signed_bytes
from compiler.verifier import faults, verify


@dataclass(frozen=True)
class Pass:
    """A step from graph to graph. `rewrites` tells that operators afterwards compute something else than the model
    file states, though the outputs' bytes are the same."""

    name: str
    does: str
    run: Callable[[Graph], Graph]
    rewrites: bool = False


PASSES = (
    Pass("resolve_variables", "turns resource variables into variables of the main graph", resolve_variables),
    Pass("fold_constants", "computes operators whose inputs are known, shapes included", fold_constants),
    Pass("inline_subgraphs", "unrolls loops, chooses branches and expands composites", inline_subgraphs),
    Pass("join_parts", "joins the parts of joined tensors at once", join_parts),
    Pass("signed_bytes", "gives legacy uint8 operators the int8 form that computes the same", signed_bytes),
    Pass("remove_identities", "removes operators that pass their input on unchanged", remove_identities),
    Pass("fuse_dilation", "makes dilated convolutions of those between blocks cut and joined", fuse_dilation),
    Pass("fuse_padding", "gives convolutions the padding of a PAD before them", fuse_padding, True),
    Pass("fuse_activations", "gives operators the clamp of an activation after them", fuse_activations, True),
    Pass("remove_dead", "removes operators whose results nobody reads", remove_dead),
    Pass("remove_channels", "removes channels that the weights prove constant or unread", remove_channels, True),
    Pass("copy_outputs", "gives outputs that nobody computes memory of their own", copy_outputs),
)
AS_STATED = tuple(step for step in PASSES if not step.rewrites)
"""The passes after which every operator is still the model file's own."""


def run_passes(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """The graph after the passes, verified before the first and after each.

    Raises UserError where the graph of the model file is inconsistent, InvalidGraph where a pass is at fault.
    """
    inner = (f"subgraph {n}: {fault}" for n, subgraph in sorted(graph.subgraphs.items()) for fault in faults(subgraph))
    found = [*faults(graph), *inner]
    if found:
        raise UserError(
            "this model contradicts itself",
            where=graph.name,
            got="; ".join(found),
            hint="export the model again with an unmodified converter",
        )
    for step in passes:
        graph = step.run(graph)
        verify(graph, step.name)
    return graph
