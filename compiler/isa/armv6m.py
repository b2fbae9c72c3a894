# SPDX-License-Identifier: Apache-2.0
"""ARMv6-M: 8 low registers, no signed byte load with an offset, 32-bit products only."""

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
from compiler.target import Target

_CORE = ScalarCore(
    multiplier=Multiplier.LOW,
    unsigned_inputs=True,
    unsigned_weights=True,
    saturates=False,
    pinned=False,
    options=CompileOptions(flags=("-disable-lsr", "-disable-cgp")),
    lookup_gain=5,
)
_BLOCKING = Blocking(
    shapes=tuple(BlockShape(channels, 1, 1 + 3 * channels, 6, 25, 40, (4, 3, 2, 1)) for channels in (4, 3, 2, 1)),
    pairs=tuple(
        BlockShape(channels, 1, channels * (3 * depth + 5) + 2 * depth + 1, 4, 25, 40, depth=depth)
        for channels in (8, 4, 2)
        for depth in (2, 4)
    ),
)
_DEPTHWISE = DepthwiseBlocking(
    weights=Weights.STACK,
    unrolled=9,
    copies=(4, 5, 3, 2, 1),
    pixels=(2, 1),
    loop_pixels=(2, 1),
    tap=4,
    output=26,
    group=12,
    halves=Halves((3, 2), (2, 1), held=Held.NONE, tap=4, part=8, output=26, load=1, word=9),
)
_WINOGRAD = WinogradForms(
    shapes=tuple(WinogradShape(*shape) for shape in ((4, 1, 4), (4, 1, 2), (4, 2, 1), (2, 1, 4), (2, 2, 1))),
    flags=(*_CORE.options.flags, "-disable-machine-cse"),
    weight=2,
    value=1,
    product=2,
    forward=(160, 75),
    back=(1590, 430),
    expand=1100,
)


def isa(target: Target) -> ScalarIsa:
    return ScalarIsa("armv6m", _CORE, _BLOCKING, _DEPTHWISE, _WINOGRAD)
