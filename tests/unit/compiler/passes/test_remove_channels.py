# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import DType, Graph
from compiler.ops.activation import Activation
from compiler.ops.geometry import ExplicitPadding, Padding
from compiler.passes.intervals import intervals
from compiler.passes.remove_channels import remove_channels
from compiler.reference import evaluate, outputs_of
from compiler.support import check_supported
from compiler.verifier import verify
from tests.unit.compiler.passes.channel_models import HUGE, Array, Network, extreme_inputs
from tests.unit.compiler.passes.random_channels import random_network

RNG = np.random.default_rng(7)


def weights(*shape: int) -> Array:
    return RNG.integers(-127, 128, shape)


def biases(*values: int) -> Array:
    return np.array(values)


def transformed(graph: Graph, seed: int = 1) -> Graph:
    """The graph after the pass, once its outputs are the original's."""
    check_supported(graph, "test")
    after = remove_channels(graph)
    verify(after, "remove_channels")
    check_supported(after, "test")
    for tensor in (*graph.inputs, *graph.outputs):
        assert after.tensor(tensor) == graph.tensor(tensor)
    for row in extreme_inputs(graph, seed):
        for want, got in zip(outputs_of(graph, row), outputs_of(after, row), strict=True):
            assert np.array_equal(want, got)
    return after


def channels(graph: Graph, tensor: int) -> int:
    return graph.tensor(tensor).shape[-1]


def test_constant_at_the_zero_point_goes_through_padding() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(5, 3, 3, 3), biases(0, -HUGE, 0, -HUGE, 9), activation=Activation.RELU)
    last = n.convolution(first, weights(2, 3, 3, 5), biases(4, 5))
    after = transformed(n.graph(last))
    assert channels(after, first) == 3


def test_constant_other_than_the_zero_point_stays_before_padding() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(5, 1, 1, 3), biases(0, HUGE, 0, -HUGE, 9))
    last = n.convolution(first, weights(2, 3, 3, 5), biases(4, 5))
    graph = n.graph(last)
    assert transformed(graph) is graph


def test_constant_other_than_the_zero_point_goes_where_nothing_is_padded() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(5, 1, 1, 3), biases(0, HUGE, 0, -HUGE, 9))
    last = n.convolution(first, weights(2, 3, 3, 5), biases(4, 5), padding=Padding.VALID)
    assert channels(transformed(n.graph(last)), first) == 3


def test_constant_goes_before_padding_where_its_part_is_the_same_everywhere() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(3, 1, 1, 3), biases(0, HUGE, 9))
    kernel = weights(2, 3, 3, 3)
    kernel[:, :, :, 1] = 0
    kernel[:, 1, 1, 1] = 50  # Only the tap that is never outside.
    last = n.convolution(first, kernel, biases(4, 5))
    assert channels(transformed(n.graph(last)), first) == 2


def test_constant_that_padding_changes_stays_before_a_depthwise_convolution() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(3, 1, 1, 3), biases(0, HUGE, 9))
    middle = n.convolution(first, weights(1, 3, 3, 3), biases(0, 3, 9), depthwise=True)
    last = n.convolution(middle, weights(2, 1, 1, 3), biases(4, 5))
    graph = n.graph(last)
    assert transformed(graph) is graph


def test_constant_goes_before_a_depthwise_convolution_that_saturates_again() -> None:
    n = Network(1, 5, 5, 3)
    first = n.convolution(n.input, weights(3, 1, 1, 3), biases(0, HUGE, 9))
    middle = n.convolution(
        first, weights(1, 3, 3, 3), biases(0, HUGE, 9), depthwise=True, padding=ExplicitPadding(2, 0, 0, 1)
    )
    last = n.convolution(middle, weights(2, 1, 1, 3), biases(4, 5))
    after = transformed(n.graph(last))
    assert (channels(after, first), channels(after, middle)) == (2, 2)


def test_channel_that_only_the_activation_makes_constant() -> None:
    def left(activation: Activation) -> int:
        n = Network(1, 4, 4, 2)
        kernel = weights(3, 1, 1, 2)
        kernel[1] = [[[3, 2]]]
        # The sum is within -5 * 128 - 800 .. 5 * 127 - 800: below zero, yet not saturated.
        first = n.convolution(n.input, kernel, biases(0, -800, 0), activation=activation, scale=0.005)
        last = n.convolution(first, weights(2, 1, 1, 3), biases(1, 2))
        return channels(transformed(n.graph(last)), first)

    assert (left(Activation.RELU), left(Activation.NONE)) == (2, 3)


def test_unread_channels_go_back_to_the_first_layer() -> None:
    n = Network(1, 6, 6, 3)
    first = n.convolution(n.input, weights(4, 3, 3, 3), biases(1, 2, 3, 4))
    middle = n.convolution(first, weights(1, 3, 3, 4), biases(1, 2, 3, 4), depthwise=True, strides=(2, 2))
    kernel = weights(3, 1, 1, 4)
    kernel[:, :, :, 2] = 0
    last = n.convolution(middle, kernel, biases(1, 2, 3))
    after = transformed(n.graph(last))
    assert (channels(after, first), channels(after, middle)) == (3, 3)
    # The middle tensor as an output needs all its channels.
    graph = n.graph(last, middle)
    assert transformed(graph) is graph


def test_depth_multiplier_keeps_whole_groups() -> None:
    n = Network(1, 5, 5, 2)
    first = n.convolution(n.input, weights(3, 1, 1, 2), biases(0, 1, 2))
    bias = biases(-HUGE, 0, -HUGE, -HUGE, 0, 0)
    middle = n.convolution(first, weights(1, 3, 3, 6), bias, depthwise=True, activation=Activation.RELU)
    last = n.convolution(middle, weights(2, 1, 1, 6), biases(1, 2))
    after = transformed(n.graph(last))
    # Of three groups the middle one is constant altogether.
    assert (channels(after, first), channels(after, middle)) == (2, 4)


def test_sums_lose_channels_only_together() -> None:
    n = Network(1, 4, 4, 3)
    left = n.convolution(n.input, weights(3, 1, 1, 3), biases(HUGE, HUGE, 0))
    right = n.convolution(n.input, weights(3, 1, 1, 3), biases(HUGE, 0, 0))
    total = n.add(left, right)
    last = n.convolution(total, weights(2, 1, 1, 3), biases(1, 2))
    after = transformed(n.graph(last))
    assert [channels(after, t) for t in (left, right, total)] == [2, 2, 2]


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_constants_pass_pools_and_a_flattened_layer(op: str) -> None:
    n = Network(1, 6, 6, 2)
    first = n.convolution(n.input, weights(4, 3, 3, 2), biases(0, HUGE, 0, -HUGE))
    pooled = n.pool(op, first, 3, Padding.SAME)
    flat = n.reshape(pooled, 1, 16)
    last = n.fully_connected(flat, weights(3, 16), biases(1, 2, 3))
    after = transformed(n.graph(last))
    assert (channels(after, first), channels(after, flat)) == (2, 8)
    reshape = next(op for op in after.operators if op.op == "RESHAPE")
    assert after.tensor(reshape.inputs[1]).constant.tolist() == [1, 8]


def test_mean_and_a_fully_connected_layer_without_the_channels() -> None:
    n = Network(1, 6, 6, 2)
    first = n.convolution(n.input, weights(4, 3, 3, 2), biases(0, HUGE, 0, -HUGE))
    last = n.fully_connected(n.mean(first), weights(3, 4), biases(1, 2, 3))
    assert channels(transformed(n.graph(last)), first) == 2


def test_a_bias_is_made_where_there_is_none() -> None:
    n = Network(1, 4, 4, 2)
    first = n.convolution(n.input, weights(3, 1, 1, 2), biases(0, HUGE, 0))
    last = n.convolution(first, weights(2, 1, 1, 3))
    after = transformed(n.graph(last))
    assert len(after.operators[1].inputs) == 3


def test_a_constant_too_large_for_the_bias_stays() -> None:
    n = Network(1, 4, 4, 2)
    first = n.convolution(n.input, weights(3, 1, 1, 2), biases(0, HUGE, 0))
    kernel = np.full((2, 1, 1, 3), 100)
    last = n.convolution(first, kernel, biases((1 << 31) - 5000, 0))
    graph = n.graph(last)
    assert remove_channels(graph) is graph


def test_one_channel_is_left_where_all_are_constant() -> None:
    n = Network(1, 4, 4, 2)
    first = n.convolution(n.input, weights(3, 1, 1, 2), biases(HUGE, HUGE, -HUGE))
    last = n.convolution(first, weights(2, 1, 1, 3), biases(1, 2))
    assert channels(transformed(n.graph(last)), first) == 1


def test_two_outputs_of_per_channel_fully_connected_layers_are_left() -> None:
    """One scale would be multiplied in float32, as for a whole tensor."""
    n = Network(1, 6)
    first = n.fully_connected(n.input, weights(4, 6), biases(0, HUGE, HUGE, -HUGE), [0.0123, 0.02, 0.03, 0.04])
    last = n.fully_connected(first, weights(3, 4), biases(1, 2, 3), [0.01])
    assert channels(transformed(n.graph(last)), first) == 2


def test_left_shifts_that_leave_32_bits_prove_nothing() -> None:
    """Shifted left by 17, the sums -29,200 and 9,050 at the ends both wrap to positive numbers; -10,000 does not."""
    n = Network(1, 4, 4, 2)
    kernel = weights(3, 1, 1, 2)
    kernel[1] = 75
    scales = [0.01, 2.0**16, 0.01]
    first = n.convolution(n.input, kernel, biases(0, -10_000, 0), scales=scales)
    last = n.convolution(first, weights(2, 1, 1, 3), biases(1, 2))
    graph = n.graph(last)
    assert transformed(graph) is graph
    found = intervals(graph)[first]
    assert (found.low[..., 1] == -128).all() and (found.high[..., 1] == 127).all()


def test_widths_are_filled_up_where_few_channels_are_missing() -> None:
    n = Network(1, 4, 4, 2)
    bias = np.zeros(24, int)
    bias[[3, 9, 10, 11, 20]] = HUGE
    first = n.convolution(n.input, weights(24, 1, 1, 2), bias)
    last = n.convolution(first, weights(2, 1, 1, 24), biases(1, 2))
    after = transformed(n.graph(last))
    assert channels(after, first) == 20
    kernel = after.tensor(after.operators[1].inputs[1]).constant
    assert not kernel[..., 3].any()


def test_shared_weights_are_cut_for_each_reader() -> None:
    n = Network(1, 4, 4, 3)
    bias = biases(0, HUGE, 0)
    first = n.convolution(n.input, weights(3, 1, 1, 3), bias)
    last = n.convolution(first, weights(3, 1, 1, 3), biases(1, 2, 3))
    graph = n.graph(last)
    reader = replace(graph.operators[1], inputs=(first, *graph.operators[0].inputs[1:]))
    after = transformed(replace(graph, operators=(graph.operators[0], reader)))
    assert channels(after, first) == 2


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int, dtype: DType) -> None:
    graph = random_network(seed, dtype)
    transformed(graph, seed)
    facts = intervals(graph)
    for row in extreme_inputs(graph, seed, 2):
        values = evaluate(graph, row)
        for tensor, interval in facts.items():
            assert (interval.low <= values[tensor]).all() and (values[tensor] <= interval.high).all()


def test_random_networks_lose_channels() -> None:
    """The generator would prove nothing if the pass left its networks alone."""
    changed = [seed for seed in range(30) if remove_channels(g := random_network(seed, DType.INT8)) is not g]
    assert len(changed) >= 15
