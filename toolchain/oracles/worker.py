# SPDX-License-Identifier: Apache-2.0
"""Runs models by other runtimes, with the Python that has them installed. Imports nothing of this project.

    PYTHON worker.py list            a line for each kernel set there is: name, then what to call it
    PYTHON worker.py NAME FOLDER     runs FOLDER/<stem>.tflite on the rows in <stem>.npz (in0, in1, ...)

writes <stem>.out.npz (out0, out1, ...), or <stem>.error where the runtime refuses the model. Rows are consecutive runs
after a reset. Models that have one of both already are left alone: a runtime may abort on a model, and is then started
again.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ARENA_BYTES = 64 << 20
PACKAGES = {"tflm": "tflite-micro", "litert": "ai-edge-litert", "xnnpack": "ai-edge-litert"}
TITLES = {
    "tflm": "TFLite Micro's reference kernels",
    "litert": "LiteRT's reference kernels",
    "xnnpack": "LiteRT's desktop default (XNNPACK)",
}


def run_tflm(model: bytes, inputs: list[Any]) -> list[Any]:
    """Outputs [rows, ...] by TFLite Micro. Raises whatever the package raises."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model, arena_size=ARENA_BYTES)
    found: list[list[Any]] = []
    for row in range(len(inputs[0])):
        for number, array in enumerate(inputs):
            interpreter.set_input(array[row], number)
        interpreter.invoke()
        if not found:
            found = [[] for _ in range(_outputs(model))]
        for number, outputs in enumerate(found):
            outputs.append(np.array(interpreter.get_output(number)))
    return [np.stack(outputs) for outputs in found]


def _outputs(model: bytes) -> int:
    """The number of outputs of a model's first subgraph: fields 2 of Model and 2 of SubGraph in schema.fbs."""
    root = _u32(model, 0)
    subgraphs = _field(model, root, 2)
    subgraph = subgraphs + 4 + _u32(model, subgraphs + 4)
    return _u32(model, _field(model, subgraph, 2))


def _field(model: bytes, table: int, number: int) -> int:
    """Where field `number` of a table points to."""
    vtable = table - int.from_bytes(model[table : table + 4], "little", signed=True)
    at = table + int.from_bytes(model[vtable + 4 + 2 * number : vtable + 6 + 2 * number], "little")
    return at + _u32(model, at)


def _u32(model: bytes, at: int) -> int:
    return int.from_bytes(model[at : at + 4], "little")


def run_litert(model: bytes, inputs: list[Any], reference: bool) -> list[Any]:
    """Outputs [rows, ...] by LiteRT. Raises whatever the package raises."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    found: list[list[Any]] = [[] for _ in interpreter.get_output_details()]
    for row in range(len(inputs[0])):
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array[row])
        interpreter.invoke()
        for outputs, detail in zip(found, interpreter.get_output_details(), strict=True):
            outputs.append(interpreter.get_tensor(detail["index"]))
    return [np.stack(outputs) for outputs in found]


def run(kernels: str, model: bytes, inputs: list[Any]) -> list[Any]:
    return run_tflm(model, inputs) if kernels == "tflm" else run_litert(model, inputs, kernels == "litert")


def serve(kernels: str, folder: Path) -> None:
    """Runs the models of a folder that have no answer yet."""
    for path in sorted(folder.glob("*.tflite")):
        answer, error = path.with_suffix(".out.npz"), path.with_suffix(".error")
        if answer.exists() or error.exists():
            continue
        with np.load(path.with_suffix(".npz")) as file:
            inputs = [file[f"in{number}"] for number in range(len(file.files))]
        try:
            outputs = run(kernels, path.read_bytes(), inputs)
        except Exception as refusal:
            error.write_text(str(refusal).strip() or type(refusal).__name__)
        else:
            # Whole or absent: a worker may be killed while it writes.
            unfinished = answer.with_suffix(".part.npz")
            np.savez(unfinished, **{f"out{number}": array for number, array in enumerate(outputs)})
            unfinished.replace(answer)


def installed() -> list[str]:
    """A line for each kernel set whose package is there."""
    lines = []
    for kernels, package in PACKAGES.items():
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{kernels} {TITLES[kernels]}, {package} {metadata.version(package)}")
    return lines


if __name__ == "__main__":
    if sys.argv[1] == "list":
        sys.stdout.writelines(f"{line}\n" for line in installed())
    else:
        serve(sys.argv[1], Path(sys.argv[2]))
