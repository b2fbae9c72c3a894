# SPDX-License-Identifier: Apache-2.0
"""Damaged bytes, many of them: the compiler refuses them as the user's fault or compiles what they say, and nothing
else; never slowly and never in much memory."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from boards.loader import load_board
from compiler.compile import compile_model, prepare
from compiler.errors import UserError
from compiler.isa import load_isa
from compiler.model import Model
from compiler.schedule import build_schedule
from tests.fuzz.models import random_model
from tests.support import ROOT
from tests.tflite_files import FileOperator, FileTensor, tflite_file
from toolchain.target import target_of

MODELS = ("mnist_nano_int8", "mnist_mlp_float", "mnist_int16x8")
MEMORY = 2 << 30
SECONDS = 20


def data_of(name: str) -> bytes:
    return (ROOT / "models" / f"{name}.tflite").read_bytes()


@contextmanager
def limited() -> Iterator[None]:
    """Memory and time for one file."""
    used = int(open_text("/proc/self/statm").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)

    def expired(*_: object) -> None:
        raise AssertionError(f"a damaged file takes more than {SECONDS} s")

    signal.signal(signal.SIGALRM, expired)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def open_text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def damaged(data: bytes, seed: int) -> bytes:
    """A file with up to three ranges overwritten, mostly in its tables and not in its weights, which are the longest
    part: with random bytes, or with the numbers that are worst for sizes and offsets."""
    draw, changed = random.Random(seed), bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        size = draw.choice((1, 2, 4, 4, 8, 64))
        tables = draw.choice((0, len(data) - min(len(data), 6000)))
        at = draw.choice((tables + draw.randrange(min(len(data), 6000)), draw.randrange(len(data)))) // size * size
        worst = draw.choice((b"\x00", b"\xff", b"\x7f", b"\x01")) * size
        changed[at : at + size] = draw.choice((worst, draw.randbytes(size), b"\xff" * (size - 1) + b"\x7f"))
    return bytes(changed[: len(data)])


def refused_or_compiled(data: bytes, whole: bool) -> bool:
    """Whether a file was refused; any exception but UserError passes through. Without `whole` it is compiled up to the
    choice of kernels."""
    model, target = Model("damaged.tflite", data), target_of(load_board("qemu_m3").core)
    try:
        with limited():
            if whole:
                compile_model(model, target)
            else:
                build_schedule(prepare(model), load_isa(target))
    except UserError:
        return True
    return False


@pytest.mark.parametrize("name", MODELS)
def test_truncated_at_many_places(name: str) -> None:
    data = data_of(name)
    cuts = sorted({*range(0, 64), *range(64, len(data) - 8, max(1, len(data) // 200))})
    assert all(refused_or_compiled(data[:cut], whole=False) for cut in cuts)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # damaged scales overflow in NumPy
def test_overwritten_ranges(name: str) -> None:
    data = data_of(name)
    refused = [refused_or_compiled(damaged(data, seed), whole=False) for seed in range(250)]
    assert 0 < sum(refused) < 250


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overwritten_ranges_compile_to_the_end() -> None:
    data = data_of("mnist_nano_int8")
    refused = [refused_or_compiled(damaged(data, seed), whole=True) for seed in range(1000, 1025)]
    assert 0 < sum(refused) < 25


@pytest.mark.sweep
@pytest.mark.parametrize("name", (*MODELS, "mnist_nano_float", "mnist_mlp_int8"))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_many_overwritten_ranges_compile_to_the_end(name: str) -> None:
    data = data_of(name)
    refused = [refused_or_compiled(damaged(data, seed), whole=True) for seed in range(2000, 2400)]
    assert 0 < sum(refused) < 400


@pytest.mark.parametrize("op", ["ADD", "CONV_2D", "MEAN", "PAD", "QUANTIZE", "RESHAPE", "SHAPE", "SOFTMAX"])
@pytest.mark.parametrize("inputs", [(), (-1,), (0,), (-1, -1, -1)])
@pytest.mark.parametrize("outputs", [(), (1,), (1, 2)])
def test_operators_with_other_operands_than_they_need(
    op: str, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    tensors = [FileTensor(name, (1, 4), scale=1.0) for name in ("x", "y", "z", "end")]
    steps = [FileOperator(op, inputs, outputs), FileOperator("RELU", (0,), (3,))]
    refused_or_compiled(tflite_file(tensors, steps, (0,), (*outputs, 3)), whole=False)


def test_a_tensor_too_large_for_any_microcontroller() -> None:
    sizes = (1, 30000, 30000, 64)
    tensors = [FileTensor("x", sizes, scale=1.0), FileTensor("y", sizes, scale=1.0)]
    data = tflite_file(tensors, [FileOperator("ADD", (0, 0), (1,))], (0,), (1,))
    assert refused_or_compiled(data, whole=True)


def test_an_input_that_is_no_number() -> None:
    tensors = [FileTensor("x", (1, 4), "float32"), FileTensor("y", (1,), "string")]
    assert refused_or_compiled(tflite_file(tensors, [], (0, 1), (0,)), whole=True)


def test_an_output_without_elements() -> None:
    tensors = [
        FileTensor("x", (1, 4), "float32"),
        FileTensor("y", (2, 0), "float32", data=np.zeros((2, 0), np.float32)),
    ]
    assert refused_or_compiled(tflite_file(tensors, [], (0,), (0, 1)), whole=True)


@pytest.mark.parametrize(
    ("inputs", "outputs"), [((), ()), ((0,), ()), ((), (0,)), ((0, 0), (0,)), ((7,), (0,)), ((0,), (-1,))]
)
def test_graphs_without_proper_ends(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    assert refused_or_compiled(tflite_file([FileTensor("x", (1, 4), scale=1.0)], [], inputs, outputs), whole=False)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 1500), marks=pytest.mark.sweep)], ids=len)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overwritten_ranges_of_random_models(seeds: range) -> None:
    models = [random_model(seed).model.data for seed in seeds]
    files = [damaged(data, 4 * number + k) for number, data in enumerate(models) for k in range(4)]
    refused = [refused_or_compiled(data, whole=False) for data in files]
    assert 0 < sum(refused) < len(refused)


HUGE = 2_000_000_000


@pytest.mark.parametrize(
    ("op", "inputs", "table", "options"),
    [
        ("PAD", (0, 2), "PadOptions", {}),
        ("SPACE_TO_BATCH_ND", (0, 3, 2), "SpaceToBatchNDOptions", {}),
        (
            "MAX_POOL_2D",
            (0,),
            "Pool2DOptions",
            {"Padding": 1, "FilterHeight": HUGE, "FilterWidth": 1, "StrideH": 1, "StrideW": 1},
        ),
        ("ADD_N", (0, 4), "AddNOptions", {}),
        ("ADD_N", (0, -1), "AddNOptions", {}),
        ("SPLIT", (3, 0), "SplitOptions", {"NumSplits": 1}),
        ("SPLIT_V", (0, 3, -1), "SplitVOptions", {"NumSplits": 1}),
    ],
)
def test_options_that_do_not_fit_their_tensors(
    op: str, inputs: tuple[int, ...], table: str, options: dict[str, int]
) -> None:
    paddings = np.array([[0, 0], [0, HUGE], [0, HUGE], [0, 0]], np.int32)
    tensors = [
        FileTensor("x", (1, 4, 4, 1), scale=1.0),
        FileTensor("y", (1, 4, 4, 1), scale=1.0),
        FileTensor("pads", (4, 2) if op == "PAD" else (2, 2), "int32", data=paddings if op == "PAD" else paddings[1:3]),
        FileTensor("blocks", (2,), "int32", data=np.ones(2, np.int32)),
        FileTensor("plain", (1, 4, 4, 1), data=np.zeros((1, 4, 4, 1), np.int8)),
    ]
    data = tflite_file(tensors, [FileOperator(op, inputs, (1,), table, options)], (0,), (1,))
    assert refused_or_compiled(data, whole=False)
