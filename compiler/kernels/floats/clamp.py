# SPDX-License-Identifier: Apache-2.0
"""Clamps of float tensors."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.kernels.floats.functions import clamp
from compiler.kernels.kernel import KernelFunction
from compiler.kernels.portable.elementwise import Unary
from compiler.kernels.portable.unary import UnaryKernel


@dataclass(frozen=True)
class FloatClampKernel(UnaryKernel):
    """min(max(x, minimum), maximum)."""

    minimum: float
    maximum: float

    @property
    def name(self) -> str:
        return f"clamp_{self._suffix}_{self.minimum}_{self.maximum}".replace("-", "m").replace(".", "p")

    def operation(self, f: KernelFunction) -> Unary:
        return lambda value: clamp(f, value, self.minimum, self.maximum)
