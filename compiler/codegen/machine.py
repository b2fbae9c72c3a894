# SPDX-License-Identifier: Apache-2.0
"""LLVM code generation: IR text to an object file and its assembly, with the options of each kernel.

LLVM's hidden options are global to a process and some cannot be set back to their default, so each set of options
has worker processes of its own: what is generated never depends on what was compiled before.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any

from compiler.kernels.kernel import CompileOptions
from compiler.target import Target

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Unit:
    """One module to compile."""

    name: str
    ir: str
    options: CompileOptions


@dataclass(frozen=True)
class Generated:
    """What a unit became: a relocatable ELF object, and assembly text."""

    data: bytes
    assembly: str


def generate(units: Sequence[Unit], target: Target) -> list[Generated]:
    """Compiles units in parallel; results are in the order of the units.

    Raises RuntimeError with LLVM's message where a unit is invalid (a fault of this compiler, not of the model).
    """
    with ThreadPoolExecutor(max(1, min(len(units), os.cpu_count() or 1))) as pool:
        return list(pool.map(lambda unit: _on_worker(unit, target), units))


def _on_worker(unit: Unit, target: Target) -> Generated:
    worker = _borrow(unit.options.flags)
    _send(worker.stdin, (unit, target))
    answer = _receive(worker.stdout)
    if answer is None:
        worker.wait()
        raise RuntimeError(f"LLVM's code generator stopped while compiling {unit.name}")
    with _lock:
        _idle.setdefault(unit.options.flags, []).append(worker)
    if isinstance(answer, str):
        raise RuntimeError(f"LLVM refuses {unit.name}: {answer}")
    return Generated(*answer)


_idle: dict[tuple[str, ...], list[subprocess.Popen[bytes]]] = {}
_all: list[subprocess.Popen[bytes]] = []
_lock = Lock()


def _borrow(flags: tuple[str, ...]) -> subprocess.Popen[bytes]:
    with _lock:
        if _idle.get(flags):
            return _idle[flags].pop()
    # Until the worker has taken charge of it, Ctrl-C is kept from it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        worker = subprocess.Popen(
            [sys.executable, "-m", "compiler.codegen.machine", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with _lock:
        _all.append(worker)
    return worker


@atexit.register
def _stop_workers() -> None:
    for worker in _all:
        if worker.stdin:
            worker.stdin.close()
        worker.wait()


def _send(stream: IO[bytes] | None, message: Any) -> None:
    assert stream is not None
    payload = pickle.dumps(message)
    stream.write(struct.pack("<I", len(payload)) + payload)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    head = stream.read(4)
    return pickle.loads(stream.read(struct.unpack("<I", head)[0])) if len(head) == 4 else None


def _compile(unit: Unit, target: Target) -> tuple[bytes, str]:
    from llvmlite import binding as llvm

    module = llvm.parse_assembly(unit.ir)
    module.verify()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=unit.options.opt_level,
        reloc="static",
        codemodel="large" if target.is_host else "small",
        abiname=target.abi,
    )
    if unit.options.optimize:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module)), str(machine.emit_assembly(module))


def _serve(flags: Sequence[str]) -> None:
    from llvmlite import binding as llvm

    # Ctrl-C reaches the whole group, and the parent tells of it: a worker dies in silence.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    # Loops stay loops: LLVM would call memset and memcpy, of which the objects are to be free.
    for flag in ("-disable-loop-idiom-all", *flags):
        llvm.set_option("tinykiln", flag)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (request := _receive(requests)) is not None:
        try:
            _send(answers, _compile(*request))
        except RuntimeError as error:
            _send(answers, str(error))


if __name__ == "__main__":
    # Units are pickled under this module's importable name, not as members of __main__.
    from compiler.codegen import machine

    machine._serve(sys.argv[1:])
