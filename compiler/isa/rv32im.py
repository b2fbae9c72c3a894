# SPDX-License-Identifier: Apache-2.0
"""RV32IM: 31 registers and a full multiplication, which hold blocks of 4 channels x 4 pixels."""

from __future__ import annotations

from compiler.kernels.kernel import CompileOptions
from compiler.kernels.scalar.conv_product import Blocking, BlockShape, pair_shape
from compiler.kernels.scalar.core import Multiplier, ScalarCore
from compiler.kernels.scalar.depthwise import Weights
from compiler.kernels.scalar.depthwise_halves import Held
from compiler.kernels.scalar.depthwise_halves_lowering import Halves
from compiler.kernels.scalar.depthwise_lowering import DepthwiseBlocking
from compiler.kernels.scalar.families import ScalarIsa
from compiler.kernels.winograd.lowering_scalar import WinogradForms, WinogradShape
from compiler.target import FloatUnit, Target

_CORE = ScalarCore(
    multiplier=Multiplier.HIGH,
    unsigned_inputs=False,
    unsigned_weights=False,
    saturates=False,
    pinned=True,
    options=CompileOptions(flags=("-enable-misched=false", "-disable-lsr", "-disable-cgp")),
    lookup_gain=4,
)
_BLOCKING = Blocking(
    shapes=tuple(
        BlockShape(
            channels,
            pixels,
            channels + pixels + 2 * channels * pixels,
            pixels + 2,
            13,
            30,
            (4, 3, 2, 1) if pixels == 1 else (2, 3, 1),
        )
        for channels, pixels in ((4, 4), (4, 3), (2, 5), (8, 1), (4, 1), (2, 4), (2, 1), (1, 4), (1, 1))
    ),
    pairs=tuple(
        pair_shape(channels, pixels, depth, output=13, fixed=fixed)
        for channels, pixels, depth, fixed in (
            *((4, 3, 2, 4), (4, 3, 3, 10), (2, 6, 2, 4), (2, 5, 2, 3), (2, 4, 2, 3), (2, 3, 2, 2), (4, 2, 4, 5)),
            *((16, 1, 4, 6), (16, 1, 5, 6), (8, 1, 2, 4), (8, 1, 4, 4), (8, 1, 6, 4)),
        )
    ),
    reach=2047,
)
_DEPTHWISE = DepthwiseBlocking(
    weights=Weights.REGISTERS,
    unrolled=9,
    copies=(4, 5, 3, 2, 1),
    pixels=(4, 5, 3, 2, 1),
    loop_pixels=(4, 2, 1),
    tap=2.5,
    output=13,
    group=10,
    halves=Halves((3, 2), (3, 4, 5, 2, 1), held=Held.ALL, tap=2, part=3, output=15, load=1, word=7.5),
)
_WINOGRAD = WinogradForms(
    shapes=tuple(
        WinogradShape(*shape)
        for shape in (
            (4, 4, 4),
            (4, 4, 2),
            (4, 8, 1),
            (4, 4, 1),
            (2, 4, 4),
            (2, 8, 1),
            (4, 4, 4, 1),
            (4, 2, 4, 1),
            (4, 4, 2, 1),
            (4, 4, 2, 2),
            (4, 4, 4, 2),
        )
    ),
    flags=_CORE.options.flags,
    weight=1,
    value=1,
    product=2,
    forward=(110, 50),
    back=(530, 150),
    expand=700,
)


def isa(target: Target) -> ScalarIsa:
    return ScalarIsa("rv32im", _CORE, _BLOCKING, _DEPTHWISE, _WINOGRAD, target.float_unit is not FloatUnit.NONE)
