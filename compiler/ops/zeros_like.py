# SPDX-License-Identifier: Apache-2.0
"""ZEROS_LIKE: zeros in the shape of the input.

Source: TensorFlow Lite Micro, kernels/zeros_like.cc.
"""

from __future__ import annotations

import numpy as np

from compiler.ops.constraints import same_shape
from compiler.ops.definition import OperatorView
from compiler.ops.folded import of_shapes
from compiler.ops.moving import moderate_size, of_type


def zero_means_zero(view: OperatorView) -> str | None:
    """The output has zero point 0."""
    quantization = view.output().quantization
    return str(quantization.zero_points) if quantization and any(quantization.zero_points) else None


DEFINITIONS = (
    of_shapes(
        "ZEROS_LIKE",
        (of_type(0), same_shape, zero_means_zero, moderate_size),
        lambda view: np.zeros(view.input().shape),
    ),
)
