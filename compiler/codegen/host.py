# SPDX-License-Identifier: Apache-2.0
"""The building machine as a target, and compiled code run on it in the calling process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from llvmlite import binding as llvm

from compiler.target import FloatUnit, Target


def host_target() -> Target:
    """The building machine without the extensions of its very processor: the same code, hence the same floats, on
    every machine of its kind."""
    return Target("host", "host", llvm.get_process_triple(), "", "", "", FloatUnit.DOUBLE)


@cache
def host_layout() -> str:
    """LLVM's data layout of the building machine."""
    return str(_machine().target_data)


class Loaded:
    """Objects linked into this process. A fault in their code ends the process: run them in one of their own."""

    def __init__(self, objects: Sequence[bytes]) -> None:
        """Raises RuntimeError where a symbol is missing."""
        empty = llvm.parse_assembly("")
        empty.triple = llvm.get_process_triple()
        self._engine = llvm.create_mcjit_compiler(empty, _machine())
        for data in objects:
            self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Where a function or variable is. Raises RuntimeError where there is none."""
        found = int(self._engine.get_function_address(symbol) or self._engine.get_global_value_address(symbol))
        if not found:
            raise RuntimeError(f"no symbol {symbol}")
        return found

    def call(self, symbol: str) -> None:
        """Calls `void symbol(void)`."""
        ctypes.CFUNCTYPE(None)(self.address(symbol))()


def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The parts of a program may lie anywhere: the large model reaches all.
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(reloc="static", codemodel="large", jit=True)
