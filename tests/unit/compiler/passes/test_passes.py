# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.errors import UnsupportedModel, UserError
from compiler.graph import DType, Graph, Operator, Quantization, Tensor
from compiler.ops.activation import Activation
from compiler.ops.conv_2d import Conv2DAttributes
from compiler.ops.geometry import ExplicitPadding, Padding
from compiler.passes import PASSES, run_passes
from compiler.passes.fuse_activations import fuse_activations
from compiler.passes.fuse_padding import fuse_padding
from compiler.passes.remove_dead import remove_dead
from compiler.passes.remove_identities import remove_identities
from compiler.reference import outputs_of
from compiler.support import check_supported
from compiler.verifier import InvalidGraph, faults, verify

QUANTIZATION = Quantization((0.5,), (3,))


def tensor(index: int, *shape: int, data: Any = None, dtype: DType = DType.INT8, **other: Any) -> Tensor:
    array = None if data is None else np.asarray(data, dtype.numpy).reshape(shape)
    quantization = other.pop("quantization", QUANTIZATION if dtype is DType.INT8 else None)
    return Tensor(index, f"t{index}", dtype, shape, quantization, array, **other)


def graph(tensors: list[Tensor], operators: list[Operator], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
    return Graph("test", {t.index: t for t in tensors}, tuple(operators), inputs, outputs)


def padded_convolution(paddings: list[int], activation: Activation = Activation.NONE) -> Graph:
    """0 -> PAD -> 2 -> CONV_2D (3x3, stride 2, VALID) -> 4, on a 1x6x7x2 image."""
    top, bottom, left, right = paddings[2:6]
    height, width = 6 + top + bottom, 7 + left + right
    weights = np.random.default_rng(1).integers(-127, 128, (3, 3, 3, 2))
    return graph(
        [
            tensor(0, 1, 6, 7, 2),
            tensor(1, 4, 2, data=paddings, dtype=DType.INT32),
            tensor(2, 1, height, width, 2 + sum(paddings[6:])),
            tensor(3, 3, 3, 3, 2, data=weights, quantization=Quantization((0.01,), (0,))),
            tensor(4, 1, (height - 1) // 2, (width - 1) // 2, 3),
        ],
        [
            Operator(0, "PAD", (0, 1), (2,)),
            Operator(1, "CONV_2D", (2, 3), (4,), Conv2DAttributes(Padding.VALID, 2, 2, activation=activation)),
        ],
        (0,),
        (4,),
    )


def test_padding_is_fused_and_the_bytes_stay() -> None:
    before = padded_convolution([0, 0, 1, 0, 0, 2, 0, 0])
    after = run_passes(before)
    (convolution,) = after.operators
    assert convolution.inputs == (0, 3)
    assert convolution.attributes.padding == ExplicitPadding(1, 0, 0, 2)
    x = np.random.default_rng(2).integers(-128, 128, (1, 6, 7, 2)).astype(np.int8)
    assert np.array_equal(outputs_of(before, [x])[0], outputs_of(after, [x])[0])


def test_same_padding_adds_to_the_fused() -> None:
    before = padded_convolution([0, 0, 1, 1, 1, 1, 0, 0])
    same = replace(before.operators[1], attributes=Conv2DAttributes(Padding.SAME, 2, 2))
    before = replace(before.with_tensors(tensor(4, 1, 4, 5, 3)), operators=(before.operators[0], same))
    (convolution,) = run_passes(before).operators
    # 8 rows need one more below; 9 columns one on each side.
    assert convolution.attributes.padding == ExplicitPadding(1, 2, 2, 2)
    x = np.random.default_rng(3).integers(-128, 128, (1, 6, 7, 2)).astype(np.int8)
    assert np.array_equal(outputs_of(before, [x])[0], outputs_of(run_passes(before), [x])[0])


def test_padding_of_channels_or_beyond_the_window_is_not_fused() -> None:
    wide = padded_convolution([0, 0, 3, 0, 0, 0, 0, 0])
    assert fuse_padding(wide) == wide


def test_a_pad_with_another_reader_stays() -> None:
    before = padded_convolution([0, 0, 1, 1, 1, 1, 0, 0])
    before = replace(before, outputs=(4, 2))
    assert [op.op for op in run_passes(before).operators] == ["PAD", "CONV_2D"]


def convolution_and_relu(between: Quantization, result: Quantization) -> Graph:
    weights = np.random.default_rng(1).integers(-127, 128, (3, 1, 1, 2))
    return graph(
        [
            tensor(0, 1, 4, 4, 2),
            tensor(1, 3, 1, 1, 2, data=weights, quantization=Quantization((0.01,), (0,))),
            tensor(2, 1, 4, 4, 3, quantization=between),
            tensor(3, 1, 4, 4, 3, quantization=result),
        ],
        [
            Operator(0, "CONV_2D", (0, 1), (2,), Conv2DAttributes(Padding.VALID, 1, 1)),
            Operator(1, "RELU6", (2,), (3,)),
        ],
        (0,),
        (3,),
    )


def test_an_activation_is_fused_where_it_only_clamps() -> None:
    before = convolution_and_relu(Quantization((0.1,), (-5,)), Quantization((0.1,), (-5,)))
    after = run_passes(before)
    (convolution,) = after.operators
    assert (convolution.outputs, convolution.attributes.activation) == ((3,), Activation.RELU6)
    x = np.random.default_rng(4).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    assert np.array_equal(outputs_of(before, [x])[0], outputs_of(after, [x])[0])


def test_an_activation_that_rescales_is_not_fused() -> None:
    before = convolution_and_relu(Quantization((0.1,), (-5,)), Quantization((0.2,), (-5,)))
    assert fuse_activations(before) == before


def test_an_activation_beside_another_reader_is_not_fused() -> None:
    before = convolution_and_relu(QUANTIZATION, QUANTIZATION)
    shared = replace(before, outputs=(3, 2))
    assert fuse_activations(shared) == shared


def test_a_shape_chain_folds() -> None:
    from compiler.ops.pack import PackAttributes
    from compiler.ops.strided_slice import StridedSliceAttributes

    def integers(index: int, *shape: int, data: Any = None) -> Tensor:
        return tensor(index, *shape, data=data, dtype=DType.INT32)

    before = graph(
        [
            tensor(0, 1, 4, 3), integers(1, 3), integers(2, 1, data=[0]), integers(3, 1, data=[1]),
            integers(4, 1, data=[1]), integers(5), integers(6, data=12), integers(7, 2), tensor(8, 1, 12),
        ],
        [
            Operator(0, "SHAPE", (0,), (1,)),
            Operator(1, "STRIDED_SLICE", (1, 2, 3, 4), (5,), StridedSliceAttributes(shrink_axis_mask=1)),
            Operator(2, "PACK", (5, 6), (7,), PackAttributes(0)),
            Operator(3, "RESHAPE", (0, 7), (8,)),
        ],
        (0,),
        (8,),
    )  # fmt: skip
    after = run_passes(before)
    (reshape,) = after.operators
    assert after.tensor(reshape.inputs[1]).constant.tolist() == [1, 12]


def test_a_shape_that_is_not_known_is_refused() -> None:
    before = graph(
        [tensor(0, 1, 12), tensor(1, 2, dtype=DType.INT32), tensor(2, 3, 4)],
        [Operator(0, "RESHAPE", (0, 1), (2,))],
        (0, 1),
        (2,),
    )
    with pytest.raises(UnsupportedModel, match=r"computed at run time\. The new shape must be constant"):
        check_supported(run_passes(before), "test")


def test_identities_and_dead_operators_go() -> None:
    before = graph(
        [tensor(0, 2, 3), tensor(1, 2, 3), tensor(2, 3, 2), tensor(3, 6)],
        [
            Operator(0, "RESHAPE", (0,), (1,)),
            Operator(1, "RESHAPE", (1,), (2,)),
            Operator(2, "RESHAPE", (1,), (3,)),
        ],
        (0,),
        (2,),
    )
    (kept,) = remove_dead(remove_identities(before)).operators
    assert (kept.index, kept.inputs, kept.outputs) == (1, (0,), (2,))


def test_an_identity_that_makes_an_output_stays() -> None:
    before = graph([tensor(0, 2, 3), tensor(1, 2, 3)], [Operator(0, "RESHAPE", (0,), (1,))], (0,), (1,))
    assert run_passes(before).operators == before.operators


def test_passes_are_described() -> None:
    assert len({step.name for step in PASSES}) == len(PASSES)
    assert all(step.does for step in PASSES)


def reshape(*operands: int, output: int) -> Operator:
    return Operator(0, "RESHAPE", operands, (output,))


@pytest.mark.parametrize(
    ("fault", "tensors", "operators", "inputs", "outputs"),
    [
        ("output 1 is not produced", [tensor(0, 2), tensor(1, 2)], [], (0,), (1,)),
        ("before it is produced", [tensor(0, 2), tensor(1, 2), tensor(2, 2)], [reshape(2, output=1)], (0,), (1,)),
        ("reads tensor 9, which does not exist", [tensor(0, 2), tensor(1, 2)], [reshape(9, output=1)], (0,), (1,)),
        ("name tensor 7", [tensor(0, 2)], [], (0,), (7,)),
        ("another operator", [tensor(0, 2), tensor(1, 2)], [reshape(0, output=1)] * 2, (0,), (1,)),
        ("an input or a constant", [tensor(0, 2), tensor(1, 2)], [reshape(1, output=0)], (0, 1), (0,)),
        ("shape [-1]", [tensor(0, -1)], [], (0,), (0,)),
        (
            "3 scales along axis 0 of [2]",
            [tensor(0, 2, quantization=Quantization((1.0,) * 3, (0,) * 3))],
            [],
            (0,),
            (0,),
        ),
        ("2 scales and 1 zero", [tensor(0, 2, quantization=Quantization((1.0, 1.0), (0,)))], [], (0,), (0,)),
        ("holds int32[2]", [replace(tensor(0, 2), data=np.zeros(2, np.int32))], [], (), (0,)),
        ("listed twice", [tensor(0, 2)], [], (0, 0), (0,)),
    ],
)
def test_faults(
    fault: str, tensors: list[Tensor], operators: list[Operator], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    bad = graph(tensors, operators, inputs, outputs)
    assert any(fault in found for found in faults(bad))
    with pytest.raises(InvalidGraph, match="invalid after somewhere"):
        verify(bad, "somewhere")
    with pytest.raises(UserError, match="contradicts itself"):
        run_passes(bad)


def test_all_unsupported_operators_are_listed() -> None:
    bad = graph(
        [tensor(0, 2), tensor(1, 2), tensor(2, 2), tensor(3, 5)],
        [
            Operator(4, "UNHEARD_OF", (0,), (1,)),
            Operator(5, "CUSTOM:Mine", (1,), (2,)),
            Operator(6, "RESHAPE", (2,), (3,)),
        ],
        (0,),
        (3,),
    )
    with pytest.raises(UnsupportedModel) as caught:
        check_supported(bad, "model.tflite")
    assert caught.value.reasons == (
        "operator 4 UNHEARD_OF ('t1'): not a supported operator",
        "operator 5 CUSTOM:Mine ('t2'): not a supported operator: custom, its code is not in the file",
        "operator 6 RESHAPE ('t3'): input [2], output [5]. The output has as many elements as input 0.",
    )
    assert "model.tflite" in str(caught.value)
