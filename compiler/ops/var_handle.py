# SPDX-License-Identifier: Apache-2.0
"""VAR_HANDLE: names a resource variable, whose value lives from one run to the next.

Source: TensorFlow Lite, kernels/var_handle.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.ops.resolved import replaced_operator

RULE = (
    "A resource variable is initialised with a constant by CALL_ONCE, and all its reads and writes in the first "
    "subgraph have the type, shape and quantisation of that constant."
)


@dataclass(frozen=True)
class VarHandleAttributes:
    """Options of VAR_HANDLE: handles with equal names are of one variable."""

    container: str = ""
    shared_name: str = ""


def parse(options: Any) -> VarHandleAttributes:
    if options is None:
        return VarHandleAttributes()
    return VarHandleAttributes(_text(options.Container()), _text(options.SharedName()))


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


DEFINITIONS = (
    replaced_operator("VAR_HANDLE", parse, RULE, lambda view: f"variable '{view.attributes.shared_name}' is not"),
)
