# SPDX-License-Identifier: Apache-2.0
"""RANGE: numbers from start up to, or down to, but not with, limit.

Source: TensorFlow Lite, kernels/range.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import DType
from compiler.ops.definition import Array, OperatorView
from compiler.ops.folded import of_constants


def _numbers(view: OperatorView) -> list[Array]:
    return [view.input(position).constant.reshape(-1) for position in range(3)]


def same_types(view: OperatorView) -> str | None:
    """The inputs are scalars of the output's type, which is INT32, INT64 or FLOAT32."""
    output = view.output().dtype
    kinds = {view.input(position).dtype for position in range(3)}
    good = kinds == {output} and output in (DType.INT32, DType.INT64, DType.FLOAT32)
    good = good and all(number.size == 1 for number in _numbers(view))
    return None if good else f"{sorted(kind.name for kind in kinds)} to {output.name}"


def towards_limit(view: OperatorView) -> str | None:
    """The delta leads from start to limit in as many steps as the output has elements."""
    start, limit, delta = (number.item() for number in _numbers(view))
    good = delta != 0 and (limit - start) / delta > 0
    count = int(np.ceil((limit - start) / delta)) if good else 0
    shape = view.output().shape
    return None if good and shape == (count,) else f"{start} to {limit} by {delta}, output {list(shape)}"


def result(view: OperatorView) -> Array:
    start, _, delta = _numbers(view)
    # Sums, one step at a time, as the source has it: floats round at each.
    terms = np.concatenate([start, np.broadcast_to(delta, (view.output().elements - 1,))])
    return np.asarray(np.add.accumulate(terms, dtype=start.dtype))


DEFINITIONS = (of_constants("RANGE", ("The start", "The limit", "The delta"), (same_types, towards_limit), result),)
