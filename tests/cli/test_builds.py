# SPDX-License-Identifier: Apache-2.0
"""What is built again and what is not, the same bytes everywhere, the cache, and what the options print."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from boards.loader import load_board
from tests.cli.checkout import Checkout, files
from tests.support import shared_dir
from tests.tflite_files import FileOperator, FileTensor, tflite_file
from toolchain.products import products

GOOD = ("board=ch32v", "model=mnist_nano_int8")
BUILT = ("ch32v307", "mnist_nano_int8")


def test_a_second_run_builds_nothing(checkout: Checkout) -> None:
    first = checkout.run(*GOOD)
    assert first.code == 0, first.error
    assert first.built
    before = files(checkout.folder(*BUILT))
    again = checkout.run(*GOOD)
    assert again.code == 0
    assert "up to date" in again.out
    assert files(checkout.folder(*BUILT)) == before


def test_the_products_are_all_that_is_left(checkout: Checkout) -> None:
    assert checkout.run(*GOOD).code == 0
    wanted = products(load_board("ch32v"), "mnist_nano_int8")
    assert sorted(files(checkout.folder(*BUILT))) == sorted(wanted)


def test_what_a_run_measures_stays_and_builds_nothing(fresh: Checkout) -> None:
    assert fresh.run(*GOOD).code == 0
    folder = fresh.folder(*BUILT)
    built = json.loads((folder / "report.json").read_text())
    assert built["stack"]["measured"] is None
    ran = fresh.run(*GOOD, "run")
    assert ran.code == 0, ran.error
    assert not ran.built
    assert "PASS" in ran.out
    measured = json.loads((folder / "report.json").read_text())
    assert 0 < measured["stack"]["measured"] <= measured["stack"]["bound"]
    measured["stack"]["measured"] = None
    assert measured == built
    assert "measured" in (folder / "report.html").read_text()
    assert not fresh.run(*GOOD).built


@pytest.mark.parametrize(
    "source", ["compiler/arena.py", "firmware_templates/console.c.j2", "boards/chips/ch32v307.toml"]
)
def test_an_edited_source_builds_again(checkout: Checkout, source: str) -> None:
    assert checkout.run(*GOOD).code == 0
    with (checkout.root / source).open("a") as file:
        file.write("# edited\n" if not source.endswith(".j2") else "/* edited */\n")
    assert checkout.run(*GOOD).built
    assert not checkout.run(*GOOD).built


def test_options_and_edited_models_build_again(checkout: Checkout) -> None:
    model = checkout.model("edited.tflite", (checkout.root / "models" / "mnist_nano_int8.tflite").read_bytes())
    assert checkout.run(GOOD[0], model).built
    assert checkout.run(GOOD[0], model, "console=none").built
    assert not checkout.run(GOOD[0], model, "console=none").built
    checkout.model("edited.tflite", (checkout.root / "models" / "mnist_int8.tflite").read_bytes())
    assert checkout.run(GOOD[0], model, "console=none").built


@pytest.mark.parametrize("board", ["ch32v", "pico"])
def test_two_folders_give_the_same_bytes(tmp_path: Path, board: str) -> None:
    found = []
    for name in ("one", "another folder, with a longer name"):
        made = Checkout(tmp_path / name)
        done = made.run(f"board={board}", "model=mnist_int8")
        assert done.code == 0, done.error
        found.append(files(made.root / "build"))
    assert {"firmware.elf", "firmware.bin", "firmware.hex", "emulator.elf", "report.json", "report.html"} <= {
        Path(name).name for name in found[0]
    }
    assert sorted(found[0]) == sorted(found[1])
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []


def test_the_cache_gives_another_checkout_everything(tmp_path: Path) -> None:
    cache = f"cache={tmp_path / 'kept builds'}"
    one, two = Checkout(tmp_path / "one"), Checkout(tmp_path / "two")
    assert one.run(*GOOD, cache).built
    found = two.run(*GOOD, cache, "run")
    assert found.code == 0, found.error
    assert not found.built
    assert "PASS" in found.out
    assert one.run(*GOOD, "run").code == 0
    assert files(one.folder(*BUILT)) == files(two.folder(*BUILT))


def test_cleaning_leaves_nothing_of_the_model(checkout: Checkout) -> None:
    assert checkout.run(*GOOD).code == 0
    assert checkout.run("-c", *GOOD).code == 0
    assert not checkout.folder(*BUILT).exists()
    assert checkout.run(*GOOD).built
    assert checkout.run("-c").code == 0
    assert not (checkout.root / "build").exists() and not (checkout.root / ".sconsign").exists()


def test_quiet_prints_the_sizes_alone(fresh: Checkout) -> None:
    found = fresh.run("-Q", *GOOD)
    assert found.code == 0
    assert [line.split()[0] for line in found.out.splitlines()] == ["flash", "code", "RAM", "arena"]


@pytest.mark.parametrize("name", ["stdint", "test", "a\"b\\c'd $x %s ??="])
def test_any_name_of_a_model(checkout: Checkout, name: str) -> None:
    model = checkout.model(f"{name}.tflite", (checkout.root / "models" / "mnist_nano_int8.tflite").read_bytes())
    found = checkout.run("board=qemu_m3", model, "run")
    assert found.code == 0, found.error
    assert "PASS" in found.out


def test_names_of_models_that_begin_alike_share_an_image(checkout: Checkout) -> None:
    data = (checkout.root / "models" / "mnist_nano_int8.tflite").read_bytes()
    names = ("kws", "kws_v2", "kws_table", "kws_input", "kws_constant_0")
    paths = [checkout.model(f"{name}.tflite", data).removeprefix("model=") for name in names]
    found = checkout.run("board=qemu_m3", f"model={','.join(paths)}", "console=none")
    assert found.code == 0, found.error


def wide_layers() -> bytes:
    """A convolution to 64 channels and a pool: 20,736 bytes between them, 324 of input and 5,184 of output."""
    weights = np.random.default_rng(1).integers(-127, 128, (64, 1, 1, 1)).astype(np.int8)
    tensors = [
        FileTensor("x", (1, 18, 18, 1), scale=0.5),
        FileTensor("w", weights.shape, scale=0.01, data=weights),
        FileTensor("wide", (1, 18, 18, 64), scale=0.5),
        FileTensor("y", (1, 9, 9, 64), scale=0.5),
    ]
    step = {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    pool = {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    operators = [
        FileOperator("CONV_2D", (0, 1), (2,), "Conv2DOptions", step),
        FileOperator("MAX_POOL_2D", (2,), (3,), "Pool2DOptions", pool),
    ]
    return tflite_file(tensors, operators, (0,), (3,))


def test_layers_are_joined_where_the_memory_is_short(checkout: Checkout) -> None:
    arguments = (checkout.model("wide.tflite", wide_layers()), "optimize=size", "run")
    roomy, short = (checkout.run(f"board={board}", *arguments) for board in ("qemu_m0", "nucleo_f072"))
    for found in (roomy, short):
        assert found.code == 0, found.error
        assert "PASS" in found.out
    assert "bytes too many: a smaller arena" in short.out
    assert "bytes too many" not in roomy.out
    arenas = [
        json.loads((checkout.folder(board, "wide") / "report.json").read_text())["arena"]["bytes"]
        for board in ("qemu_m0", "nucleo_f072")
    ]
    assert arenas[0] > 18 * 18 * 64
    assert arenas[1] < 16 * 1024


def test_arena_of_a_given_size(checkout: Checkout) -> None:
    arguments = ("board=qemu_m0", checkout.model("wide.tflite", wide_layers()), "optimize=size", "run")
    found = checkout.run(*arguments, "arena_bytes=9K")
    assert found.code == 0, found.error
    assert "PASS" in found.out
    report = json.loads((checkout.folder("qemu_m0", "wide") / "report.json").read_text())
    assert 9 * 9 * 64 <= report["arena"]["bytes"] <= 9 * 1024
    checkout.run(*arguments, "arena_bytes=5184").refused("larger than arena_bytes=", "allowed: 5184 bytes")
    checkout.run(*arguments, "arena_bytes=9KB").refused("arena_bytes= is no number of bytes", "got: 9KB")


def test_two_at_once_make_one_build(fresh: Checkout) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: fresh.run(*GOOD, "run"), range(2)))
    assert [found.code for found in both] == [0, 0], both
    assert sorted(found.built for found in both) == [False, True]
    assert sum("waiting for another one" in found.error for found in both) == 1


def test_builds_of_two_boards_at_once_keep_both_records(fresh: Checkout) -> None:
    boards = ("ch32v", "qemu_m3")
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda board: fresh.run(f"board={board}", "model=mnist_nano_int8"), boards))
    assert [found.code for found in both] == [0, 0], both
    for board in boards:
        again = fresh.run(f"board={board}", "model=mnist_nano_int8")
        assert again.code == 0 and not again.built, again.out + again.error


def test_a_damaged_record_builds_again(fresh: Checkout) -> None:
    assert fresh.run(*GOOD).code == 0
    (record,) = (fresh.root / ".sconsign").rglob("*.dblite")
    record.write_bytes(b"no record")
    found = fresh.run(*GOOD)
    assert found.code == 0 and found.built
    assert found.error == ""


def test_an_interrupt_is_told_once_and_the_next_run_builds(fresh: Checkout) -> None:
    slow = ("board=ch32v", "model=mnist_int8")  # its kernels take LLVM longer than the wait below
    command = [sys.executable, "-P", "-m", "SCons", *slow]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=fresh.root, stdout=pipe, stderr=pipe, text=True, bufsize=1, start_new_session=True
    ) as process:
        assert process.stdout and process.stderr
        for line in process.stdout:
            if "LLVM, one object" in line:
                break
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
        told = process.stderr.read()
        assert process.wait(60) != 0
    assert "Traceback" not in told
    assert "interrupted" in told
    assert fresh.left() == []
    assert fresh.run(*slow).built


def test_output_of_ascii_alone(checkout: Checkout) -> None:
    assert checkout.run(*GOOD).code == 0
    found = checkout.run("-Q", *GOOD, "size", environment={"PYTHONIOENCODING": "ascii"})
    assert found.code == 0, found.error
    assert found.out.isascii() and "#---" in found.out
    model = checkout.model(
        "\N{GREEK SMALL LETTER PI}.tflite", (checkout.root / "models/mnist_nano_int8.tflite").read_bytes()
    )
    found = checkout.run(GOOD[0], model, environment={"PYTHONIOENCODING": "ascii"})
    assert found.code == 0 and "?.tflite for ch32v307" in found.out, found.error


def test_verbose_prints_every_command(fresh: Checkout) -> None:
    found = fresh.run("verbose=1", *GOOD, "run")
    assert found.code == 0, found.error
    lines = found.out.splitlines()
    for tool, what in (
        ("riscv64-unknown-elf-gcc ", "-c firmware.c -o firmware.o"),
        ("riscv64-unknown-elf-gcc ", "-T firmware.ld"),
        ("riscv64-unknown-elf-gcc ", "-o emulator.elf"),
        ("riscv64-unknown-elf-ar ", "libmnist_nano_int8.a"),
        ("riscv64-unknown-elf-objdump ", "emulator.elf"),
        ("qemu-system-riscv32 ", "-machine virt"),
    ):
        assert [line for line in lines if tool in line and what in line], f"no {tool}with {what} in\n{found.out}"


def test_a_cold_build_and_none_are_quick(fresh: Checkout) -> None:
    """Seconds of the processor, which other work on the machine does not stretch; the limits are those of 2 cores."""

    def seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert fresh.run(*arguments).code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    model = shared_dir("zoo") / "models" / "mlperf_kws_dscnn_int8.tflite"
    assert seconds("board=qemu_m4f", f"model={model}") < 10
    assert seconds("board=qemu_m4f", f"model={model}") < 2


def test_report_compares_two_builds(fresh: Checkout) -> None:
    assert fresh.run(*GOOD).code == 0
    other = fresh.folder(*BUILT) / "report.json"
    found = fresh.run("-Q", "board=netduinoplus2", "model=mnist_int8", f"compare={other}", "report")
    assert found.code == 0, found.error
    assert "against mnist_nano_int8.tflite on ch32v307" in found.out
    page = (fresh.folder("netduinoplus2", "mnist_int8") / "report.html").read_text()
    assert "Against mnist_nano_int8.tflite on ch32v307" in page
    fresh.run(*GOOD, "compare=nowhere.json", "report").refused("the compare file is not there")
    fresh.run(*GOOD, "compare=models/README.md", "report").refused("this is not a report")


def two_images() -> bytes:
    """The largest values of an image of 35,360 bytes and of one of 6,760: more than a bank of an STM32F303CC holds."""
    tensors = [
        FileTensor("large", (1, 26, 34, 40), scale=0.5),
        FileTensor("small", (1, 13, 13, 40), scale=0.5),
        *(FileTensor(name, (1, 1, 1, 40), scale=0.5) for name in ("most of large", "most of small", "y")),
    ]
    pool = {"Padding": 1, "StrideH": 1, "StrideW": 1}
    operators = [
        FileOperator("MAX_POOL_2D", (0,), (2,), "Pool2DOptions", pool | {"FilterHeight": 26, "FilterWidth": 34}),
        FileOperator("MAX_POOL_2D", (1,), (3,), "Pool2DOptions", pool | {"FilterHeight": 13, "FilterWidth": 13}),
        FileOperator("ADD", (2, 3), (4,), "AddOptions", {}),
    ]
    return tflite_file(tensors, operators, (0, 1), (4,))


def test_an_arena_that_no_bank_holds_is_spread(checkout: Checkout) -> None:
    arguments = ("board=blackpill_f303", checkout.model("two.tflite", two_images()))
    found = checkout.run(*arguments, "run")
    assert found.code == 0, found.error
    assert "an arena over 2 banks" in found.out and "PASS" in found.out
    report = json.loads((checkout.folder("blackpill_f303", "two") / "report.json").read_text())
    assert report["banks"]["arena"] == "CCM + RAM" and report["arena"]["bytes"] > 40 * 1024
    checkout.run(*arguments, "arena=RAM").refused("does not fit", "too many in RAM")
