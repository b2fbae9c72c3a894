# SPDX-License-Identifier: Apache-2.0
"""What the depthwise kernels have in common: a channel's input is copied into a plane with its padding around it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import Value
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction
from compiler.kernels.scalar.core import ScalarCore


@dataclass(frozen=True)
class PlaneKernel(Kernel):
    """Parameters are `plane`, `plane_bytes` and `fill`, the padding in whole words, besides those of the kernel."""

    core: ScalarCore

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return self.core.options

    def fill_plane(self, f: KernelFunction) -> None:
        """Padding everywhere; channels overwrite what is not padding."""
        fill = f.integer("fill")

        def word(pointer: Value, _: list[Value]) -> tuple[Value, list[Value]]:
            f.store(fill, pointer)
            return f.offset(pointer, 4), []

        plane = f.pointer("plane")
        f.loop_until(f.offset(plane, f.integer("plane_bytes")), plane, word)
