# SPDX-License-Identifier: Apache-2.0
"""Models on the building machine: the process that runs them outlives their faults; the targets that make sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.codegen.host import host_target
from compiler.compile import compile_model
from compiler.errors import CheckFailed, UserError
from compiler.model import Model
from tests.harness import run
from tests.support import ROOT
from toolchain.commands import HOST_COMMANDS
from toolchain.host import HostProcess
from toolchain.host_worker import Job
from toolchain.request import HOST_TARGETS, HostRequest, check_target
from toolchain.serial_link import Link

FAULTY = """
target triple = "{triple}"
@m_arena = global [16 x i8] zeroinitializer
define void @m_invoke() {{
  store i8 1, ptr getelementptr (i8, ptr @m_arena, i64 1)
  {fault}
  ret void
}}
"""


def job(body: str) -> Job:
    from llvmlite import binding as llvm

    triple = host_target().triple
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="static", codemodel="large")
    data = machine.emit_object(llvm.parse_assembly(FAULTY.format(triple=triple, fault=body)))
    return Job("m", (bytes(data),), 16, ((0, 1),), ((0, 2),), False, (b"\x07",))


def test_a_fault_ends_only_the_process_that_runs_it() -> None:
    with HostProcess() as process:
        assert process.run(job("")) == [b"\x07\x01"]
        with pytest.raises(CheckFailed, match=r"m stopped on this machine: SIG(ILL|TRAP)"):
            process.run(job("call void @llvm.trap()"))
        assert process.run(job("")) == [b"\x07\x01"]


def test_memory_is_not_empty_before_the_first_run() -> None:
    with HostProcess() as process:
        place = Job("m", job("").objects, 16, ((0, 1),), ((2, 2),), False, (b"\x00",))
        assert process.run(place) == [b"\xa5\xa5"]


@pytest.mark.parametrize("name", ["mnist_int8", "mnist_int16x8", "mnist_float"])
def test_shipped_models_give_the_golden_outputs(name: str, tmp_path: Path) -> None:
    golden = np.load(ROOT / "models" / f"{name}.npz")
    compiled = compile_model(Model(f"{name}.tflite", (ROOT / "models" / f"{name}.tflite").read_bytes()), host_target())
    shape = compiled.inputs[0].shape
    found = run(compiled, [[x.reshape(shape)] for x in golden["in0"]], tmp_path)
    for (output,), want in zip(found, golden["out0"], strict=True):
        np.testing.assert_allclose(output, want.reshape(output.shape), atol=1e-5 if output.dtype.kind == "f" else 0)


def test_targets_of_a_board_are_refused_by_name() -> None:
    request = HostRequest(Path("m.tflite"), Path("build/host/m"), None, None, None, (), False, True, Link())
    for name in HOST_TARGETS:
        check_target(request, name)
    assert set(HOST_COMMANDS) == set(HOST_TARGETS)
    with pytest.raises(UserError, match="the building machine is no board: it has no 'run'"):
        check_target(request, "run")
