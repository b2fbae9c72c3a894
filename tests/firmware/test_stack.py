# SPDX-License-Identifier: Apache-2.0
"""The stack's bound against what really happens: libgcc's helpers, large and realigned frames, deep calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.anchors import BOARDS as CORES
from bench.anchors import MODELS
from bench.stacks import stacks
from boards.loader import board_names, load_board
from qemu.stack import StackRegion
from tests.firmware.emulated import booted
from tests.firmware.fake import fake_model
from tests.support import ROOT, shared_dir
from toolchain.firmware import build_firmware
from toolchain.options import FirmwareOptions

BOARDS = ("qemu_m0", "qemu_m3", "qemu_m4f", "qemu_m7", "qemu_m55", "qemu_rv32ec", "qemu_rv32imac", "qemu_rv32imafc")

HELPERS = """
static volatile double d = 3.5, e = -1.25; static volatile float f = 2.0f;
static volatile int64_t n = 1000000007, m = 17;
HIDDEN void helpers(void)
{
    d = d * e + d / e - (double)f; f = (float)d / f * 3.0f + f; n = n / m + n % m; n = (int64_t)d; d = (double)n;
    m = (int64_t)((uint64_t)n / (uint64_t)(m | 1)) + 1; if (d > e && f < 1e30f) e = e + 1.0; n = (uint32_t)f;
    f = (float)(uint32_t)n; d = (double)(uint64_t)m; n <<= (m & 31); m >>= (n & 31); m = 17;
}
"""

FRAMES = """
extern void touch(volatile uint8_t *p, uint32_t n);
HIDDEN void touch(volatile uint8_t *p, uint32_t n) { for (uint32_t i = 0; i < n; i++) p[i] = (uint8_t)i; }
HIDDEN void small(void) { volatile uint8_t room[40]; touch(room, sizeof room); }
HIDDEN void large(void) { volatile uint8_t room[5000]; touch(room, sizeof room); small(); }
HIDDEN void aligned(void)
{
    volatile uint8_t room[96] __attribute__((aligned(64)));
    touch(room, sizeof room);
    small();
}
HIDDEN void fixed(void) { volatile uint8_t *room = __builtin_alloca(200); touch(room, 200); large(); }
HIDDEN void many(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
    volatile uint8_t room[16];
    touch(room, (uint32_t)(a + b + c + d + e + f + g + h + i) & 15);
}
"""


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize(
    ("before", "body", "least"),
    ((HELPERS, "helpers(); helpers();", 40), (FRAMES, "aligned(); fixed(); many(1, 2, 3, 4, 5, 6, 7, 8, 9);", 5200)),
    ids=("helpers", "frames"),
)
def test_painted_stack_stays_within_the_bound(tmp_path: Path, name: str, before: str, body: str, least: int) -> None:
    board = load_board(name)
    flags = ("-O1", "-fno-inline")
    model = fake_model(board, tmp_path, before=before, body=body, flags=flags)
    result = build_firmware(board, model, tmp_path, FirmwareOptions())
    with booted(board, result.runs) as (console, emulation):
        assert console.self_test().failure is None
        used = StackRegion.of(result.runs).high_water(emulation)
    assert least <= used <= result.stack.program
    assert result.stack.program + result.stack.handlers <= 1.25 * used


@pytest.mark.parametrize(
    ("name", "model"),
    (
        ("qemu_m0", "mnist_int8"),
        ("qemu_m3", "mnist_nano_int8"),
        ("stm32vldiscovery", "mnist_nano_int8"),
        ("qemu_m4f", "mnist_float"),
        ("qemu_m33", "mnist_nano_int8"),
        ("qemu_m55", "mnist_int8"),
        ("qemu_rv32imac", "mnist_nano_float"),
        ("ch32v003", "mnist_nano_int8"),
    ),
)
def test_the_bound_of_real_models_is_close(name: str, model: str) -> None:
    """With a fault where the stack is deepest, what is written to is four fifths of the bound at least."""
    (stack,) = stacks([load_board(name)], [ROOT / "models" / f"{model}.tflite"])
    assert stack.depth.with_fault <= stack.bound <= 1.25 * stack.depth.with_fault


@pytest.mark.sweep
@pytest.mark.parametrize("name", board_names())
def test_the_bounds_of_all_boards_are_close(name: str) -> None:
    measured = list(stacks([load_board(name)], sorted((ROOT / "models").glob("*.tflite"))))
    assert measured and [stack for stack in measured if not stack.is_tight] == []


@pytest.mark.sweep
@pytest.mark.parametrize("core", sorted(CORES))
def test_the_bounds_of_large_networks_are_close(core: str) -> None:
    folder = shared_dir("zoo/models")
    measured = list(stacks([load_board(CORES[core])], [folder / f"{MODELS[name]}.tflite" for name in sorted(MODELS)]))
    assert measured and [stack for stack in measured if not stack.is_tight] == []
