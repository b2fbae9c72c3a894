# SPDX-License-Identifier: Apache-2.0
"""Lowerings for the least flash."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from compiler.kernels.kernel import Lowered

ROLLED_BYTES = 700
"""A rolled kernel's code, about."""


@dataclass(frozen=True)
class Compact(Lowered):
    """Slow code that many layers can share: for SIZE, and for what does not fit otherwise."""

    @cached_property
    def code(self) -> dict[str, int]:
        """The kernels' names and estimated bytes: without anything unrolled they are small."""
        return {call.kernel.name: min(call.kernel.code_bytes, ROLLED_BYTES) for call in self.calls}


def compact(lowered: Lowered) -> Compact:
    """The lowering marked as such."""
    return Compact(**{field.name: getattr(lowered, field.name) for field in fields(lowered)})


def quick(lowered: Lowered) -> tuple[Lowered, ...]:
    """The lowering and its alternatives, but for compact ones."""
    return (lowered, *(other for other in lowered.alternatives if not isinstance(other, Compact)))
