# SPDX-License-Identifier: Apache-2.0
"""What the compiler hands to the toolchain: object files and everything that is known about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.graph import DType


@dataclass(frozen=True)
class Port:
    """An input or output of the model.

    `symbol` is the C function that returns its address (<prefix>_input_0); `name` is what users bind by.
    `offset` is in bytes from the start of the arena. `scales`/`zero_points` are empty for unquantised tensors.
    """

    symbol: str
    name: str
    dtype: DType
    shape: tuple[int, ...]
    bytes: int
    offset: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


@dataclass(frozen=True)
class DispatchInfo:
    """One step of the schedule. `operators` are the model's operator indices that it computes."""

    index: int
    operators: tuple[int, ...]
    op: str
    name: str
    kernel: str
    macs: int
    constants_bytes: int
    scratch_bytes: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class ArenaTensor:
    """A buffer's place in the arena: bytes, and the first and last dispatch that need it."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ArenaPart:
    """What lies in one bank: the symbol, the offset in the arena at which it begins, and bytes."""

    symbol: str
    offset: int
    bytes: int


def arena_parts(prefix: str, size: int, walls: Sequence[int]) -> tuple[ArenaPart, ...]:
    """The parts of an arena of `size` bytes in which the next bank begins at each of the `walls`. They may be empty."""
    starts, ends = (0, *walls), (*walls, size)
    return tuple(
        ArenaPart(f"{prefix}_arena{f'_{number}' if number else ''}", start, end - start)
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def part_of(parts: Sequence[ArenaPart], offset: int) -> ArenaPart:
    """The part that holds the byte at an offset in the arena."""
    return next(part for part in reversed(parts) if part.offset <= offset)


@dataclass(frozen=True)
class TestVector:
    """A self-test: inputs are drawn from `seed` by the generator of `compiler.selftest` (the console has the same
    one in C); `outputs` are the bytes that the NumPy reference computes, one entry an output."""

    seed: int
    outputs: tuple[bytes, ...]


@dataclass(frozen=True)
class ObjectFile:
    """A relocatable ELF object with its LLVM IR and assembly for reading."""

    name: str
    data: bytes
    ir: str
    assembly: str


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model. C names start with `prefix`; the objects define

    - `void <prefix>_invoke(void)` and, for stateful models, `void <prefix>_reset(void)`;
    - `T *<prefix>_input_<n>(void)` and `const T *<prefix>_output_<n>(void)`;
    - `<prefix>_arena` (zero-initialised, 16-byte aligned, in section `.bss.<prefix>_arena`), and `<prefix>_arena_1`
      and so on where it lies in several banks;
    - `volatile uint32_t <prefix>_dispatch`: 1 + the index of the dispatch that runs, 0 when idle.

    Constants are in sections `.rodata.<prefix>*`, aligned to 16 bytes. The objects reference nothing but libgcc's
    arithmetic helpers.
    """

    name: str
    prefix: str
    sha256: str
    target_core: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    inputs_kept: bool
    """Whether inputs survive `invoke`; else their memory is reused and they must be written before each run."""
    stateful: bool
    arena_bytes: int
    arena_lower_bound: int
    arena_tensors: tuple[ArenaTensor, ...]
    constants_bytes: int
    dispatches: tuple[DispatchInfo, ...]
    objects: tuple[ObjectFile, ...]
    vectors: tuple[TestVector, ...]
    notes: tuple[str, ...] = ()
    arena_walls: tuple[int, ...] = ()
    """Where in the arena the next bank begins; none: it lies in one."""

    @property
    def arena_parts(self) -> tuple[ArenaPart, ...]:
        return arena_parts(self.prefix, self.arena_bytes, self.arena_walls)

    def place(self, port: Port) -> tuple[str, int, int]:
        """Where a port is: the symbol of a part of the arena, the bytes behind it, and its own bytes."""
        part = part_of(self.arena_parts, port.offset)
        return part.symbol, port.offset - part.offset, port.bytes

    @property
    def kernels(self) -> tuple[str, ...]:
        """The functions that `invoke` calls, each in an object of its name and with its table's address."""
        return tuple(part.name for part in self.objects if part.name != self.prefix)
