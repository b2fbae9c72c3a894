# SPDX-License-Identifier: Apache-2.0
"""Firmware under the MLPerf Tiny runner, on an emulator's pty: identification, performance and accuracy modes, and
every command of its set with good and bad arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cli.checkout import Checkout
from tests.flash.emulator import emulator_pty
from tests.flash.mlperf_runner import PERFORMANCE, Load, Runner, area_under_curve, read_samples
from tests.support import shared_dir
from toolchain.report.contents import read_report

BOARD = "qemu_m4f"
MODELS = {
    "ic01": "mlperf_ic_resnet_int8",
    "kws01": "mlperf_kws_dscnn_int8",
    "vww01": "mlperf_vww_mobilenet_int8",
    "ad01": "mlperf_ad_autoencoder_int8",
}
SAMPLES = {"ic01": 3, "kws01": 7, "vww01": 1, "ad01": 7}
QUICK = Load(3, 1)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("runner") / "project")


@contextmanager
def running(checkout: Checkout, benchmark: str) -> Iterator[Runner]:
    model = shared_dir("zoo") / "models" / f"{MODELS[benchmark]}.tflite"
    built = checkout.run(f"board={BOARD}", f"model={model}", f"benchmark={benchmark}")
    assert built.code == 0, built.error
    with emulator_pty(BOARD, checkout.folder(BOARD, MODELS[benchmark]) / "firmware.elf") as port:
        runner = Runner(port)
        try:
            yield runner
        finally:
            runner.close()


def golden(benchmark: str) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Rows of the model's inputs and outputs, quantised."""
    found = np.load(shared_dir("zoo") / "golden" / f"{MODELS[benchmark]}.npz")
    count = SAMPLES[benchmark]
    outputs = found["tflm_out0"] if "tflm_out0" in found else found["out0"]
    return found["in0"][:count].reshape(count, -1), outputs[:count].reshape(count, -1)


def sent(benchmark: str, rows: NDArray[np.int8], report: dict[str, object]) -> list[bytes]:
    """The rows in the form of the benchmark's data set."""
    if benchmark == "ad01":
        return [row.tobytes() for row in real(rows, report, "inputs").astype("<f4")]
    offset = 0 if benchmark == "kws01" else 128
    return [(row.astype(int) + offset).astype(np.uint8).tobytes() for row in rows]


def real(rows: NDArray[np.int8], report: dict[str, object], kind: str) -> NDArray[np.float32]:
    ports = report[kind]
    assert isinstance(ports, list)
    scale, zero_point = np.float32(ports[0]["scales"][0]), np.float32(ports[0]["zero_points"][0])
    return (rows.astype(np.float32) - zero_point) * scale


def write_data_set(folder: Path, files: list[bytes], labels: list[int], benchmark: str) -> None:
    classes = {"ic01": "10", "kws01": "12", "vww01": "2", "ad01": "2"}[benchmark]
    window = ",2560,512" if benchmark == "ad01" else ""
    for number, data in enumerate(files):
        (folder / f"{number}.bin").write_bytes(data)
    lines = [f"{number}.bin,{classes},{label}{window}" for number, label in enumerate(labels)]
    (folder / "y_labels.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("benchmark", MODELS)
def test_accuracy_mode(checkout: Checkout, benchmark: str, tmp_path: Path) -> None:
    inputs, outputs = golden(benchmark)
    with running(checkout, benchmark) as runner:
        assert (runner.device, runner.model) == (BOARD, benchmark)
        report = read_report(checkout.folder(BOARD, MODELS[benchmark]) / "report.json")
        if benchmark == "ad01":
            distances = (real(outputs, report, "outputs") - real(inputs, report, "inputs")).astype(np.float64)
            expected = (distances**2).mean(axis=1)
            labels = [int(value > np.median(expected)) for value in expected]
        else:
            scores = real(outputs, report, "outputs").astype(np.float64)
            expected = scores / scores.sum(axis=1, keepdims=True)
            labels = [int(row.argmax()) for row in outputs]
        write_data_set(tmp_path, sent(benchmark, inputs, report), labels, benchmark)
        samples = read_samples(tmp_path)
        found = np.array(runner.accuracy(samples))
    if benchmark == "ad01":
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
        assert area_under_curve(list(found[:, 0]), labels) == 1.0
    else:
        np.testing.assert_allclose(found, expected, atol=0.002)
        assert [int(row.argmax()) for row in found] == labels


@pytest.mark.parametrize(
    ("benchmark", "load"),
    (
        *((benchmark, QUICK) for benchmark in ("ic01", "ad01")),
        *(pytest.param(benchmark, load, marks=pytest.mark.sweep) for benchmark, load in PERFORMANCE.items()),
    ),
)
def test_performance_mode(checkout: Checkout, benchmark: str, load: Load) -> None:
    with running(checkout, benchmark) as runner:
        report = read_report(checkout.folder(BOARD, MODELS[benchmark]) / "report.json")
        rates = runner.performance(sent(benchmark, golden(benchmark)[0], report)[0], load, 2 if load == QUICK else 5)
    assert min(rates) > 0


def test_every_command(checkout: Checkout) -> None:
    with running(checkout, "kws01") as runner:
        first = runner.timestamp()
        assert runner.timestamp() > first
        assert runner.ask("help")
        assert runner.ask("db load 490") == ["m-[Expecting 490 bytes]"]
        for hexadecimal in ("0", "0g", ""):
            (told,) = runner.ask(f"db {hexadecimal}")
            assert told.startswith("e-[") and told.endswith("]")
        row = bytes(i * 7 & 0xFF for i in range(490))
        runner.load(row)
        assert runner.ask(f"db {'FF' * 31}") == []
        printed = runner.ask("db print")
        assert "".join(line.removeprefix("m-buffer") for line in printed).replace("-", "") == row.hex().upper()
        assert all(line.startswith("m-buffer-") and line.count("-") <= 9 for line in printed)
        for bad in ("infer 0 1", "infer 1 -1", "infer x", "db load 5", "nonsense", "infers"):
            told = runner.ask(bad)[-1]
            assert told.startswith("e-[") and told.endswith("]"), bad
        assert runner.ask("nonsense") == ["e-[Unknown command: nonsense]"]
        assert runner.ask("") == []
        assert len(runner.ask("infer")) == 7 and runner.infer(2, 0)[1] > 0
        assert len(runner.ask("results")) == 1


def test_images_are_shown_as_they_were_sent(checkout: Checkout) -> None:
    with running(checkout, "ic01") as runner:
        row = bytes(i * 5 & 0xFF for i in range(3072))
        runner.load(row)
        printed = runner.ask("db print")
    assert bytes.fromhex("".join(line.removeprefix("m-buffer").replace("-", "") for line in printed)) == row


def test_what_is_no_benchmark(checkout: Checkout) -> None:
    arguments = (f"board={BOARD}", "model=mnist_nano_int8")
    checkout.run(*arguments, "benchmark=ad01").refused("no model of the benchmark", "float32 of 640")
    checkout.run(*arguments, "benchmark=ic01", "console=none").refused("runner talks to the console")


def test_our_own_targets_leave_it_to_the_runner(checkout: Checkout) -> None:
    model = shared_dir("zoo") / "models" / f"{MODELS['kws01']}.tflite"
    done = checkout.run(f"board={BOARD}", f"model={model}", "benchmark=kws01", "run")
    done.refused("talks to the runner of MLPerf Tiny", "build it without benchmark=")
