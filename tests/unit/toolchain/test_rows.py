# SPDX-License-Identifier: Apache-2.0
"""Files of rows: what is read as which rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.errors import UserError
from toolchain.rows import TensorForm, read_samples

IMAGE = TensorForm("image", np.dtype(np.int8), (1, 4, 6, 1))
SCORES = TensorForm("scores", np.dtype(np.int8), (1, 3))
ROWS = np.arange(5 * 24, dtype=np.int8).reshape(5, 1, 4, 6, 1)


def written(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "rows.npz", **arrays)
    return folder / "rows.npz"


@pytest.mark.parametrize(
    "array", (ROWS, ROWS.reshape(5, 4, 6), ROWS.reshape(5, 1, 1, 4, 6), ROWS.reshape(5, 24), np.asfortranarray(ROWS))
)
def test_rows_with_axes_of_one_cell_missing_or_added(tmp_path: Path, array: NDArray[Any]) -> None:
    samples = read_samples(written(tmp_path, in0=array), (IMAGE,), (SCORES,))
    assert np.array_equal(samples.inputs[0], ROWS)
    assert samples.outputs == ()
    assert next(samples.rows()) == ROWS[0].tobytes()


@pytest.mark.parametrize("shape", ((1, 4, 6, 1), (4, 6), (1, 24)))
def test_one_row(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "row.npy", ROWS[3].reshape(shape))
    assert np.array_equal(read_samples(tmp_path / "row.npy", (IMAGE,), ()).inputs[0], ROWS[3:4])


@pytest.mark.parametrize("shape", ((5, 6, 4), (10, 12), (5, 1, 6, 4, 1), (6, 4), (120,), (2, 2, 6), (5, 4, 3, 2)))
def test_another_layout_of_as_many_elements(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.int8)
    with pytest.raises(UserError, match=r"'in0' does not fit image(.|\n)*allowed: int8\[rows, 1, 4, 6, 1\]"):
        read_samples(written(tmp_path, in0=array), (IMAGE,), ())


@pytest.mark.parametrize(
    ("arrays", "told"),
    (
        ({"in0": ROWS.astype(np.float32)}, "'in0' does not fit"),
        ({"in0": ROWS[:0]}, "at least one"),
        ({"in0": ROWS, "in1": ROWS}, "more inputs than the model has"),
        ({"in0": ROWS, "out0": np.zeros((4, 1, 3), np.int8)}, "'out0' has not as many rows"),
        ({"in0": ROWS, "labels": np.arange(3)}, "'labels' does not fit"),
        ({"in0": ROWS, "labels": np.array(list("abcde"))}, "'labels' does not fit"),
        ({"in0": np.array([{}], object)}, "cannot be read"),
        ({"other": ROWS}, "'in0' is missing"),
    ),
)
def test_rows_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        read_samples(written(tmp_path, **arrays), (IMAGE,), (SCORES,))


def test_damaged_files(tmp_path: Path) -> None:
    whole = written(tmp_path, in0=ROWS).read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(ROWS.tobytes())] ^= 0xFF
    directory = whole.rindex(b"PK\x01\x02")
    other_version, encrypted, other_method = (bytearray(whole) for _ in range(3))
    other_version[directory + 6] = 99
    encrypted[directory + 8] |= 1
    other_method[directory + 10] = 77
    header = np.lib.format.magic(1, 0) + b"\x0a\x00{'descr':("
    for data in (flipped, whole[: len(whole) // 2], b"", b"digits", other_version, encrypted, other_method, header):
        (tmp_path / "damaged.npz").write_bytes(data)
        with pytest.raises(UserError, match="cannot be read") as caught:
            read_samples(tmp_path / "damaged.npz", (IMAGE,), ())
        assert "pickle" not in str(caught.value)
