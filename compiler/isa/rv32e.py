# SPDX-License-Identifier: Apache-2.0
"""RV32E without multiplier: 13 usable registers. The smallest kernels call for products; a table of squares, or weights
as code, are quicker where there is flash."""

from __future__ import annotations

from dataclasses import replace

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
_BLOCKING = Blocking(shapes=(BlockShape(1, 1, 53, 5, 375, 40, (1,)),))
_DEPTHWISE = DepthwiseBlocking(
    weights=Weights.LOOP, unrolled=0, copies=(1,), pixels=(1,), loop_pixels=(1,), tap=60, output=375, group=10
)
_QUICK = replace(
    _CORE,
    multiplier=Multiplier.SQUARES,
    unsigned_weights=False,
    options=CompileOptions(flags=("-disable-cgp", "-disable-lsr", "-enable-misched=false")),
)
_QUICK_BLOCKING = Blocking(
    shapes=tuple(BlockShape(channels, 1, 10 * channels + 4, 3, 375, 40, (1,)) for channels in (4, 2, 1))
)
_QUICK_DEPTHWISE = replace(_DEPTHWISE, tap=15)


def isa(target: Target) -> ScalarIsa:
    quick = ScalarIsa("rv32e", _QUICK, _QUICK_BLOCKING, _QUICK_DEPTHWISE)
    return ScalarIsa("rv32e", _CORE, _BLOCKING, _DEPTHWISE, coded=True, other=quick)
