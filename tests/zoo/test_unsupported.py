# SPDX-License-Identifier: Apache-2.0
"""Files that nothing runs, each refused with its reason: other processors' code, custom operators, broken files."""

from __future__ import annotations

import pytest

from compiler.compile import prepare
from compiler.errors import UserError
from compiler.model import Model
from tests.support import shared_dir

REASONS = {
    "coral_model_invoking_error.tflite": ("damaged or cut short",),
    "coral_split_concat_edgetpu.tflite": ("operator 0 CUSTOM:edgetpu-custom-op", "compiled for the Edge TPU"),
    "litert_simple_squeeze.tflite": ("operator 0 SQUEEZE", "axis 1 of []", "exist and have size 1"),
    "litert_single_rsqrt_default_a16w8_recipe_quantized.tflite": ("operator 0 RSQRT", "output scale"),
    "mediapipe_selfie_segmenter.tflite": (
        "1 found",
        "operator 244 CUSTOM:Convolution2DTransposeBias",
        "custom, its code is not in the file",
    ),
    "tract_qtdnn_10x5_101_i32_biases.onnx": ("not a TFLite model",),
    "tum_t_custom.tflite": (
        "2 found",
        "operator 0 CUSTOM:Complex",
        "operator 1 CUSTOM:Imag",
        "custom, its code is not in the file",
    ),
    "tum_t_model_with_add2.tflite": ("operator 0 CUSTOM:Add2", "custom, its code is not in the file"),
    "tum_t_model_with_reverse_sequence2.tflite": (
        "operator 0 CUSTOM:ReverseSequence2",
        "custom, its code is not in the file",
    ),
}
SOUND = ("litert_simple_floor_mod.tflite",)
"""Files whose model is sound: what fails elsewhere are inputs (a divisor of zero)."""


def read(name: str) -> Model:
    return Model(name, (shared_dir("zoo") / "unsupported" / name).read_bytes())


@pytest.mark.parametrize("name", REASONS)
def test_refused_with_its_reason(name: str) -> None:
    with pytest.raises(UserError) as refusal:
        prepare(read(name))
    for part in (name, *REASONS[name]):
        assert part in str(refusal.value)


@pytest.mark.parametrize("name", SOUND)
def test_sound_models_are_not_refused(name: str) -> None:
    assert prepare(read(name)).operators


def test_every_file_is_named_here() -> None:
    found = {path.name for path in (shared_dir("zoo") / "unsupported").iterdir() if path.is_file()}
    assert found == {*REASONS, *SOUND}
