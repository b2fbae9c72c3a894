# SPDX-License-Identifier: Apache-2.0
"""REDUCE_PROD: the product of elements along axes, in order. int32 wraps.

Source: TensorFlow Lite, kernels/reduce.cc.
"""

from __future__ import annotations

from compiler.graph import DType
from compiler.kernels.portable.fold import Fold
from compiler.ops.reducing import folding

DEFINITIONS = (
    folding(
        "REDUCE_PROD",
        {
            DType.INT32: Fold("prod", 1, lambda f, found, value: f.mul(found, value)),
            DType.FLOAT32: Fold("prod", 1.0, lambda f, found, value: f.fmul(found, value)),
        },
    ),
)
