# SPDX-License-Identifier: Apache-2.0
"""READ_VARIABLE: the value of a resource variable.

Source: TensorFlow Lite, kernels/read_variable.cc.
"""

from __future__ import annotations

from compiler.ops.definition import no_options
from compiler.ops.resolved import replaced_operator
from compiler.ops.var_handle import RULE

DEFINITIONS = (
    replaced_operator("READ_VARIABLE", no_options, RULE, lambda view: f"'{view.output().name}' reads one that is not"),
)
