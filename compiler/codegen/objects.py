# SPDX-License-Identifier: Apache-2.0
"""A planned schedule becomes object files: one for each kernel, and one with tables, constants and `invoke`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from compiler.artifact import ArenaPart, ObjectFile, arena_parts, part_of
from compiler.codegen.builder import I8, I32, PTR, Function
from compiler.codegen.host import host_layout
from compiler.codegen.machine import Unit, generate
from compiler.kernels.kernel import CompileOptions, Constant, Kernel, KernelFunction
from compiler.target import Target

_LAYOUTS = {
    "thumb": "e-m:e-p:32:32-Fi8-i64:64-v128:64:128-a:0:32-n32-S64",
    "riscv32": "e-m:e-p:32:32-i64:64-n32-S128",
}
_LAYOUT_RV32E = "e-m:e-p:32:32-i64:64-n32-S32"


@dataclass(frozen=True)
class ArenaAddress:
    """A byte of the arena."""

    offset: int


@dataclass(frozen=True)
class BoundCall:
    """A kernel call whose places are addresses."""

    kernel: Kernel
    arguments: tuple[int | ArenaAddress | Constant, ...]


@dataclass(frozen=True)
class Accessor:
    """A C function that returns the address of an input or output."""

    symbol: str
    address: ArenaAddress


@dataclass(frozen=True)
class Program:
    """Everything the main object needs: `steps` holds the calls of each dispatch, `reset` those that give variables
    their first values; None where there are none."""

    prefix: str
    arena_bytes: int
    steps: tuple[tuple[BoundCall, ...], ...]
    accessors: tuple[Accessor, ...]
    reset: tuple[BoundCall, ...] | None = None
    arena_walls: tuple[int, ...] = ()
    """Where in the arena the next bank of memory begins."""

    @property
    def calls(self) -> tuple[BoundCall, ...]:
        """All calls, those of `reset` last."""
        return (*(call for step in self.steps for call in step), *(self.reset or ()))


def generate_objects(program: Program, target: Target) -> tuple[ObjectFile, ...]:
    """Compiles a program. Kernels come first, in name order, then the main object `<prefix>`."""
    kernels: dict[str, Kernel] = {}
    for call in program.calls:
        known = kernels.setdefault(call.kernel.name, call.kernel)
        if known != call.kernel:
            raise ValueError(f"two kernels are named {call.kernel.name}: {known} and {call.kernel}")
    built = {name: _built(kernels[name], target) for name in sorted(kernels)}
    units = [_kernel_unit(f) for f in built.values()]
    units.append(_main_unit(_trimmed(program, built), target))
    compiled = generate(units, target)
    return tuple(
        ObjectFile(unit.name, done.data, unit.ir, done.assembly) for unit, done in zip(units, compiled, strict=True)
    )


def constants_of(calls: Sequence[BoundCall]) -> list[Constant]:
    """The distinct constants of calls, largest alignment first, then in order of use."""
    seen = {arg: None for call in calls for arg in call.arguments if isinstance(arg, Constant)}
    return sorted(seen, key=lambda constant: -constant.align)


def _new_module(name: str, target: Target) -> ir.Module:
    module = ir.Module(name)
    module.triple = target.triple
    module.data_layout = host_layout() if target.is_host else _layout(target)
    return module


def _layout(target: Target) -> str:
    return _LAYOUT_RV32E if target.abi == "ilp32e" else _LAYOUTS["thumb" if target.is_arm else "riscv32"]


def _built(kernel: Kernel, target: Target) -> KernelFunction:
    module = _new_module(kernel.name, target)
    f = KernelFunction(module, kernel, target.pointer_bytes)
    kernel.build(f)
    f.return_void()
    f.function.section = f".text.{kernel.name}"
    return f


def _kernel_unit(f: KernelFunction) -> Unit:
    return Unit(f.kernel.name, str(f.module), f.kernel.options)


def _trimmed(program: Program, built: Mapping[str, KernelFunction]) -> Program:
    """With the arguments that kernels read, in the order of their tables."""

    def trimmed(calls: tuple[BoundCall, ...]) -> tuple[BoundCall, ...]:
        return tuple(replace(call, arguments=_read(call, built[call.kernel.name])) for call in calls)

    reset = None if program.reset is None else trimmed(program.reset)
    return replace(program, steps=tuple(trimmed(step) for step in program.steps), reset=reset)


def _read(call: BoundCall, f: KernelFunction) -> tuple[int | ArenaAddress | Constant, ...]:
    arguments = dict(zip(call.kernel.parameters, call.arguments, strict=True))
    return tuple(arguments[name] for name in f.read)


def kernel_digest(kernel: Kernel, target: Target) -> str:
    """A digest of what LLVM is given for a kernel."""
    unit = _kernel_unit(_built(kernel, target))
    return hashlib.sha256(f"{unit.options}\n{unit.ir}".encode()).hexdigest()[:16]


def _main_unit(program: Program, target: Target) -> Unit:
    module = _new_module(program.prefix, target)
    arena = _Arena(module, arena_parts(program.prefix, program.arena_bytes, program.arena_walls))
    running = ir.GlobalVariable(module, I32, f"{program.prefix}_dispatch")
    running.initializer, running.align = ir.Constant(I32, 0), 4
    running.section = f".bss.{program.prefix}_dispatch"

    tables = _Tables(module, program.prefix, arena, target.pointer_bytes)
    for constant in constants_of(program.calls):
        tables.constant(constant)
    ready = _reset(module, program, tables)
    invoke = Function(module, f"{program.prefix}_invoke")
    invoke.function.section = f".text.{program.prefix}_invoke"
    if ready is not None:
        reset = module.globals[f"{program.prefix}_reset"]
        # Start-up code need not know about variables, and may leave the arena as it is.
        invoke.branch(invoke.compare("==", invoke.load_i32(ready), 0), lambda: invoke.builder.call(reset, []))
    for index, step in enumerate(program.steps):
        invoke.store_volatile(invoke.const(index + 1), running)
        for call in step:
            tables.emit(invoke, call)
    invoke.store_volatile(invoke.const(0), running)
    invoke.return_void()
    for accessor in program.accessors:
        f = Function(module, accessor.symbol, result=PTR)
        f.function.section = f".text.{accessor.symbol}"
        f.builder.ret(arena.address(accessor.address))
    return Unit(program.prefix, str(module), CompileOptions())


def _reset(module: ir.Module, program: Program, tables: _Tables) -> ir.GlobalVariable | None:
    """`<prefix>_reset`, and the word that tells whether it ever ran; None for a model without variables."""
    if program.reset is None:
        return None
    ready = ir.GlobalVariable(module, I32, f"{program.prefix}_ready")
    ready.initializer, ready.align, ready.linkage = ir.Constant(I32, 0), 4, "internal"
    ready.section = f".bss.{program.prefix}_ready"
    reset = Function(module, f"{program.prefix}_reset")
    reset.function.section = f".text.{program.prefix}_reset"
    for call in program.reset:
        tables.emit(reset, call)
    reset.store(reset.const(1), ready)
    reset.return_void()
    return ready


class _Arena:
    """The arena's memory, one variable a part."""

    def __init__(self, module: ir.Module, parts: Sequence[ArenaPart]) -> None:
        self._parts = {part: _arena_variable(module, part) for part in parts}

    def address(self, address: ArenaAddress) -> ir.Value:
        part = part_of(list(self._parts), address.offset)
        start, offset = self._parts[part].get_reference(), address.offset - part.offset
        return ir.FormattedConstant(PTR, f"getelementptr (i8, ptr {start}, i32 {offset})")


def _arena_variable(module: ir.Module, part: ArenaPart) -> ir.GlobalVariable:
    variable = ir.GlobalVariable(module, ir.ArrayType(I8, part.bytes), part.symbol)
    variable.initializer = ir.Constant(variable.value_type, None)
    variable.section, variable.align = f".bss.{part.symbol}", 16
    return variable


class _Tables:
    """Parameter tables and constants of the main object, each stored once. Each entry of a table has the size of an
    address; integers are i32 values in its lower bytes."""

    def __init__(self, module: ir.Module, prefix: str, arena: _Arena, entry_bytes: int) -> None:
        self.module, self.prefix, self.arena, self.entry_bytes = module, prefix, arena, entry_bytes
        self.constants: dict[Constant, ir.GlobalVariable] = {}
        self.tables: dict[tuple[int | ArenaAddress | Constant, ...], ir.GlobalVariable] = {}

    def constant(self, constant: Constant) -> ir.GlobalVariable:
        if constant not in self.constants:
            data = ir.Constant(ir.ArrayType(I8, len(constant.data)), bytearray(constant.data))
            # Every constant starts on 16 bytes: vector loads never straddle, and the image check is one rule.
            self.constants[constant] = self._global(f"{self.prefix}_constant_{len(self.constants)}", data, 16)
        return self.constants[constant]

    def table(self, call: BoundCall) -> ir.GlobalVariable:
        if call.arguments not in self.tables:
            words = [self._word(argument) for argument in call.arguments]
            self.tables[call.arguments] = self._global(
                f"{self.prefix}_table_{len(self.tables)}", ir.Constant.literal_struct(words), self.entry_bytes
            )
        return self.tables[call.arguments]

    def emit(self, f: Function, call: BoundCall) -> None:
        """The call of a kernel with its table."""
        f.builder.call(f.declare(call.kernel.name, [PTR]), [self.table(call)])

    def _word(self, argument: int | ArenaAddress | Constant) -> ir.Value:
        if isinstance(argument, ArenaAddress):
            return self.arena.address(argument)
        if isinstance(argument, Constant):
            return self.constant(argument)
        return ir.Constant(ir.IntType(8 * self.entry_bytes), (argument + (1 << 31)) % (1 << 32) - (1 << 31))

    def _global(self, name: str, initializer: ir.Constant, align: int) -> ir.GlobalVariable:
        variable = ir.GlobalVariable(self.module, initializer.type, name)
        variable.initializer, variable.align = initializer, align
        variable.global_constant, variable.linkage = True, "internal"
        variable.section = f".rodata.{name}"
        return variable
