# SPDX-License-Identifier: Apache-2.0
"""What a kernel is: code for a class of layers, called with a table of parameters.

Two layers whose `Kernel` values are equal share one function; what differs between them (addresses, counts,
weights) is in the parameter table of each call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar

from llvmlite import ir

from compiler.codegen.builder import I32, PTR, Function


class Role(Enum):
    INPUT = "input"
    OUTPUT = "output"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Place:
    """An address known when the arena is planned: an operand of the operator, or the dispatch's scratch memory."""

    role: Role
    index: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Constant:
    """Read-only bytes for flash; equal constants are stored once. `steers` tells that the values are counts by which
    the kernel loops, and no weights: they belong to a call's class (`compiler.pricing`)."""

    data: bytes
    align: int = 4
    steers: bool = field(default=False, compare=False)


Argument = int | Place | Constant


@dataclass(frozen=True)
class CompileOptions:
    """How LLVM compiles a kernel; measured, not guessed (see docs/performance-log.md).

    `optimize` runs the O2 pipeline without unrolling and vectorisation; `opt_level` is the code generator's.
    `flags` are LLVM's hidden options, set while the kernel is compiled.
    """

    optimize: bool = False
    opt_level: int = 2
    flags: tuple[str, ...] = ()


class Kernel(ABC):
    """A frozen dataclass whose fields are compile-time facts; `parameters` names the call's table entries in order.

    `name` must differ wherever the code differs, and be a C identifier.
    """

    parameters: ClassVar[tuple[str, ...]]
    options: ClassVar[CompileOptions] = CompileOptions()

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def code_bytes(self) -> int:
        """An estimate of the code's size, for the choice of kernels."""
        return 1000

    @property
    def lean(self) -> bool:
        """Whether tables hold only what the code reads, in the order in which that is built."""
        return False

    @abstractmethod
    def build(self, f: KernelFunction) -> None:
        """Emits the body; the return is added behind it."""


class KernelFunction(Function):
    """A kernel under construction: `void name(const void *table)`; table entries, `entry_bytes` each, are loaded where
    they are used."""

    def __init__(self, module: ir.Module, kernel: Kernel, entry_bytes: int = 4) -> None:
        super().__init__(module, kernel.name, [PTR])
        self.kernel, self.entry_bytes = kernel, entry_bytes
        self.read: dict[str, int] = {} if kernel.lean else {name: i for i, name in enumerate(kernel.parameters)}
        """The parameters with their positions in the table: of a lean kernel, those that were read so far."""
        self._parked: ir.Value | None = None

    def park_table(self) -> None:
        """Keeps the table's address in the frame from here on: a register less in use, a load more for each entry."""
        self._parked = self.alloca(PTR)
        self.store(self.arguments[0], self._parked)

    def _table(self) -> ir.Value:
        return self.load(PTR, self._parked) if self._parked is not None else self.arguments[0]

    def _entry(self, parameter: str) -> int:
        if self.kernel.lean and parameter in self.kernel.parameters:
            self.read.setdefault(parameter, len(self.read))
        return self.entry_bytes * self.read[parameter]

    def integer(self, parameter: str) -> ir.Value:
        """The i32 value of a table entry."""
        return self.load(I32, self._table(), self._entry(parameter))

    def pointer(self, parameter: str) -> ir.Value:
        """The address in a table entry."""
        return self.load(PTR, self._table(), self._entry(parameter))


@dataclass(frozen=True)
class KernelCall:
    """A kernel with its arguments, in the order of `kernel.parameters`."""

    kernel: Kernel
    arguments: tuple[Argument, ...]

    def __post_init__(self) -> None:
        if len(self.arguments) != len(self.kernel.parameters):
            raise ValueError(f"{self.kernel.name}: {len(self.arguments)} arguments for {self.kernel.parameters}")


@dataclass(frozen=True)
class Overlap:
    """The output may lie over the input operand at position `input`, which nothing needs afterwards, where it is at
    least `distance` bytes ahead, and by a multiple of `multiple` bytes; with `scratch` the scratch memory, in place of
    the output. See `compiler.kernels.overlap`."""

    distance: int
    multiple: int = 1
    input: int = 0
    scratch: bool = False


@dataclass(frozen=True)
class Lowered:
    """How one operator runs: kernel calls in order, with the scratch bytes they need (16-byte aligned) and the
    multiply-accumulates they stand for. An alias has no call: each output is a part of an input's memory.

    `overlaps` tell how the only output and the scratch memory may lie over inputs; without they must be disjoint.
    `alternatives` do the same with other `instructions` (an estimate, 0 where nobody asks), constants or scratch.
    """

    calls: tuple[KernelCall, ...]
    scratch_bytes: int = 0
    macs: int = 0
    aliases: tuple[Place, ...] = ()
    instructions: int = 0
    alternatives: tuple[Lowered, ...] = ()
    overlaps: tuple[Overlap, ...] = ()

    @property
    def is_alias(self) -> bool:
        return not self.calls

    @cached_property
    def code(self) -> dict[str, int]:
        """The kernels' names and estimated bytes."""
        return {call.kernel.name: call.kernel.code_bytes for call in self.calls}

    @cached_property
    def constants(self) -> frozenset[Constant]:
        return frozenset(a for call in self.calls for a in call.arguments if isinstance(a, Constant))


INPUT, OUTPUT, SCRATCH = Place(Role.INPUT), Place(Role.OUTPUT), Place(Role.SCRATCH)
ALIAS = Lowered((), aliases=(INPUT,))
