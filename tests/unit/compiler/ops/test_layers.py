# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import DType
from compiler.kernels.kernel import INPUT, OUTPUT, SCRATCH, Constant, Kernel, KernelCall, KernelFunction, Lowered, Place
from compiler.kernels.problems import DepthwiseConv2D
from compiler.ops import conv_2d, layers
from compiler.ops.activation import Activation, quantized_range, round_half_away
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.fully_connected import FullyConnectedAttributes, problem
from compiler.ops.geometry import ExplicitPadding, Padding, Slide

from .build import evaluate, refusal, tensor, view


class _Copy(Kernel):
    parameters = ("source", "target", "scratch", "table", "count")

    @property
    def name(self) -> str:
        return "copy"

    def build(self, f: KernelFunction) -> None:
        raise NotImplementedError


def test_one_image_repeats_for_a_batch() -> None:
    one = Lowered((KernelCall(_Copy(), (INPUT, OUTPUT, SCRATCH, Constant(b"1234"), 3)),), 32, 10)
    batch = layers.per_image(one, 3, 100, 40)
    assert batch.scratch_bytes == 32
    assert batch.macs == 30
    last = batch.calls[2].arguments
    assert last[:3] == (Place(INPUT.role, 0, 200), Place(OUTPUT.role, 0, 80), SCRATCH)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (Activation.NONE, (-128, 127)),
        (Activation.RELU, (-10, 127)),
        (Activation.RELU6, (-10, 50)),
        (Activation.RELU_N1_TO_1, (-20, 0)),
    ],
)
def test_quantized_range(activation: Activation, expected: tuple[int, int]) -> None:
    assert quantized_range(activation, tensor(0, (1,), scale=0.1, zero_point=-10)) == expected


def test_rounding_is_half_away_from_zero() -> None:
    assert [round_half_away(x) for x in (0.5, 1.5, 2.5, -0.5, -1.5, 0.49)] == [1, 2, 3, -1, -2, 0]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "output", "leading", "trailing"),
    [
        (8, 3, 2, 1, 4, 0, 1),
        (9, 3, 2, 1, 5, 1, 1),
        (8, 4, 2, 1, 4, 1, 1),
        (8, 2, 1, 1, 8, 0, 1),
        (7, 3, 1, 2, 7, 2, 2),
        (3, 5, 1, 1, 3, 2, 2),
    ],
)
def test_same_padding_is_asymmetric(
    size: int, kernel: int, stride: int, dilation: int, output: int, leading: int, trailing: int
) -> None:
    slide = Slide(kernel, 1, stride, 1, Padding.SAME, dilation, 1)
    assert slide.output_shape(size, 5) == (output, 5)
    window = slide.window(tensor(0, (1, size, 5, 2)), tensor(1, (1, output, 5, 2)))
    assert (window.pad_top, window.pad_bottom) == (leading, trailing)
    assert (window.pad_left, window.pad_right) == (0, 0)


def test_explicit_padding() -> None:
    slide = Slide(3, 3, 2, 2, ExplicitPadding(0, 1, 2, 0))
    assert slide.output_shape(8, 7) == (4, 4)
    window = slide.window(tensor(0, (1, 8, 7, 1)), tensor(1, (1, 4, 4, 1)))
    assert (window.pad_top, window.pad_bottom, window.pad_left, window.pad_right) == (0, 1, 2, 0)


ATTRIBUTES = Conv2DAttributes(Padding.VALID, 1, 1)


def test_conv_2d_by_hand() -> None:
    v = view(
        "CONV_2D",
        [
            tensor(0, (1, 2, 2, 1), zero_point=1),
            tensor(1, (1, 2, 2, 1), data=[1, 2, 3, 4]),
            tensor(2, (1,), DType.INT32, data=[7]),
        ],
        tensor(3, (1, 1, 1, 1), scale=2.0, zero_point=-3),
        ATTRIBUTES,
    )
    assert refusal(v) is None
    # (1 + 4 + 9 + 16 + 7) / 2 = 18.5 rounds to 19.
    assert evaluate(v, [2, 3, 4, 5]).tolist() == [[[[16]]]]


def test_groups_of_one_channel_are_depthwise() -> None:
    weights = np.arange(8).reshape(4, 1, 2, 1)
    v = view(
        "CONV_2D", [tensor(0, (1, 1, 2, 2)), tensor(1, (4, 1, 2, 1), data=weights)], tensor(2, (1, 1, 1, 4)), ATTRIBUTES
    )
    assert refusal(v) is None
    assert isinstance(conv_2d.problem(v), DepthwiseConv2D)
    assert evaluate(v, [1, 10, 2, 20]).tolist() == [[[[2, 8, 127, 127]]]]


def test_groups_are_zero_outside_their_channels() -> None:
    weights = np.arange(1, 9, dtype=np.int8).reshape(4, 1, 1, 2)
    dense = conv_2d.ungrouped(weights, 4)
    assert dense[:, 0, 0].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]


def test_conv_2d_refusals() -> None:
    source, output = tensor(0, (1, 2, 2, 2)), tensor(3, (1, 2, 2, 4))
    weights = tensor(1, (4, 1, 1, 2), data=np.ones(8))
    ok = view("CONV_2D", [source, weights], output, ATTRIBUTES)
    assert refusal(ok) is None

    def got(*inputs: object, output: object = output, attributes: Conv2DAttributes = ATTRIBUTES) -> str:
        message = refusal(view("CONV_2D", list(inputs), output, attributes))  # type: ignore[arg-type]
        assert message is not None
        return message

    assert "must be constant" in got(source, tensor(1, (4, 1, 1, 2)))
    assert "output [1, 2, 2, 4], not [1, 1, 1, 4]" in got(
        source, weights, attributes=replace(ATTRIBUTES, stride_height=2, stride_width=2)
    )
    assert "strides (0, 1)" in got(source, weights, attributes=replace(ATTRIBUTES, stride_height=0))
    assert "TANH" in got(source, weights, attributes=replace(ATTRIBUTES, activation=Activation.TANH))
    assert "filter [4, 1, 1, 3]" in got(source, tensor(1, (4, 1, 1, 3), data=np.ones(12)))
    assert "zero point 5" in got(source, tensor(1, (4, 1, 1, 2), data=np.ones(8), zero_point=5))
    assert "3 scales along axis 0 for 4 output channels" in got(
        source, tensor(1, (4, 1, 1, 2), data=np.ones(8), scale=(1.0, 1.0, 1.0))
    )
    assert "UINT8, INT8, INT8" in got(tensor(0, (1, 2, 2, 2), DType.UINT8), weights)
    assert "has scale 0" in got(tensor(0, (1, 2, 2, 2), scale=0.0), weights)
    assert "3 biases" in got(source, weights, tensor(2, (3,), DType.INT32, data=[1, 2, 3]))


def test_fully_connected_rounds_the_product_of_scales_to_float32() -> None:
    a, b = float(np.float32(0.1)), float(np.float32(0.3))
    weights = tensor(1, (2, 3), scale=b, data=np.ones(6))
    v = view("FULLY_CONNECTED", [tensor(0, (1, 3), scale=a), weights], tensor(2, (1, 2)), FullyConnectedAttributes())
    single = problem(v).requantization
    per_channel = view(
        "FULLY_CONNECTED",
        [tensor(0, (1, 3), scale=a), replace(weights, quantization=tensor(1, (2,), scale=(b, b)).quantization)],
        tensor(2, (1, 2)),
        FullyConnectedAttributes(),
    )
    assert single.multipliers[0] == single.multipliers[1]
    assert single.multipliers[0] != problem(per_channel).requantization.multipliers[0]


def test_int16_accumulates_in_64_bits_unless_the_bias_is_int32() -> None:
    def wide(bias: DType | None) -> bool:
        inputs = [tensor(0, (1, 1), DType.INT16), tensor(1, (1, 1), data=[1])]
        if bias:
            inputs.append(tensor(2, (1,), bias, data=[0]))
        return problem(view("FULLY_CONNECTED", inputs, tensor(3, (1, 1), DType.INT16), FullyConnectedAttributes())).wide

    assert [wide(DType.INT32), wide(DType.INT64), wide(None)] == [False, True, True]


def test_reshape_is_an_alias() -> None:
    from compiler.ops import operators

    v = view("RESHAPE", [tensor(0, (2, 3))], tensor(1, (6, 1)))
    assert refusal(v) is None
    assert operators()["RESHAPE"].lower(v, None).is_alias  # type: ignore[arg-type]
    assert evaluate(v, range(6)).shape == (6, 1)
    assert "input [2, 3], output [5]" in str(refusal(view("RESHAPE", [tensor(0, (2, 3))], tensor(1, (5,)))))


@pytest.mark.parametrize("bias", [1 << 46, -(1 << 46), -(1 << 63), (1 << 63) - 1])
def test_biases_beyond_what_the_reference_rescales(bias: int) -> None:
    source, output = (tensor(i, (1, 2), DType.INT16, 0.01) for i in (0, 3))
    weights = tensor(1, (2, 2), DType.INT8, 0.01, data=np.ones((2, 2)))
    v = view("FULLY_CONNECTED", [source, weights, tensor(2, (2,), DType.INT64, 1e-4, data=[0, bias])], output,
             FullyConnectedAttributes())  # fmt: skip
    told = f"INT64 biases are below 2**46: the reference rescales sums of 48 bits.: 't2' reaches {abs(bias)}"
    assert refusal(v) == told
