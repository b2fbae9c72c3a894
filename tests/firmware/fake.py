# SPDX-License-Identifier: Apache-2.0
"""A model written by hand in C and wrapped as the compiler would: out = sum of a row of inputs, halved and clamped."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boards.board import Board
from compiler.artifact import ArenaTensor, CompiledModel, DispatchInfo, ObjectFile, Port, TestVector
from compiler.graph import DType
from compiler.selftest import generate_inputs

ROWS, COLUMNS = 4, 8
ARENA_BYTES = 64

SOURCE = """
#include <stdint.h>
#define HIDDEN __attribute__((noinline))
uint8_t fake_arena[ARENA] __attribute__((section(".bss.fake_arena"), aligned(16)));
volatile uint32_t fake_dispatch;
const int8_t fake_weights[32] __attribute__((section(".rodata.fake_weights"), aligned(16))) = {WEIGHTS};
int8_t *fake_input_0(void) { return (int8_t *)fake_arena; }
const int8_t *fake_output_0(void) { return (const int8_t *)(fake_arena + 32); }
static HIDDEN int32_t row(const int8_t *x, const int8_t *w)
{
    volatile int32_t sum = 0;
    for (int i = 0; i < 8; i++) sum += x[i] * w[i];
    return sum;
}
BEFORE
void fake_invoke(void)
{
    fake_dispatch = 1;
    for (int r = 0; r < 4; r++) {
        int32_t v = row(fake_input_0() + 8 * r, fake_weights + 8 * r) >> 5;
        fake_arena[32 + r] = (uint8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
    }
    fake_dispatch = 2;
    BODY
    fake_dispatch = 0;
}
EXTRA
"""

WEIGHTS = np.array([(7 * i * i + 3 * i) % 23 - 11 for i in range(ROWS * COLUMNS)], np.int8)


def expected(image: NDArray[np.int8]) -> NDArray[np.int8]:
    """int8 [1, 4, 8] to int8 [1, 4]."""
    sums = (image.astype(np.int32).reshape(ROWS, COLUMNS) * WEIGHTS.reshape(ROWS, COLUMNS)).sum(axis=1)
    clamped: NDArray[np.int8] = np.clip(sums >> 5, -128, 127).astype(np.int8)
    return clamped.reshape(1, ROWS)


def input_port() -> Port:
    return Port("fake_input_0", "image", DType.INT8, (1, ROWS, COLUMNS), 32, 0, (0.5,), (3,))


def output_port() -> Port:
    return Port("fake_output_0", "scores", DType.INT8, (1, ROWS), ROWS, 32, (0.00390625,), (-128,))


def compile_c(board: Board, source: str, folder: Path, flags: tuple[str, ...] = ()) -> bytes:
    """C to an object for the board's core."""
    (folder / "fake.c").write_text(source)
    command = [board.core.gcc, *board.core.gcc_flags, "-O2", "-ffreestanding", "-ffunction-sections", "-fdata-sections"]
    subprocess.run([*command, *flags, "-c", "fake.c", "-o", "fake.o"], cwd=folder, check=True)
    return (folder / "fake.o").read_bytes()


def fake_model(
    board: Board,
    folder: Path,
    *,
    body: str = "",
    extra: str = "",
    before: str = "",
    arena: int = ARENA_BYTES,
    vectors: tuple[TestVector, ...] | None = None,
    flags: tuple[str, ...] = (),
    overwrites: bool = False,
) -> CompiledModel:
    """The model compiled for `board`. `body` is C that runs in its second dispatch, `before` and `extra` go
    around the function."""
    source = SOURCE.replace("WEIGHTS", ", ".join(map(str, WEIGHTS))).replace("ARENA", str(arena))
    data = compile_c(
        board, source.replace("BODY", body).replace("EXTRA", extra).replace("BEFORE", before), folder, flags
    )
    if vectors is None:
        vectors = tuple(
            TestVector(seed, (expected(generate_inputs([input_port()], seed)[0]).tobytes(),)) for seed in (1, 2, 77)
        )
    tensors: tuple[ArenaTensor, ...] = (ArenaTensor("image", 0, 32, 0, 1), ArenaTensor("scores", 32, ROWS, 0, 1))
    if overwrites:
        tensors += (ArenaTensor("scratch", 0, 16, 1, 1),)
    dispatch = DispatchInfo(0, (0,), "FULLY_CONNECTED", "scores", "rows", 32, 32, 0, ("image",), ("scores",))
    return CompiledModel(
        name="fake",
        prefix="fake",
        sha256="0" * 64,
        target_core=board.core.name,
        inputs=(input_port(),),
        outputs=(output_port(),),
        inputs_kept=not overwrites,
        stateful=False,
        arena_bytes=arena,
        arena_lower_bound=36,
        arena_tensors=tensors,
        constants_bytes=32,
        dispatches=(dispatch, replace(dispatch, index=1, op="SOFTMAX")),
        objects=(ObjectFile("fake_model", data, "; none\n", "@ none\n"),),
        vectors=vectors,
    )
