# SPDX-License-Identifier: Apache-2.0
"""Random quantised networks of layers that are prone to constant and unread channels."""

from __future__ import annotations

import numpy as np

from compiler.graph import DType, Graph
from compiler.ops.activation import Activation
from compiler.ops.geometry import AnyPadding, ExplicitPadding, Padding
from tests.unit.compiler.passes.channel_models import HUGE, Array, Network

ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6)


def random_network(seed: int, dtype: DType) -> Graph:
    """A network of three to seven operators and a fully connected layer, with one image or two."""
    rng = np.random.default_rng(seed)
    size, zero_point = int(rng.integers(4, 9)), int(rng.integers(-128, 128))
    n = Network(int(rng.integers(1, 3)), size, size + 1, int(rng.integers(1, 5)), dtype=dtype, zero_point=zero_point)
    x = _layer(n, rng, n.input, depthwise=False)
    for _ in range(int(rng.integers(2, 7))):
        step = rng.integers(0, 8)
        if step < 3:
            x = _layer(n, rng, x, depthwise=False)
        elif step < 5:
            x = _layer(n, rng, x, depthwise=True)
        elif step == 5:
            x = n.pool(str(rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"])), x, 2, Padding.SAME)
        elif step == 6:
            branch = _layer(n, rng, x, depthwise=True, same=True)
            x = n.add(x, branch, str(rng.choice(["ADD", "SUB"])), ACTIVATIONS[rng.integers(3)])
        else:
            x = n.unary(str(rng.choice(["RELU", "QUANTIZE"])), x, 0.06, int(rng.integers(-100, 100)))
    batches = n.tensors[x].shape[0]
    flat = n.mean(x) if rng.random() < 0.5 else n.reshape(x, batches, n.tensors[x].elements // batches)
    depth = n.tensors[flat].shape[1]
    hidden = n.fully_connected(flat, _weights(rng, 6, depth), _biases(rng, 6), _scales(rng, 6))
    last = n.fully_connected(hidden, _weights(rng, 3, 6), _biases(rng, 3) % 1000, [0.01])
    return n.graph(last, *([x] if rng.random() < 0.2 else []))


def _layer(n: Network, rng: np.random.Generator, source: int, depthwise: bool, same: bool = False) -> int:
    channels = n.tensors[source].shape[3]
    outputs = channels * (1 if same else int(rng.integers(1, 3))) if depthwise else int(rng.integers(1, 12))
    height, width = (int(v) for v in rng.integers(1, 4, 2))
    padding: AnyPadding = Padding.SAME
    if not same:
        top, bottom, left, right = (int(rng.integers(0, k)) for k in (height, height, width, width))
        enough = min(n.tensors[source].shape[1:3]) >= 3
        choices: tuple[AnyPadding, ...] = (
            Padding.SAME,
            ExplicitPadding(top, bottom, left, right),
            *([Padding.VALID] if enough else []),
        )
        padding = choices[rng.integers(len(choices))] if enough else Padding.SAME
    strides = (1, 1) if same else (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    kernel = _weights(rng, 1, height, width, outputs) if depthwise else _weights(rng, outputs, height, width, channels)
    return n.convolution(
        source,
        kernel,
        _biases(rng, outputs) if rng.random() < 0.9 else None,
        padding=padding,
        strides=strides,
        activation=ACTIVATIONS[rng.integers(3)],
        zero_point=int(rng.integers(-128, 128)),
        scales=_scales(rng, outputs),
        depthwise=depthwise,
    )


def _weights(rng: np.random.Generator, *shape: int) -> Array:
    """Whole inputs and outputs are zero now and then."""
    found = rng.integers(-127, 128, shape)
    found[..., rng.random(shape[-1]) < 0.2] = 0
    found[rng.random(shape[0]) < 0.1] = 0
    return found


def _biases(rng: np.random.Generator, count: int) -> Array:
    """Many saturate the output whatever the input is."""
    kinds = rng.choice(4, count, p=[0.5, 0.2, 0.2, 0.1])
    return np.choose(kinds, [rng.integers(-2000, 2000, count), HUGE, -HUGE, 0])


def _scales(rng: np.random.Generator, count: int) -> list[float]:
    """One scale, or one for each channel; some shift left."""
    if rng.random() < 0.3:
        return [0.01]
    return [float(scale) for scale in np.exp(rng.uniform(-6, 1.5, count))]
