# SPDX-License-Identifier: Apache-2.0
"""RV32E without multiplier: 13 usable registers; code size comes first, since such parts have 16 KB of flash."""

from __future__ import annotations

from compiler.kernels.kernel import CompileOptions
from compiler.kernels.scalar.conv_product import Blocking, BlockShape
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.depthwise import Weights
from compiler.kernels.scalar.depthwise_lowering import DepthwiseBlocking
from compiler.kernels.scalar.families import ScalarIsa
from compiler.target import Target

_CORE = ScalarCore(
    multiplier=Multiplier.NONE,
    unsigned_inputs=False,
    unsigned_weights=True,
    saturates=False,
    pinned=False,
    options=CompileOptions(opt_level=2),
)
_BLOCKING = Blocking(shapes=(BlockShape(1, 1, 60, 5, 300, 40, (1,)),))
_DEPTHWISE = DepthwiseBlocking(
    weights=Weights.LOOP, unrolled=0, copies=(1,), pixels=(1,), loop_pixels=(1,), tap=60, output=300, group=10
)


def isa(target: Target) -> ScalarIsa:
    return ScalarIsa("rv32e", _CORE, _BLOCKING, _DEPTHWISE)
