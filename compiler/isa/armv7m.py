# SPDX-License-Identifier: Apache-2.0
"""ARMv7-M without the DSP extension: MLA, SSAT, signed loads with offsets."""

from __future__ import annotations

from compiler.kernels.kernel import CompileOptions
from compiler.kernels.scalar.conv_product import Blocking, BlockShape
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.depthwise import Weights
from compiler.kernels.scalar.depthwise_halves import Held
from compiler.kernels.scalar.depthwise_halves_lowering import Halves
from compiler.kernels.scalar.depthwise_lowering import DepthwiseBlocking
from compiler.kernels.scalar.families import ScalarIsa
from compiler.kernels.winograd.lowering_scalar import WinogradForms, WinogradShape
from compiler.target import FloatUnit, Target

CORE = ScalarCore(
    multiplier=Multiplier.HIGH,
    unsigned_inputs=False,
    unsigned_weights=False,
    saturates=True,
    pinned=False,
    options=CompileOptions(flags=("-disable-lsr", "-enable-misched=false")),
)
_BLOCKING = Blocking(
    shapes=tuple(
        BlockShape(channels, pixels, channels + pixels + channels * pixels, pixels + 3, 9, 30, (4, 3, 2, 1))
        for channels, pixels in ((2, 2), (4, 1), (2, 1), (1, 2), (1, 1))
    ),
    pairs=(BlockShape(2, 2, 28, 8, 9, 30, depth=2),),
    reach=4095,
)
DEPTHWISE = DepthwiseBlocking(
    weights=Weights.ROW,
    unrolled=9,
    copies=(4, 5, 3, 2, 1),
    pixels=(4, 5, 3, 2, 1),
    loop_pixels=(2, 1),
    tap=1.75,
    output=10,
    group=10,
    halves=Halves((3, 2), (3, 2, 5, 4, 1), held=Held.ROW, tap=1, part=3, output=11, load=1, word=8),
)
_WINOGRAD = WinogradForms(
    shapes=tuple(
        WinogradShape(*shape)
        for shape in ((4, 2, 2), (4, 4, 1), (4, 2, 1), (2, 2, 2), (2, 2, 1), (4, 2, 2, 1), (4, 2, 2, 2))
    ),
    flags=CORE.options.flags,
    weight=1,
    value=1,
    product=1,
    forward=(130, 55),
    back=(357, 105),
    expand=600,
)


def isa(target: Target) -> ScalarIsa:
    return ScalarIsa("armv7m", CORE, _BLOCKING, DEPTHWISE, _WINOGRAD, target.float_unit is not FloatUnit.NONE)
