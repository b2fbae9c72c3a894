# SPDX-License-Identifier: Apache-2.0
"""Each emulated machine boots and talks; limits and faults are told apart; memory is read and written."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from boards.board import Board
from boards.loader import board_names, load_board
from qemu.console import Console, DeviceError, SilentDevice, Timeouts
from qemu.machine import Emulation, EmulatorError, GuestLockup, TimeLimit
from qemu.plugin import PluginUnavailable
from qemu.profile import WINDOW, profile
from qemu.stack import StackRegion
from qemu.symbols import Symbols

Builder = Callable[[str], tuple[Board, Path]]
ONE_OF_EACH_SYSTEM = ("qemu_m3", "qemu_rv32imac")


def pid_of(emulation: Emulation) -> int:
    assert emulation._process is not None
    return emulation._process.pid


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


DRIVERS = ("cmsdk_uart", "ns16550", "nrf_uart", "stm32_usart_v1")
"""UARTs that the test firmware can drive; boards with others are booted with the product's firmware elsewhere."""
WITH_TEST_DRIVER = [name for name in board_names() if load_board(name).emulator.console.driver in DRIVERS]


@pytest.mark.parametrize("name", WITH_TEST_DRIVER)
def test_machine_boots_talks_counts_and_measures_stack(name: str, build: Builder) -> None:
    board, elf = build(name)
    stack = StackRegion.of(elf)
    rows = [bytes(range(256)), bytes(reversed(range(200)))]
    with Emulation(board.emulator, elf, 30) as emulation:
        stack.paint(emulation)
        emulation.resume()
        console = Console(emulation, WINDOW)
        assert console.wait_ready() == ["m-init-done"]
        assert console.name() == "test"
        assert list(console.run(rows)) == rows
        console.command("touch")
        assert stack.high_water(emulation) == 700
    counted = profile(board, elf, "model", 2, rows, 30)
    assert counted.exact and counted.spread == 0
    entry, first = (3, 200_008) if board.core.gcc.startswith("arm") else (4, 200_009)
    assert [(i.entry, i.dispatches) for i in counted.inferences] == [(entry, (first, 7))] * 2


def test_interrupts_strike_and_are_not_counted(build: Builder) -> None:
    board, elf = build("qemu_m3")
    with Emulation(board.emulator, elf, 30) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        for _ in range(50):
            console.infer()
        ticks = emulation.read_memory(Symbols(elf)["ticks"].address, 4)
    assert int.from_bytes(ticks, "little") > 10
    counted = profile(board, elf, "model", 2, [b"x"] * 50, 30)
    assert counted.spread == 0 and counted.total == 3 + 200_008 + 7


@pytest.mark.parametrize("name", ONE_OF_EACH_SYSTEM)
def test_every_byte_value_passes_unchanged(name: str, build: Builder) -> None:
    board, elf = build(name)
    with Emulation(board.emulator, elf, 30) as emulation:
        emulation.resume()
        Console(emulation).wait_ready()
        emulation.write(b"raw%" + bytes(range(256)))
        echoed = b""
        while len(echoed) < 256 + len(b"m-ready\r\n"):
            data = emulation.read(5)
            assert data
            echoed += data
        assert echoed == bytes(range(256)) + b"m-ready\r\n"


@pytest.mark.parametrize("name", ONE_OF_EACH_SYSTEM)
def test_output_that_nobody_has_read_yet_blocks_nothing(name: str, build: Builder) -> None:
    board, elf = build(name)
    with Emulation(board.emulator, elf, 30) as emulation:
        emulation.resume()
        console = Console(emulation, 40)
        console.wait_ready()
        console.load(bytes(512))
        emulation.write(b"out%" * 10)
        time.sleep(0.5)
        emulation.stop()
        emulation.resume()
        data = b""
        while data.count(b"m-ready") < 10:
            received = emulation.read(5)
            assert received
            data += received
        assert data.count(b"m-out-[" + b"00" * 32 + b"]\r\n") == 160


@pytest.mark.parametrize("name", ONE_OF_EACH_SYSTEM)
def test_time_limit_kills(name: str, build: Builder) -> None:
    board, elf = build(name)
    started = time.monotonic()
    with Emulation(board.emulator, elf, 1.0) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        pid = pid_of(emulation)
        with pytest.raises(TimeLimit, match="still running"):
            console.command("hang", 20)
    assert time.monotonic() - started < 10
    assert not alive(pid)


@pytest.mark.parametrize(
    ("name", "command", "faults"),
    [
        ("qemu_m0", "unaligned", True),
        ("qemu_m3", "unaligned", False),
        ("qemu_m0", "multiply", False),
        ("qemu_m4", "float", True),
        ("qemu_rv32ec", "multiply", True),
        ("qemu_rv32imac", "multiply", False),
        ("qemu_rv32imac", "float", True),
        ("qemu_rv32imafc", "float", False),
    ],
)
def test_machines_fault_on_what_their_core_lacks(name: str, command: str, faults: bool, build: Builder) -> None:
    board, elf = build(name)
    with Emulation(board.emulator, elf, 20) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        if faults:
            with pytest.raises(DeviceError, match=rf"faulted at '{command}': e-\[Fault\]"):
                console.command(command)
        else:
            assert console.command(command) == []


def test_lockup_is_detected(build: Builder) -> None:
    board, elf = build("qemu_m3")
    with Emulation(board.emulator, elf, 20) as emulation:
        emulation.resume()
        console = Console(emulation)
        console.wait_ready()
        with pytest.raises(GuestLockup, match="Lockup"):
            console.command("lockup")


def test_silence_is_told_from_an_error(build: Builder) -> None:
    board, elf = build("qemu_m3")
    with Emulation(board.emulator, elf, 20) as emulation:
        emulation.resume()
        console = Console(emulation, timeouts=Timeouts(line_s=0.5))
        console.wait_ready()
        with pytest.raises(DeviceError, match="Unknown command: nonsense"):
            console.command("nonsense")
        with pytest.raises(SilentDevice, match=r"no answer to 'hang' within 0.5 s"):
            console.command("hang")


def test_nothing_is_left_behind_after_an_exception(build: Builder) -> None:
    board, elf = build("qemu_m3")
    pids = []

    def fail() -> None:
        with Emulation(board.emulator, elf, 20) as emulation:
            pids.append(pid_of(emulation))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not alive(pids[0])


def test_an_elf_that_qemu_refuses(tmp_path: Path, build: Builder) -> None:
    board, _ = build("qemu_m3")
    broken = tmp_path / "missing.elf"
    with pytest.raises(EmulatorError, match=r"missing\.elf"), Emulation(board.emulator, broken, 20):
        pass


def no_compiler() -> Path:
    raise PluginUnavailable("the host has no C compiler")


@pytest.mark.parametrize("lacks", ["plugins", "compiler"])
def test_icount_gives_totals(lacks: str, build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, elf = build("qemu_m3")
    if lacks == "plugins":
        real = shutil.which(board.emulator.system)
        path = tmp_path / board.emulator.system
        path.write_text(
            f"#!/bin/sh\ncase $* in *-plugin*) echo -plugin: invalid option; exit 1;; esac\nexec {real} $*\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    else:
        monkeypatch.setattr("qemu.profile.build_plugin", no_compiler)
    counted = profile(board, elf, "model", 2, [b"x"], 20)
    assert not counted.exact and not counted.inferences
    assert {"plugins": "invalid option", "compiler": "no C compiler"}[lacks] in counted.note
    assert counted.total == 10 * 1000  # the test firmware's clock shows 10 us across its wrap
