# SPDX-License-Identifier: Apache-2.0
"""Rows of inputs and outputs in NumPy files: `in0`, `in1`, ... with one row an inference; `out0`, ... likewise."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import UserError

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorForm:
    """How a port's bytes are to be read."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True)
class Samples:
    """Rows for a model: `inputs[i]` and `outputs[o]` have one row an inference (outputs: empty where not in the file);
    `labels` are the right classes where known."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    labels: Array | None

    def __len__(self) -> int:
        return len(self.inputs[0])

    def rows(self) -> Iterator[bytes]:
        """Each row's inputs as the device reads them, one after another."""
        for row in range(len(self)):
            yield b"".join(np.ascontiguousarray(array[row]).tobytes() for array in self.inputs)


def read_samples(path: Path, inputs: Sequence[TensorForm], outputs: Sequence[TensorForm]) -> Samples:
    """Reads an .npz (or, for models with one input, an .npy) file. Expected outputs are TFLite Micro's (`tflm_outN`)
    where the file has them, else `outN`. UserError where the file or its shapes or types do not fit the model."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            "the input file cannot be read", where=str(path), got=str(error), allowed=".npz or .npy"
        ) from error
    arrays: dict[str, Array] = {"in0": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    found = tuple(_rows(arrays, f"in{i}", form, path) for i, form in enumerate(inputs))
    if len({len(array) for array in found}) != 1 or not len(found[0]):
        raise UserError("the inputs need the same number of rows, at least one", where=str(path))
    expected: list[Array] = []
    for number, form in enumerate(outputs):
        name = f"tflm_out{number}" if f"tflm_out{number}" in arrays else f"out{number}"
        if name in arrays:
            expected.append(_rows(arrays, name, form, path))
    complete = len(expected) == len(outputs) and all(len(array) == len(found[0]) for array in expected)
    return Samples(found, tuple(expected) if complete else (), arrays.get("labels"))


def write_outputs(path: Path, outputs: Sequence[Array]) -> None:
    """Writes `out0`, `out1`, ... to an .npz file, whole or not at all."""
    if path.suffix != ".npz":
        raise UserError("the output file must be .npz", where=f"output={path}", got=path.suffix or "no suffix")
    if not path.parent.is_dir():
        raise UserError("the output's folder is not there", where=f"output={path}")
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        named: dict[str, Any] = {f"out{i}": array for i, array in enumerate(outputs)}
        np.savez_compressed(file, **named)
    os.replace(part, path)


def split_outputs(rows: Sequence[bytes], forms: Sequence[TensorForm]) -> list[Array]:
    """Raw output bytes, one entry an inference, to one array an output: [rows, *shape]."""
    arrays: list[Array] = []
    at = 0
    for form in forms:
        parts = [np.frombuffer(row, form.dtype, int(np.prod(form.shape)), at).reshape(form.shape) for row in rows]
        arrays.append(np.stack(parts))
        at += form.bytes
    return arrays


def _rows(arrays: dict[str, Array], name: str, form: TensorForm, path: Path) -> Array:
    """The array called `name` as [rows, *shape]; one row may be given without the leading dimension."""
    wanted = f"{form.dtype}{list(form.shape)}, one row an inference"
    if name not in arrays:
        raise UserError(
            f"'{name}' is missing", where=str(path), got=", ".join(sorted(arrays)), allowed=f"{name}: {wanted}"
        )
    array = arrays[name]
    elements = int(np.prod(form.shape))
    if array.dtype != form.dtype or not elements or array.size % elements or array.ndim < 1:
        raise UserError(
            f"'{name}' does not fit {form.name}",
            where=str(path),
            got=f"{array.dtype}{list(array.shape)}",
            allowed=wanted,
            hint="quantise the values with the model's scale and zero point" if array.dtype.kind == "f" else None,
        )
    return array.reshape(-1, *form.shape)
