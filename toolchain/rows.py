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
    arrays = _load(path)
    found = tuple(_rows(arrays, f"in{i}", form, path) for i, form in enumerate(inputs))
    spare = f"in{len(inputs)}"
    if spare in arrays:
        raise UserError(
            "there are more inputs than the model has",
            where=str(path),
            got=spare,
            allowed=f"in0 to in{len(inputs) - 1}",
        )
    if len({len(array) for array in found}) != 1 or not len(found[0]):
        raise UserError("the inputs need the same number of rows, at least one", where=str(path))
    rows = len(found[0])
    expected: list[Array] = []
    for number, form in enumerate(outputs):
        name = f"tflm_out{number}" if f"tflm_out{number}" in arrays else f"out{number}"
        if name in arrays:
            expected.append(_rows(arrays, name, form, path))
            if len(expected[-1]) != rows:
                raise _unlike_rows(name, len(expected[-1]), rows, path)
    labels = arrays.get("labels")
    if labels is not None and (labels.shape != (rows,) or labels.dtype.kind not in "iu"):
        raise UserError(
            "'labels' does not fit the inputs",
            where=str(path),
            got=f"{labels.dtype}{list(labels.shape)}",
            allowed=f"{rows} integers, one a row",
        )
    return Samples(found, tuple(expected) if len(expected) == len(outputs) else (), labels)


def write_outputs(path: Path, outputs: Sequence[Array]) -> None:
    """Writes `out0`, `out1`, ... to an .npz file, whole or not at all."""
    check_output(path)
    if not path.parent.is_dir():
        raise UserError("the output's folder is not there", where=f"output={path}")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            named: dict[str, Any] = {f"out{i}": array for i, array in enumerate(outputs)}
            np.savez_compressed(file, **named)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """UserError for a file that outputs are not written to."""
    if path.suffix != ".npz":
        raise UserError("the output file must be .npz", where=f"output={path}", got=path.suffix or "no suffix")


def split_outputs(rows: Sequence[bytes], forms: Sequence[TensorForm]) -> list[Array]:
    """Raw output bytes, one entry an inference, to one array an output: [rows, *shape]."""
    arrays: list[Array] = []
    at = 0
    for form in forms:
        parts = [np.frombuffer(row, form.dtype, int(np.prod(form.shape)), at).reshape(form.shape) for row in rows]
        arrays.append(np.stack(parts))
        at += form.bytes
    return arrays


def _load(path: Path) -> dict[str, Array]:
    """All arrays of the file, read whole: NumPy finds damage only then. UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return {"in0": np.lib.format.read_array(file, allow_pickle=False)}
            file.seek(0)
            with np.load(file, allow_pickle=False) as loaded:
                return dict(loaded)
    # Damage makes zipfile and NumPy raise anything: NotImplementedError for a version, SyntaxError for a header.
    except Exception as error:
        raise UserError(
            "the input file cannot be read", where=str(path), got=str(error), allowed=".npz or .npy, of numbers"
        ) from error


def _unlike_rows(name: str, got: int, wanted: int, path: Path) -> UserError:
    return UserError(f"'{name}' has not as many rows as the inputs", where=str(path), got=str(got), allowed=str(wanted))


def _fits(shape: tuple[int, ...], form: TensorForm) -> bool:
    """An array is rows of the tensor, or one row of it. Axes of one cell may be missing or added, since they move no
    element; a row may be flat. Any other shape of as many elements is another layout."""
    wanted = tuple(size for size in form.shape if size != 1)
    row, whole = (tuple(size for size in part if size != 1) for part in (shape[1:], shape))
    return form.bytes > 0 and (row in (wanted, (int(np.prod(form.shape)),)) or whole == wanted)


def _rows(arrays: dict[str, Array], name: str, form: TensorForm, path: Path) -> Array:
    """The array called `name` as [rows, *shape]; one row may be given without the leading dimension."""
    wanted = f"{form.dtype}{['rows', *form.shape]}".replace("'", "")
    if name not in arrays:
        raise UserError(
            f"'{name}' is missing", where=str(path), got=", ".join(sorted(arrays)), allowed=f"{name}: {wanted}"
        )
    array = arrays[name]
    if array.dtype != form.dtype or array.ndim < 1 or not _fits(array.shape, form):
        raise UserError(
            f"'{name}' does not fit {form.name}",
            where=str(path),
            got=f"{array.dtype}{list(array.shape)}",
            allowed=wanted,
            hint="quantise the values with the model's scale and zero point" if array.dtype.kind == "f" else None,
        )
    return array.reshape(-1, *form.shape)
