# SPDX-License-Identifier: Apache-2.0
"""Write <model>.samples.npz for each MNIST model: the first 20 test digits in the layout of the golden files.

Usage, from the root of the project: python -m models.make_samples [FOLDER]

in0: [20, *input shape], the digits as the model takes them; out0: [20, *output shape], what the reference (TFLite
Micro) answers; labels: [20] uint8. FOLDER is models/ when left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from models.digits import FOLDER, MODELS, digits

ROWS = 20


def write_samples(model: str, folder: Path) -> Path:
    """Write the samples of one model into `folder`; returns the file."""
    samples = digits(model).first(ROWS)
    target = folder / f"{model}.samples.npz"
    temporary = target.with_suffix(".new")
    with temporary.open("wb") as file:
        np.savez_compressed(file, in0=samples.inputs, out0=samples.expected, labels=samples.labels)
    os.replace(temporary, target)
    return target


if __name__ == "__main__":
    for name in MODELS:
        print(write_samples(name, Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
