# SPDX-License-Identifier: Apache-2.0
"""The MNIST models of this folder and their 500 labelled test digits, as each model takes and answers them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent

MODELS = (
    "mnist_float",
    "mnist_int8",
    "mnist_int16x8",
    "mnist_mlp_float",
    "mnist_mlp_int8",
    "mnist_nano_float",
    "mnist_nano_int8",
)


@dataclass(frozen=True)
class Digits:
    """Test digits of one model; a row is an independent run.

    inputs: [rows, *shape of the model's input], in its dtype, ready to copy in.
    expected: [rows, *shape of its output], the bytes that the reference (TFLite Micro) answers.
    labels: [rows] uint8, the digit that was written.
    """

    model: str
    inputs: NDArray[Any]
    expected: NDArray[Any]
    labels: NDArray[np.uint8]

    def first(self, rows: int) -> Digits:
        return Digits(self.model, self.inputs[:rows], self.expected[:rows], self.labels[:rows])

    def accuracy(self, outputs: NDArray[Any]) -> float:
        """The share of rows [rows, ...classes] whose largest output is the label."""
        return float(np.mean(outputs.reshape(len(self.labels), -1).argmax(axis=1) == self.labels))


def path(model: str) -> Path:
    """The .tflite file of a model named as in MODELS."""
    return FOLDER / f"{model}.tflite"


def digits(model: str) -> Digits:
    """All 500 test digits for `model`. Raises KeyError for a name that is not in MODELS."""
    if model not in MODELS:
        raise KeyError(f"{model!r}: not one of {', '.join(MODELS)}")
    with np.load(path(model).with_suffix(".npz")) as golden:
        meta = json.loads(str(golden["meta"]))
    (tensor_in,), (tensor_out,) = meta["inputs"], meta["outputs"]
    shape = tuple(tensor_in["shape"])
    with np.load(FOLDER / "mnist_testset.npz") as testset:
        pixels = testset["images" if shape[1] == 28 else "images14"]
        labels = testset["labels"]
    with np.load(FOLDER / "mnist_expected.npz") as answers:
        expected = answers[f"{model}__tflm"]
    return Digits(
        model,
        _as_input(pixels, tensor_in).reshape(-1, *shape),
        expected.reshape(-1, *tensor_out["shape"]),
        labels,
    )


def _as_input(pixels: NDArray[np.uint8], tensor: dict[str, Any]) -> NDArray[Any]:
    """Pixels 0..255 as the models were trained on them, 0..1, quantised as `tensor` says."""
    real: NDArray[np.float32] = pixels.astype(np.float32) / np.float32(255)
    dtype = np.dtype(tensor["dtype"])
    if dtype == np.float32:
        return real
    limits = np.iinfo(dtype)
    steps: NDArray[np.float32] = np.rint(real / tensor["scales"][0] + tensor["zero_points"][0])
    return steps.clip(limits.min, limits.max).astype(dtype)
