# SPDX-License-Identifier: Apache-2.0
"""Words of the command line that are at fault, missing tools, and faults of our own: one message each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.checkout import Checkout

GOOD = ("board=qemu_m3", "model=mnist_nano_int8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), ("no board is given", "board=NAME")),
        (("board=ch32v",), ("no model is given", "mnist_int8.tflite")),
        (("board=ch32w", "model=mnist_int8"), ("there is no board 'ch32w'", "did you mean ch32v", "stm32vldiscovery")),
        (("board=avr", "model=mnist_int8"), ("there is no board 'avr'", "bluepill, ch32")),
        (("bord=ch32v", "model=mnist_int8"), ("there is no variable 'bord'", "did you mean board")),
        ((*GOOD, "runn"), ("there is no target 'runn'", "did you mean run", "verify")),
        ((*GOOD, "FIRMWARE"), ("there is no target 'FIRMWARE'", "did you mean firmware")),
        ((*GOOD, "model"), ("'model' is a variable", "model=VALUE")),
        ((*GOOD, "port=x"), ("port= is for another target", "got: firmware", "allowed: erase, flash")),
        ((*GOOD, "port=x", "baud=9600", "run"), ("baud= is for another target", "got: run", "erase, flash, upload")),
        (
            (*GOOD, "input=models/mnist_nano_int8.samples.npz", "run"),
            ("input= is for another target", "infer, profile"),
        ),
        (("board=ch32v", "output=x", "monitor"), ("output= is for another target", "infer, tune")),
        ((*GOOD, "upload"), ("not flashed over serial", "debug probe")),
        (("board=bluepill", "model=mnist_nano_int8", "upload"), ("no port is given", "port=", "socket://HOST:PORT")),
        ((*GOOD, "port=/dev/none,/dev/none", "flash"), ("a port is named twice",)),
        ((*GOOD, "port=x", "baud=fast", "flash"), ("not a rate", "baud=", "fast")),
        ((*GOOD, "port=x", "protocol=jtag", "flash"), ("no such protocol", "stm32, py32, wch")),
        (
            ("board=bluepill", "model=mnist_nano_int8", "protocol=uf2", "flash"),
            ("takes no image of this board", "rp2040"),
        ),
        (("board=bluepill", "port=x", "protocol=smp", "erase"), ("takes no image of this board", "own is stm32")),
        ((*GOOD, "port=x", "wiring=reset", "flash"), ("not a wiring", "reset:LINE")),
        (("board=host", "model=mnist_int8", "erase"), ("no serial boot loader",)),
        (("board=qemu_m4", "port=x", "erase"), ("not flashed over serial", "qemu_m4")),
        (("board=ch32v", "model=mnist_int9"), ("model=mnist_int9", "did you mean mnist_int8.tflite")),
        (("board=ch32v", "model=/nowhere/at/all.tflite"), ("the model file is not there", "model=/nowhere")),
        (("board=ch32v", "model=" + "x" * 300), ("File name too long",)),
        (
            ("board=ch32v", "model=" + ",".join(["mnist_nano_int8"] * 14)),
            ("names are too long", "got: 223 bytes", "200"),
        ),
        ((*GOOD, "arena=CCM"), ("no such RAM bank", "arena=", "RAM (4194304 bytes)")),
        ((*GOOD, "arena_bytes=1.5K"), ("arena_bytes= is no number of bytes", "1.5K", "24576, 24K")),
        ((*GOOD, "clock=max"), ("no such clock", "clock=", "reset (")),
        (("board=qemu_m3", "model=mnist_nano_int8,mnist_int8"), ("the console runs one model", "console=none")),
        (
            ("board=qemu_m3", "model=mnist_int8,models/mnist_int8.tflite", "console=none"),
            ("two models have the same C names", "mnist_int8_invoke"),
        ),
        ((*GOOD, "benchmark=ic01", "console=none"), ("runner talks to the console", "benchmark=ic01")),
        ((*GOOD, "app=qemu", "console=profile"), ("cycles are counted by the console",)),
        (("board=host", "model=mnist_int8,mnist_float"), ("the building machine runs one model, not 2",)),
        (
            ("board=host", "model=mnist_int8", "arena_bytes=2K", "weights=ram"),
            ("no choice of arena_bytes=2K, weights=ram",),
        ),
        (("board=host", "model=mnist_int8", "port=x", "infer"), ("no choice of port=x", "name a board")),
        ((*GOOD, "console=usart"), ("'console'", "'usart'", "'uart', 'compact', 'none'")),
        ((*GOOD, "verbose=maybe"), ("'verbose'", "'maybe'")),
        ((*GOOD, "input=none.npz", "infer"), ("the input file is not there", "none.npz")),
        ((*GOOD, "output=no/folder/out.npz", "infer"), ("the output file cannot be written", "no/folder")),
        ((*GOOD, "cache=models/README.md"), ("nothing can be kept in the cache folder", "is no folder")),
        ((*GOOD, "cache=models/README.md/below"), ("nothing can be kept in the cache folder", "is no folder")),
        ((*GOOD, "output=/dev/full", "infer"), ("the output file cannot be written", "is a device or a pipe")),
        ((*GOOD, "input=/dev/zero", "infer"), ("the input file cannot be read", "is a device or a pipe")),
        ((*GOOD, "output=models", "infer"), ("the output file cannot be written", "is a folder")),
    ],
)
def test_words_that_nobody_knows(checkout: Checkout, arguments: tuple[str, ...], told: tuple[str, ...]) -> None:
    before = checkout.left()
    checkout.run(*arguments).refused(*told)
    assert checkout.left() == before


def test_inputs_of_another_model(checkout: Checkout) -> None:
    found = checkout.run(*GOOD, "input=models/README.md", "infer")
    found.refused("the input file cannot be read", "README.md", ".npz or .npy")
    found = checkout.run(*GOOD, "infer")
    found.refused("no inputs are given", "input=FILE.npz")
    assert not found.built


def test_a_target_named_twice_runs_once(fresh: Checkout) -> None:
    found = fresh.run("-Q", *GOOD, "size", "size")
    assert found.code == 0, found.error
    once = fresh.run("-Q", *GOOD, "size")
    assert found.out.endswith(once.out) and found.out.count("constants") == 1 + once.out.count("constants")


def test_the_output_file_is_checked_before_a_long_run(checkout: Checkout) -> None:
    rows = "input=models/mnist_nano_int8.samples.npz"
    found = checkout.run(*GOOD, rows, "output=outputs.txt", "infer")
    found.refused("the output file must be .npz", "got: .txt")
    assert "rows of" not in found.out


@pytest.mark.parametrize("target", ["boards", "size", "infer"])
def test_what_cannot_be_printed_is_a_fault(checkout: Checkout, target: str) -> None:
    assert checkout.run(*GOOD).code == 0
    rows = ("input=models/mnist_nano_int8.samples.npz",) if target == "infer" else ()
    arguments = (*GOOD, *rows, target)
    full = checkout.run(*arguments, prefix=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
    full.refused("No space left on device: standard output")
    gone = checkout.run(*arguments, prefix=("sh", "-c", '"$@" | true', "sh"))
    assert "scons: ***" not in gone.error and "Traceback" not in gone.error


def path_without(folder: Path, *missing: str) -> dict[str, str]:
    """A PATH with everything that this one has, but some programs."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*") if place else ():
            (folder / program.name).unlink(missing_ok=True)
            if program.name not in missing:
                (folder / program.name).symlink_to(program)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("board", "tool", "package"),
    [
        ("qemu_m3", "arm-none-eabi-gcc", "gcc-arm-none-eabi"),
        ("ch32v", "riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
    ],
)
def test_without_the_cross_compiler(fresh: Checkout, tmp_path: Path, board: str, tool: str, package: str) -> None:
    environment = path_without(tmp_path / "bin", tool)
    found = fresh.run(f"board={board}", "model=mnist_nano_int8", environment=environment)
    found.refused(f"{tool} is not installed", f"apt-get install {package}")
    assert fresh.left() == []


def test_a_good_build_outlives_a_missing_compiler(fresh: Checkout, tmp_path: Path) -> None:
    assert fresh.run(*GOOD).code == 0
    before = fresh.left()
    found = fresh.run(*GOOD, "size", environment=path_without(tmp_path / "bin", "arm-none-eabi-gcc"))
    found.refused("arm-none-eabi-gcc is not installed")
    assert fresh.left() == before
    again = fresh.run(*GOOD)
    assert again.code == 0
    assert not again.built


def test_without_objdump(fresh: Checkout, tmp_path: Path) -> None:
    found = fresh.run(*GOOD, environment=path_without(tmp_path / "bin", "arm-none-eabi-objdump"))
    found.refused("arm-none-eabi-objdump is not installed", "apt-get install")
    assert fresh.left() == []


@pytest.mark.parametrize("target", ["run", "profile", "verify"])
def test_without_the_emulator(checkout: Checkout, tmp_path: Path, target: str) -> None:
    found = checkout.run(*GOOD, target, environment=path_without(tmp_path / "bin", "qemu-system-arm"))
    found.refused("qemu-system-arm is not installed", "apt-get install qemu-system-arm")


def test_a_fault_of_ours_is_one_line(fresh: Checkout) -> None:
    with (fresh.root / "toolchain" / "commands" / "firmware.py").open("a") as source:
        source.write("\n\ndef build_firmware(*_: object) -> None:\n    [][0]\n")
    found = fresh.run(*GOOD)
    found.failed("internal fault in 'firmware' (IndexError)", "build/internal-error.log")
    assert len(found.error.strip().splitlines()) == 1
    assert "build_firmware" in (fresh.root / "build" / "internal-error.log").read_text()
    assert fresh.left() == []


def test_a_command_that_cannot_be_loaded_is_one_line(fresh: Checkout) -> None:
    (fresh.root / "toolchain" / "commands" / "listing.py").write_text("import a_module_that_is_not_there\n")
    found = fresh.run("boards")
    found.failed("internal fault in 'boards' (ModuleNotFoundError)")
    assert len(found.error.strip().splitlines()) == 1


def test_a_fault_before_any_target_is_one_line(fresh: Checkout) -> None:
    with (fresh.root / "boards" / "loader.py").open("a") as source:
        source.write("\n\ndef load_board(*_: object) -> None:\n    {}[1]\n")
    found = fresh.run("board=bluepill", "model=mnist_nano_int8")
    found.failed("internal fault in 'command line' (KeyError)")


def test_damaged_board_data(fresh: Checkout) -> None:
    (fresh.root / "boards" / "cores.toml").write_text("not [ toml")
    fresh.run("board=bluepill", "model=mnist_nano_int8").refused("boards/cores.toml")


def test_a_fault_that_cannot_be_recorded_is_one_message_still(fresh: Checkout) -> None:
    (fresh.root / "build" / "internal-error.log").mkdir(parents=True)
    with (fresh.root / "boards" / "loader.py").open("a") as source:
        source.write("\n\ndef load_board(*_: object) -> None:\n    {}[1]\n")
    fresh.run(*GOOD).failed("internal fault", "internal-error.log cannot be written")


@pytest.mark.parametrize("place", ["build", "build/qemu_m3", "build/qemu_m3/mnist_nano_int8"])
def test_a_file_where_a_folder_goes(fresh: Checkout, place: str) -> None:
    (fresh.root / place).parent.mkdir(parents=True, exist_ok=True)
    (fresh.root / place).write_text("no folder")
    fresh.run(*GOOD).refused("a file is where the build's folder goes", str(fresh.root / place))
    assert (fresh.root / place).read_text() == "no folder"


# A file system of 16 pages: all of them used, or two left, so that Python takes it for a good place.
FULL = 'mount -t tmpfs -o size=64k none "$0" && head -c {used} /dev/zero >"$0/full" && TMPDIR="$0" exec "$@"'


def with_full_folder(folder: Path, used: int) -> tuple[str, ...]:
    """What runs a command with TMPDIR full. Skips where this user may not mount."""
    folder.mkdir()
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", FULL.format(used=used), str(folder))
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system of its own")
    return prefix


def test_a_full_folder_of_temporary_files_does_not_matter_to_a_build(fresh: Checkout, tmp_path: Path) -> None:
    found = fresh.run(*GOOD, "verify", prefix=with_full_folder(tmp_path / "full", 65536))
    assert found.code == 0, found.error


def test_no_room_for_temporary_files(fresh: Checkout, tmp_path: Path) -> None:
    found = fresh.run(*GOOD, "verify", prefix=with_full_folder(tmp_path / "full", 14 * 4096))
    found.refused("No space left on device: verify", str(tmp_path / "full"), "TMPDIR")
