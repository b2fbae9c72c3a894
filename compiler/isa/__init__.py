# SPDX-License-Identifier: Apache-2.0
"""Instruction sets: one module each, found by name, offering kernels for the layers that cost."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, runtime_checkable

from compiler.codegen.builder import Function, Value
from compiler.kernels.kernel import CompileOptions, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected, IntegerSum, Window
from compiler.target import Target


class Isa(Protocol):
    """What a core offers. The three heavy families return complete lowerings for int8 layers (every geometry, zero
    point, shift and clamp: the general form is this module's own affair). Portable kernels use the primitives."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> CompileOptions:
        """Compile options for portable kernels."""
        ...

    @property
    def has_float_unit(self) -> bool:
        """Whether the core computes with floats, square roots included, by instructions."""
        ...

    @property
    def has_multiplier(self) -> bool:
        """Whether the core multiplies by an instruction."""
        ...

    def conv_2d(self, layer: Conv2D) -> Lowered: ...

    def depthwise_conv_2d(self, layer: DepthwiseConv2D) -> Lowered: ...

    def fully_connected(self, layer: FullyConnected) -> Lowered: ...

    def multiply_high(self, f: Function, a: Value, b: Value) -> Value:
        """(a * b) >> 32 of signed i32 values."""
        ...

    def saturate_int8(self, f: Function, value: Value) -> Value:
        """An i32 clamped to -128..127, without data-dependent branches."""
        ...


@runtime_checkable
class VectorIsa(Isa, Protocol):
    """An instruction set that has kernels of its own for elementwise operators too."""

    def integer_sum(self, layer: IntegerSum) -> Lowered: ...

    def max_pool(self, w: Window, bounds: tuple[int, int] | None) -> Lowered: ...

    def average_pool(self, w: Window, bounds: tuple[int, int] | None) -> Lowered | None:
        """None where the window has too many cells."""
        ...


@runtime_checkable
class PairIsa(Isa, Protocol):
    """An instruction set that multiplies pairs of int16."""

    def extend_quad(self, f: Function, word: Value) -> tuple[Value, Value]:
        """Four int8 as two pairs of int16, the same way for all words."""
        ...

    def multiply_pairs(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        """total + the products of both halves, modulo 2^32."""
        ...


def load_isa(target: Target) -> Isa:
    """The instruction set of a target. Raises ModuleNotFoundError for a name that has no module (a fault of the
    board data, which a test rules out)."""
    return import_module(f"compiler.isa.{target.isa}").isa(target)  # type: ignore[no-any-return]
