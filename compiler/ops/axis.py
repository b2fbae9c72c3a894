# SPDX-License-Identifier: Apache-2.0
"""What operators along one axis, given by a constant input, have in common."""

from __future__ import annotations

from compiler.ops.definition import OperatorView


def axis_of(view: OperatorView) -> int:
    """The axis in input 1, not negative."""
    return int(view.input(1).constant.reshape(-1)[0]) % len(view.input().shape)


def one_axis(view: OperatorView) -> str | None:
    """Input 1 is one axis of input 0, which is not empty."""
    shape, axes = view.input().shape, view.input(1).constant.reshape(-1).tolist()
    if len(axes) == 1 and -len(shape) <= axes[0] < len(shape) and 0 not in shape:
        return None
    return f"axes {axes} of {list(shape)}"
