# SPDX-License-Identifier: Apache-2.0
"""Model files that cannot be compiled: one message, exit code 2, and no build left that could pass for theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.checkout import Checkout
from tests.support import ROOT, shared_dir
from tests.tflite_files import FileOperator, FileTensor, fully_connected, tflite_file

GOOD = (ROOT / "models" / "mnist_nano_int8.tflite").read_bytes()
ROOMY = "board=qemu_m3"


def test_an_empty_file(checkout: Checkout) -> None:
    checkout.run(ROOMY, checkout.model("empty.tflite", b"")).refused("not a TFLite model", "an empty file")
    assert checkout.left() == []


def test_another_kind_of_file(checkout: Checkout) -> None:
    found = checkout.run(ROOMY, checkout.model("text.tflite", b"PK\x03\x04 no model at all"))
    found.refused("not a TFLite model", "20 bytes that start with 50 4b 03 04", "'TFL3'")
    assert checkout.left() == []


def test_a_name_that_is_no_text(checkout: Checkout) -> None:
    for name in ("two\nlines.tflite", "latin-\udce9.tflite"):
        checkout.run(ROOMY, checkout.model(name, GOOD)).refused("name is not printable", ascii(name))
    assert checkout.left() == []


def test_a_folder_is_no_model(checkout: Checkout) -> None:
    checkout.run(ROOMY, "model=models").refused("the model file is not there", "model=models")


def test_a_truncated_file(checkout: Checkout) -> None:
    found = checkout.run(ROOMY, checkout.model("cut.tflite", GOOD[: len(GOOD) // 2]))
    found.refused("damaged or cut short", "cut.tflite")
    assert checkout.left() == []


def test_a_failed_build_leaves_no_former_one(checkout: Checkout) -> None:
    model = checkout.model("changing.tflite", GOOD)
    assert checkout.run(ROOMY, model).code == 0
    assert checkout.left()
    checkout.model("changing.tflite", GOOD[:999])
    checkout.run(ROOMY, model).refused("damaged or cut short")
    assert checkout.left() == []
    checkout.model("changing.tflite", GOOD)
    assert checkout.run(ROOMY, model).built
    assert checkout.run("-c").code == 0


def test_every_unsupported_operator_is_listed(checkout: Checkout) -> None:
    tensors = [FileTensor(name, (1, 4), "float32") for name in ("in", "wave", "mine", "out")]
    steps = [
        FileOperator("RFFT2D", (0,), (1,)),
        FileOperator("my_operator", (1,), (2,)),
        FileOperator("STABLEHLO_TAN", (2,), (3,)),
    ]
    found = checkout.run(ROOMY, checkout.model("odd.tflite", tflite_file(tensors, steps, (0,), (3,))), "run")
    found.refused(
        "(3 found)",
        "operator 0 RFFT2D ('wave'): not a supported operator",
        "operator 1 CUSTOM:my_operator ('mine'): not a supported operator",
        "operator 2 ",
        "('out'): not a supported operator",
        "odd.tflite",
    )
    assert checkout.left() == []


def test_a_shape_that_is_computed_at_run_time(checkout: Checkout) -> None:
    tensors = [
        FileTensor("x", (1, 4), scale=1.0),
        FileTensor("wanted shape", (2,), "int32"),
        FileTensor("y", (4, 1), scale=1.0, signature=(-1, -1)),
    ]
    model = tflite_file(tensors, [FileOperator("RESHAPE", (0, 1), (2,))], (0, 1), (2,))
    found = checkout.run(ROOMY, checkout.model("shape.tflite", model))
    found.refused("operator 0 RESHAPE ('y')", "'wanted shape' is computed at run time")


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_the_file_does_not_state(checkout: Checkout, size: int) -> None:
    tensors = [FileTensor("x", (1, size, 4), scale=1.0), FileTensor("y", (1, size, 4), scale=1.0)]
    model = tflite_file(tensors, [FileOperator("ADD", (0, 0), (1,))], (0,), (1,))
    found = checkout.run(ROOMY, checkout.model("open.tflite", model))
    found.refused("2 tensors have sizes that are not known", f"tensor 0 'x' is [1, {size}, 4]", "fixed input shapes")


def test_open_sizes_that_are_stored_as_one_are_noted(checkout: Checkout) -> None:
    tensors = [FileTensor("x", (1, 1, 4), scale=1.0, signature=(-1, -1, 4)), FileTensor("y", (1, 1, 4), scale=1.0)]
    model = tflite_file(tensors, [FileOperator("ADD", (0, 0), (1,))], (0,), (1,))
    found = checkout.run(ROOMY, checkout.model("noted.tflite", model))
    assert found.code == 0, found.error
    assert "note: input 'x' has open sizes [-1, -1, 4]: compiled for [1, 1, 4], as stored" in found.out
    assert checkout.run("-c").code == 0


def test_too_large_for_the_flash(checkout: Checkout) -> None:
    found = checkout.run("board=ch32v003", checkout.model("wide.tflite", fully_connected(256, 100)))
    found.refused("wide.tflite does not fit on ch32v003", "where: FLASH", "bytes too many in FLASH (of 16384", "board=")
    assert checkout.left() == []


def test_too_large_for_the_ram(checkout: Checkout) -> None:
    tensors = [FileTensor(name, (1, 9000), scale=1.0) for name in ("x", "y")]
    model = tflite_file(tensors, [FileOperator("ADD", (0, 0), (1,))], (0,), (1,))
    found = checkout.run("board=stm32vldiscovery", checkout.model("long.tflite", model))
    found.refused("does not fit on stm32vldiscovery", "where: RAM", "bytes too many in RAM (of 8192", "board=")
    assert checkout.left() == []


def test_a_name_without_a_stem(checkout: Checkout) -> None:
    checkout.run(ROOMY, checkout.model("..tflite", GOOD)).refused("no part before its suffix")


@pytest.mark.parametrize("name", ["firmware.tflite", "9 a$b #2.tflite"])
def test_names_that_need_care_build(checkout: Checkout, name: str) -> None:
    found = checkout.run("board=netduinoplus2", checkout.model(name, GOOD), "run")
    assert found.code == 0, found.out + found.error
    assert "PASS" in found.out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("coral_model_invoking_error.tflite", "damaged or cut short"),
        ("coral_split_concat_edgetpu.tflite", "operator 0 CUSTOM:edgetpu-custom-op ('concat/split0')"),
        ("mediapipe_selfie_segmenter.tflite", "operator 244 CUSTOM:Convolution2DTransposeBias ('segment')"),
        ("tract_qtdnn_10x5_101_i32_biases.onnx", "not a TFLite model"),
        ("tum_t_custom.tflite", "operator 1 CUSTOM:Imag ('Identity')"),
    ],
)
def test_models_of_other_projects(checkout: Checkout, name: str, told: str) -> None:
    path = shared_dir("zoo") / "unsupported" / name
    checkout.run(ROOMY, f"model={path}").refused(told, name)


def test_samples_that_expect_nothing(fresh: Checkout, tmp_path: Path) -> None:
    """Beside the model they are there to be compared with."""
    (tmp_path / "inputs_only.tflite").write_bytes(fully_connected(4, 2))
    np.savez(tmp_path / "inputs_only.samples.npz", in0=np.zeros((3, 1, 4), np.int8))
    found = fresh.run(ROOMY, f"model={tmp_path / 'inputs_only.tflite'}", "run")
    assert found.code == 2
    assert "have no expected outputs" in found.error and "inputs_only.samples.npz" in found.error
