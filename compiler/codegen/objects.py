# SPDX-License-Identifier: Apache-2.0
"""A planned schedule becomes object files: one for each kernel, and one with tables, constants and `invoke`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from compiler.artifact import ObjectFile
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
    units = [_kernel_unit(kernels[name], target) for name in sorted(kernels)]
    units.append(_main_unit(program, target))
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


def _kernel_unit(kernel: Kernel, target: Target) -> Unit:
    module = _new_module(kernel.name, target)
    f = KernelFunction(module, kernel, target.pointer_bytes)
    kernel.build(f)
    f.return_void()
    f.function.section = f".text.{kernel.name}"
    return Unit(kernel.name, str(module), kernel.options)


def _main_unit(program: Program, target: Target) -> Unit:
    module = _new_module(program.prefix, target)
    arena = ir.GlobalVariable(module, ir.ArrayType(I8, program.arena_bytes), f"{program.prefix}_arena")
    arena.initializer = ir.Constant(arena.value_type, None)
    arena.section, arena.align = f".bss.{program.prefix}_arena", 16
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
        f.builder.ret(tables.address(accessor.address))
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


class _Tables:
    """Parameter tables and constants of the main object, each stored once. Each entry of a table has the size of an
    address; integers are i32 values in its lower bytes."""

    def __init__(self, module: ir.Module, prefix: str, arena: ir.GlobalVariable, entry_bytes: int) -> None:
        self.module, self.prefix, self.arena, self.entry_bytes = module, prefix, arena, entry_bytes
        self.constants: dict[Constant, ir.GlobalVariable] = {}
        self.tables: dict[tuple[int | ArenaAddress | Constant, ...], ir.GlobalVariable] = {}

    def address(self, address: ArenaAddress) -> ir.Value:
        return ir.FormattedConstant(PTR, f"getelementptr (i8, ptr {self.arena.get_reference()}, i32 {address.offset})")

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
            return self.address(argument)
        if isinstance(argument, Constant):
            return self.constant(argument)
        return ir.Constant(ir.IntType(8 * self.entry_bytes), (argument + (1 << 31)) % (1 << 32) - (1 << 31))

    def _global(self, name: str, initializer: ir.Constant, align: int) -> ir.GlobalVariable:
        variable = ir.GlobalVariable(self.module, initializer.type, name)
        variable.initializer, variable.align = initializer, align
        variable.global_constant, variable.linkage = True, "internal"
        variable.section = f".rodata.{name}"
        return variable
