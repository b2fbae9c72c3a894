# SPDX-License-Identifier: Apache-2.0
"""A second hand-written model: two inputs, float and int16 outputs, and a state that counts its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.board import Board
from compiler.artifact import ArenaTensor, CompiledModel, DispatchInfo, ObjectFile, Port, TestVector
from compiler.graph import DType
from compiler.selftest import generate_inputs
from tests.firmware.fake import compile_c

SOURCE = """
#include <stdint.h>
uint8_t state_arena[64] __attribute__((section(".bss.state_arena"), aligned(16)));
volatile uint32_t state_dispatch;
static int16_t runs;
int16_t *state_input_0(void) { return (int16_t *)state_arena; }
float *state_input_1(void) { return (float *)(state_arena + 16); }
const float *state_output_0(void) { return (const float *)(state_arena + 32); }
const int16_t *state_output_1(void) { return (const int16_t *)(state_arena + 48); }
void state_invoke(void)
{
    state_dispatch = 1;
    float *out = (float *)(state_arena + 32);
    int16_t *counted = (int16_t *)(state_arena + 48);
    runs++;
    for (int i = 0; i < 3; i++) out[i] = state_input_1()[i] * (float)state_input_0()[i];
    for (int i = 0; i < 3; i++) counted[i] = (int16_t)(state_input_0()[i] / 2 + runs);
    state_dispatch = 0;
}
void state_reset(void) { runs = 0; }
"""


def ports() -> tuple[tuple[Port, Port], tuple[Port, Port]]:
    inputs = (
        Port("state_input_0", "a", DType.INT16, (3,), 6, 0, (0.25,), (0,)),
        Port("state_input_1", "b/x:0", DType.FLOAT32, (1, 3), 12, 16, (), ()),
    )
    outputs = (
        Port("state_output_0", "product", DType.FLOAT32, (3,), 12, 32, (), ()),
        Port("state_output_1", "count", DType.INT16, (3,), 6, 48, (1 / 32768,), (0,)),
    )
    return inputs, outputs


def expected(a: NDArray[Any], b: NDArray[Any], runs: int) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """The outputs of run number `runs` (the first is 1)."""
    halves = (np.abs(a.astype(np.int32)) // 2) * np.sign(a.astype(np.int32)) + runs
    return (b.ravel() * a.astype(np.float32)).astype(np.float32), halves.astype(np.int16)


def state_model(board: Board, folder: Path, spoil: float = 0.0) -> CompiledModel:
    """The model with two vectors, consecutive steps; `spoil` is added to the last vector's float outputs."""
    inputs, outputs = ports()
    vectors = []
    for run, seed in enumerate((5, 6), start=1):
        a, b = generate_inputs(inputs, seed)
        product, counted = expected(a, b, run)
        product = product + np.float32(spoil if run == 2 else 0)
        vectors.append(TestVector(seed, (product.astype("<f4").tobytes(), counted.tobytes())))
    tensors = tuple(ArenaTensor(port.name, port.offset, port.bytes, 0, 0) for port in (*inputs, *outputs))
    dispatch = DispatchInfo(0, (0,), "MUL", "product", "mul", 3, 0, 0, ("a", "b"), ("product",))
    data = compile_c(board, SOURCE, folder)
    return CompiledModel(
        name="state", prefix="state", sha256="1" * 64, target_core=board.core.name, inputs=inputs, outputs=outputs,
        inputs_kept=True, stateful=True, arena_bytes=64, arena_lower_bound=54, arena_tensors=tensors,
        constants_bytes=0, dispatches=(dispatch,), objects=(ObjectFile("state_model", data, "; none\n", "@ none\n"),),
        vectors=tuple(vectors),
    )  # fmt: skip
