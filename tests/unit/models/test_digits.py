# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.digits import FOLDER, MODELS, digits, path
from models.make_samples import ROWS, write_samples


@pytest.mark.parametrize("model", MODELS)
def test_digits_have_the_layout_of_the_golden_file(model: str) -> None:
    samples = digits(model)
    with np.load(path(model).with_suffix(".npz")) as golden:
        assert samples.inputs.shape == (500, *golden["in0"].shape[1:])
        assert samples.inputs.dtype == golden["in0"].dtype
        assert samples.expected.shape == (500, *golden["out0"].shape[1:])
        assert samples.expected.dtype == golden["out0"].dtype
    assert samples.labels.shape == (500,)


@pytest.mark.parametrize("model", MODELS)
def test_reference_answers_are_about_as_good_as_the_model_was_in_training(model: str) -> None:
    # 500 of the 1,500 digits behind accuracies.json, so within sampling noise: a wrong scale or zero point, or rows
    # out of step with their labels, would cost far more.
    trained = json.loads((FOLDER / "accuracies.json").read_text())[model]["test_accuracy"]
    samples = digits(model)
    assert samples.accuracy(samples.expected) == pytest.approx(trained, abs=0.015)


def test_int8_inputs_are_the_pixels_less_128() -> None:
    with np.load(FOLDER / "mnist_testset.npz") as testset:
        pixels = testset["images"].astype(int)
    assert np.array_equal(digits("mnist_int8").inputs.reshape(pixels.shape), pixels - 128)


def test_float_inputs_reach_from_0_to_1() -> None:
    inputs = digits("mnist_float").inputs
    assert (inputs.min(), inputs.max()) == (0.0, 1.0)


def test_an_unknown_model_is_refused_with_the_known_names() -> None:
    with pytest.raises(KeyError, match="mnist_int8"):
        digits("mnist_int7")


@pytest.mark.parametrize("model", MODELS)
def test_committed_samples_are_what_the_script_writes(model: str, tmp_path: Path) -> None:
    with np.load(write_samples(model, tmp_path)) as made, np.load(FOLDER / f"{model}.samples.npz") as committed:
        assert sorted(made) == sorted(committed) == ["in0", "labels", "out0"]
        for key in made:
            assert len(made[key]) == ROWS
            assert made[key].dtype == committed[key].dtype
            assert np.array_equal(made[key], committed[key])
