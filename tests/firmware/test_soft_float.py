# SPDX-License-Identifier: Apache-2.0
"""Float networks on cores without a float unit: no float instruction, no library but libgcc, and the right numbers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_model
from compiler.model import Model
from tests.firmware.emulated import booted
from tests.support import ROOT, shared_dir
from toolchain.elf.archive import pulled_members
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions
from toolchain.target import target_of

FLOAT = re.compile(r"^\s*[0-9a-f]+:\t[0-9a-f ]+\t(v[a-z]|f(?!ence)[a-z])", re.MULTILINE)
"""objdump's lines of Arm's and RISC-V's float instructions."""


@pytest.mark.parametrize("name", ("qemu_m0", "qemu_m3", "qemu_rv32imac"))
@pytest.mark.parametrize("network", ("mnist_float", "mlperf_kws_dscnn_float"))
def test_floats_without_a_float_unit(tmp_path: Path, name: str, network: str) -> None:
    folder = ROOT / "models" if network.startswith("mnist") else shared_dir("zoo/models")
    board, file = load_board(name), folder / f"{network}.tflite"
    model = compile_model(Model(file.name, file.read_bytes()), target_of(board.core))
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    objdump = board.core.gcc.replace("-gcc", "-objdump")
    listing = subprocess.run([objdump, "-d", result.elf], capture_output=True, text=True, check=True).stdout
    assert len(listing.splitlines()) > 1000 and FLOAT.findall(listing) == []
    libraries = pulled_members((tmp_path / "firmware.map").read_text(encoding="utf-8"))
    assert [path.name for path in libraries] == ["libgcc.a"]
    with booted(board, result.runs) as (console, _):
        assert console.self_test().failure is None


def test_the_pattern_finds_float_instructions(tmp_path: Path) -> None:
    for name, instruction in (("qemu_m4f", "vadd.f32 s0, s0, s1"), ("qemu_rv32imafc", "fadd.s fa0, fa0, fa1")):
        core = load_board(name).core
        (tmp_path / "one.s").write_text(f"{instruction}\nnop\n")
        subprocess.run([core.gcc, *core.gcc_flags, "-c", "one.s"], cwd=tmp_path, check=True)
        objdump = core.gcc.replace("-gcc", "-objdump")
        listing = subprocess.run(
            [objdump, "-d", "one.o"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        assert FLOAT.findall(listing) == [instruction[:2]]
