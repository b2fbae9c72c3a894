# SPDX-License-Identifier: Apache-2.0
"""How scalar kernels clamp a rounded value to int8.

Values come relative to an origin that the form states, which goes into constants that are added anyway. With s the sign
mask of x, x | s is max(x, -1) and x & s is min(x, 0): two of them clamp on both sides. Where all values of a layer are
known to lie near the output's range, a table of bytes in flash is quicker still.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from compiler.codegen.builder import Value
from compiler.kernels.kernel import Argument, Constant, KernelFunction
from compiler.kernels.packing import Int64Array
from compiler.kernels.problems import Requantization
from compiler.kernels.scalar.core import ScalarCore, clamped
from compiler.numerics import multiply_by_quantized_multiplier

REACH = 4096
"""How far from the lower end of the output's range a table goes, on both sides."""
TABLE_BYTES = 2 * REACH
_MARGIN = 2
"""By how much a kernel's rounding may differ from the reference's where the clamp hides it, at most."""
CLAMP_FIELDS = ("clamp_span", "clamp_top", "clamp_table")
"""The call's parameters."""


class Clamp(Enum):
    BYTE = "w"
    """int8's own range."""
    RANGE = "c"
    """The call's."""
    LOOKUP = "l"
    """The call's, by its table."""


def clamp_of(r: Requantization, lookup: bool) -> Clamp:
    if lookup:
        return Clamp.LOOKUP
    return Clamp.BYTE if (r.minimum, r.maximum) == (-128, 127) else Clamp.RANGE


def within_reach(core: ScalarCore, r: Requantization, bounds: tuple[Int64Array, Int64Array]) -> bool:
    """Whether a table holds all outputs of accumulators within `bounds` (least and greatest of each channel), on a core
    that gains by it."""
    low, high = bounds
    if not core.lookup_gain or (low < -(1 << 31)).any() or (high >= 1 << 31).any() or (r.shifts > 0).any():
        return False
    ends = multiply_by_quantized_multiplier(np.stack(bounds), r.multipliers, r.shifts) + r.zero_point - r.minimum
    return bool((abs(ends) < REACH - _MARGIN).all())


def clamp_origin(core: ScalarCore, clamp: Clamp, minimum: int) -> int:
    """The output for which 0 stands before the clamp."""
    if clamp is Clamp.LOOKUP:
        return minimum - REACH
    return 0 if clamp is Clamp.BYTE and core.saturates else minimum + 1


def clamp_entries(clamp: Clamp, r: Requantization) -> dict[str, Argument]:
    """The values of CLAMP_FIELDS."""
    outputs = np.clip(np.arange(r.minimum - REACH, r.minimum + REACH), r.minimum, r.maximum).astype(np.int8)
    return {
        "clamp_span": r.maximum - r.minimum - 1,
        "clamp_top": r.maximum,
        "clamp_table": Constant(outputs.tobytes()) if clamp is Clamp.LOOKUP else 0,
    }


def emit_clamp(f: KernelFunction, core: ScalarCore, clamp: Clamp, entry: int = 0) -> Callable[[Value], Value]:
    """What turns a value relative to the origin into an output; a table's origin is `entry` further."""
    if clamp is Clamp.LOOKUP:
        table = f.offset(f.pointer("clamp_table"), entry)
        return lambda value: f.load_u8(table, value)
    if clamp is Clamp.RANGE:
        span, top = f.integer("clamp_span"), f.integer("clamp_top")
        return lambda value: clamped(f, value, span, top)
    return lambda value: core.saturate_int8(f, value) if core.saturates else clamped(f, value, 254, 127)
