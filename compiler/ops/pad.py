# SPDX-License-Identifier: Apache-2.0
"""PAD and PADV2: cells of one value around a tensor; PAD's is the zero point, or 0.

Source: TensorFlow Lite Micro, kernels/pad_common.cc.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from compiler.ops.bands import same_rows
from compiler.ops.constraints import constant, inputs_between
from compiler.ops.definition import Array, Band, OperatorView, no_options
from compiler.ops.moving import VALUE, padding


def paddings(view: OperatorView) -> list[tuple[int, int]]:
    """(before, after) of each axis."""
    return [(int(a), int(b)) for a, b in view.input(1).constant.reshape(-1, 2)]


def a_pair_an_axis(view: OperatorView) -> str | None:
    """There is a pair of paddings, not negative, for each axis, and the output has the input's sizes with them."""
    shape, table, output = view.input().shape, view.input(1).constant, view.output().shape
    good = table.shape == (len(shape), 2) and table.min(initial=0) >= 0
    if good and tuple(n + sum(pair) for n, pair in zip(shape, table.tolist(), strict=True)) == output:
        return None
    return f"input {list(shape)}, paddings {table.tolist()}, output {list(output)}"


def value_as_input(view: OperatorView) -> str | None:
    """The value is a scalar with the type, scale and zero point of the input."""
    value, source = view.input(VALUE), view.input()
    if value.elements == 1 and value.dtype is source.dtype and value.quantization == source.quantization:
        return None
    return f"{value.dtype.name} {list(value.shape)} {value.quantization}"


def given_value(view: OperatorView) -> Array:
    return view.input(VALUE).constant.reshape(())


def pad(view: OperatorView, x: Array, value: Any) -> Array:
    return np.pad(x, paddings(view), constant_values=value)


def _within_rows(view: OperatorView, rows: range) -> Band | None:
    return same_rows(view, rows) if view.output().shape[1:2] == view.input().shape[1:2] else None


_SHARED = (constant(1, "The paddings"), a_pair_an_axis)
DEFINITIONS = (
    replace(padding("PAD", no_options, (inputs_between(2, 2), *_SHARED), pad), bands=_within_rows),
    padding(
        "PADV2",
        no_options,
        (inputs_between(3, 3), *_SHARED, constant(2, "The value"), value_as_input),
        pad,
        given_value,
    ),
)
