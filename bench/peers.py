# SPDX-License-Identifier: Apache-2.0
"""Other compilers of the same models, where they are installed (requirements-peers.lock), on Cortex-M4.

BakeNN reads .tflite files and writes C that calls CMSIS-NN, compiled with -O3 and counted by the same plugin. IREE's
compiler from PyPI does not read .tflite; its importer is another package, which needs TensorFlow.
"""

from __future__ import annotations

import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import tflite

from boards.loader import load_board
from compiler.artifact import CompiledModel, ObjectFile, Port
from compiler.graph import DType
from qemu.profile import plugin_options, read_counts
from tests.programs import Entry, build_program

BOARD = "qemu_m4"
GLUE = """#include <stddef.h>
#include <stdint.h>
#include "bknn_peer.h"
volatile uint32_t peer_dispatch;
uint8_t peer_arena[16] __attribute__((section(".bss.peer_arena")));
static uint8_t arena[BKNN_PEER_ARENA_SIZE] __attribute__((aligned(BKNN_PEER_ARENA_ALIGNMENT)));
static int8_t in[BKNN_PEER_INPUT_BYTES], out[BKNN_PEER_OUTPUT_BYTES];
int8_t *peer_input_0(void) { return in; }
int8_t *peer_output_0(void) { return out; }
void peer_invoke(void) { peer_dispatch = 1; bknn_peer_infer(arena, in, out); peer_dispatch = 0; }
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t n) {
    for (char *t = to; n--;) *t++ = *(const char *)from++;
    return to;
}
__attribute__((weak)) void *memset(void *to, int value, size_t n) {
    for (char *t = to; n--;) *t++ = (char)value;
    return to;
}
"""
SIGNATURE = 18
"""The place of `shape_signature` in the table of a Tensor (TFLite's schema)."""
IREE = "does not read .tflite: its importer (iree-tools-tflite) needs TensorFlow"


def measured(path: Path, folder: Path) -> dict[str, int | str]:
    """By peer: instructions of one inference, or why there is no figure. Peers that are not installed are left out."""
    found: dict[str, int | str] = {}
    if find_spec("bakenn") is not None:
        found["BakeNN"] = _bakenn(path, folder)
    if find_spec("iree") is not None:
        found["IREE"] = IREE
    return found


def _bakenn(path: Path, folder: Path) -> int | str:
    import bakenn
    from bakenn.backend.portable_c.selection import CBackendOptions, KernelPolicy
    from bakenn.targets import CORTEX_M4

    cmsis = CBackendOptions(kernel_policy=KernelPolicy.STATIC_PRIORITY, enable_cmsis_nn=True, target=CORTEX_M4)
    try:
        bakenn.compile_tflite(_fixed_batch(path.read_bytes()), folder, name="peer", backend_options=cmsis)
    except bakenn.errors.CompileError as error:
        return f"refuses the model: {error}"
    board = load_board(BOARD)
    (folder / "glue.peer.c").write_text(GLUE)
    flags = [*board.core.gcc_flags, "-O3", "-ffreestanding", "-ffunction-sections", "-DBAKENN_CMSIS_NN_BUILTIN_MEMORY"]
    flags += [f"-I{include}" for include in (".", "third_party/cmsis_nn/Include", "third_party/cmsis_core/Include")]
    objects = []
    for source in sorted(folder.rglob("*.c")):
        subprocess.run([board.core.gcc, *flags, "-c", str(source), "-o", f"{source.stem}.o"], cwd=folder, check=True)
        objects.append(ObjectFile(source.stem, (folder / f"{source.stem}.o").read_bytes(), "", ""))
    sizes = _sizes(path)
    ports = [
        Port(f"peer_{kind}_0", kind, DType.INT8, (size,), size, 0, (), ())
        for kind, size in zip(("input", "output"), sizes, strict=True)
    ]
    model = CompiledModel(
        "peer", "peer", "", board.core.name, (ports[0],), (ports[1],), True, False, 16, 0, (), 0, (), tuple(objects), ()
    )
    image = build_program([Entry(model, [[np.zeros(sizes[0], np.int8)]])], folder)
    options = plugin_options(image.elf, "peer", 1, folder / "counts")
    subprocess.run([*image.command, "-plugin", str(options.plugin)], cwd=folder, check=True, timeout=600)
    return read_counts(folder / "counts", 1)[0].total


def _fixed_batch(data: bytes) -> bytes:
    """The model with 1 for each unknown dimension of its tensors' signatures, as the shapes have it."""
    changed = bytearray(data)
    for tensor in _tensors(data):
        at = tensor._tab.Offset(SIGNATURE)
        for i in range(tensor.ShapeSignatureLength()):
            if tensor.ShapeSignature(i) < 0:
                struct.pack_into("<i", changed, tensor._tab.Vector(at) + 4 * i, 1)
    return bytes(changed)


def _tensors(data: bytes) -> list[tflite.Tensor]:
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    return [graph.Tensors(i) for i in range(graph.TensorsLength())]


def _sizes(path: Path) -> tuple[int, int]:
    """Bytes of the only input and output of an int8 model."""
    data = path.read_bytes()
    graph, tensors = tflite.Model.GetRootAs(data, 0).Subgraphs(0), _tensors(data)
    shapes = (tensors[index].ShapeAsNumpy() for index in (graph.Inputs(0), graph.Outputs(0)))
    size_in, size_out = (int(np.prod(shape)) for shape in shapes)
    return size_in, size_out
