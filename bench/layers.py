# SPDX-License-Identifier: Apache-2.0
"""Instructions per multiply-accumulate of single layers on a core: `python -m bench.layers CORE [PATTERN]`.

Each layer is compiled, run under QEMU on one input, compared with the reference bit by bit and counted exactly.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.layer_set import CMSIS_NN, Layer, layers
from compiler import numerics
from compiler.graph import DType
from compiler.isa import Isa
from compiler.kernels.kernel import Constant, Lowered
from compiler.kernels.problems import Conv2D, DepthwiseConv2D, FullyConnected
from qemu.profile import plugin_options, read_counts
from qemu.symbols import Symbols
from tests import harness


@dataclass(frozen=True)
class Measurement:
    """One layer's figures; sizes in bytes. `kernels` are the names of the kernels that ran."""

    instructions: int
    macs: int
    code: int
    constants: int
    scratch: int
    kernels: tuple[str, ...]

    @property
    def per_mac(self) -> float:
        return self.instructions / self.macs


def measure(core: str, layer: Layer, folder: Path) -> Measurement:
    """Compiles, runs and counts a layer. AssertionError where its output is not the reference's."""
    lowered = lower(harness.isa_of(core), layer)
    shape_in, shape_out = shapes(layer)
    x = np.random.default_rng(5).integers(-128, 128, shape_in).astype(np.int8)
    model = harness.layer_model(core, lowered, [x], [(DType.INT8, shape_out)])
    image = harness.build(model, [[x]], folder)
    options = plugin_options(image.elf, model.prefix, 1, folder / "counts")
    subprocess.run([*image.command, "-plugin", str(options.plugin)], cwd=folder, check=True, timeout=120)
    found = np.frombuffer((folder / "outputs.bin").read_bytes(), np.int8).reshape(shape_out)
    np.testing.assert_array_equal(found, _reference(layer, x))
    kernels = tuple(sorted({call.kernel.name for call in lowered.calls}))
    symbols = Symbols(image.elf)
    return Measurement(
        read_counts(folder / "counts", 1)[0].total,
        layer.macs,
        sum(symbols[name].size for name in kernels),
        _constant_bytes(lowered),
        lowered.scratch_bytes,
        kernels,
    )


def lower(isa: Isa, layer: Layer) -> Lowered:
    """What an instruction set makes of a layer."""
    if isinstance(layer, Conv2D):
        return isa.conv_2d(layer)
    return isa.depthwise_conv_2d(layer) if isinstance(layer, DepthwiseConv2D) else isa.fully_connected(layer)


def shapes(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of its input and output."""
    if isinstance(layer, FullyConnected):
        outputs, depth = layer.weights.shape
        return (layer.batches, depth), (layer.batches, outputs)
    w = layer.window
    return (w.input_height, w.input_width, w.input_channels), (w.output_height, w.output_width, w.output_channels)


def _reference(layer: Layer, x: NDArray[np.int8]) -> NDArray[np.int64]:
    if isinstance(layer, Conv2D):
        return numerics.conv_2d(layer, x)
    if isinstance(layer, DepthwiseConv2D):
        return numerics.depthwise_conv_2d(layer, x)
    return numerics.fully_connected(layer, x)


def _constant_bytes(lowered: Lowered) -> int:
    constants = {a for call in lowered.calls for a in call.arguments if isinstance(a, Constant)}
    return sum(len(constant.data) for constant in constants)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.layers", description=__doc__)
    parser.add_argument("core", choices=sorted(harness.core_boards()))
    parser.add_argument("pattern", nargs="?", default="", help="only layers whose name contains this")
    chosen = parser.parse_args(arguments)
    peer = CMSIS_NN.get({"cortex-m4f": "cortex-m4", "rv32imafc": "rv32imac"}.get(chosen.core, chosen.core), {})
    print(f"{'layer':28} {'instr':>10} {'/MAC':>7} {'CMSIS-NN':>8} {'code':>6} {'const':>7} {'scratch':>7}  kernel")
    for name, layer in layers().items():
        if chosen.pattern not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="tinykiln-bench-") as folder:
            m = measure(chosen.core, layer, Path(folder))
        anchor = f"{peer[name]:8.3f}" if name in peer else " " * 8
        print(
            f"{name:28} {m.instructions:10} {m.per_mac:7.3f} {anchor} {m.code:6} {m.constants:7} {m.scratch:7}  "
            f"{' '.join(m.kernels)}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
