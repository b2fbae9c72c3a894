# SPDX-License-Identifier: Apache-2.0
"""Models of one or a few operators with golden files, from the folder `shared/ops` beside the project."""

from __future__ import annotations

from pathlib import Path

from compiler.errors import UnsupportedModel
from compiler.frontends.tflite import read_tflite
from compiler.passes import run_passes
from compiler.support import check_supported
from tests.support import ROOT
from tests.zoo.golden import Case, read_case

FOLDER = ROOT.parent / "shared" / "ops"


def names() -> list[str]:
    """All models that have a golden file."""
    return [p.stem for p in sorted((FOLDER / "models").glob("*.tflite")) if _golden(p.stem).exists()]


def is_supported(name: str) -> bool:
    """True where every operator of the model can be compiled."""
    try:
        check_supported(run_passes(read_tflite(_model(name).read_bytes(), name)), name)
    except UnsupportedModel:
        return False
    return True


def case(name: str) -> Case:
    return read_case(_model(name), _golden(name))


def _model(name: str) -> Path:
    return FOLDER / "models" / f"{name}.tflite"


def _golden(name: str) -> Path:
    return FOLDER / "golden" / f"{name}.npz"
