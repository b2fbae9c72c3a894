# SPDX-License-Identifier: Apache-2.0
"""The names that a model's signatures give, signatures that cannot be honoured, variables, and constants in other
places and forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import UserError
from compiler.frontends.tflite import read_tflite
from tests.tflite_files import FileOperator, FileSignature, FileTensor, tflite_file

TENSORS = [FileTensor("a", (2,), scale=1.0), FileTensor("b", (2,), scale=1.0), FileTensor("sum", (2,), scale=1.0)]
SERVING = FileSignature("serving", 0, {"left": 0, "right": 1}, {"total": 2})


def sum_file(*signatures: FileSignature, tensors: list[FileTensor] = TENSORS) -> bytes:
    return tflite_file(tensors, [FileOperator("ADD", (0, 1), (2,))], (1, 0), (2,), signatures)


def test_inputs_are_named_by_the_signature_in_the_order_of_the_subgraph() -> None:
    graph = read_tflite(sum_file(SERVING), "m")
    assert (graph.input_names, graph.output_names) == (("right", "left"), ("total",))


def test_without_a_signature_tensors_name_themselves() -> None:
    graph = read_tflite(sum_file(), "m")
    assert (graph.input_names, graph.output_names) == (("b", "a"), ("sum",))


def test_the_first_of_several_signatures_of_the_subgraph_counts() -> None:
    other = FileSignature("other", 0, {"x": 0, "y": 1}, {"z": 2})
    assert read_tflite(sum_file(SERVING, other), "m").input_names == ("right", "left")


def test_signatures_of_other_subgraphs_are_refused_by_name() -> None:
    with pytest.raises(UserError) as refused:
        read_tflite(sum_file(SERVING, FileSignature("train", 1, {}, {})), "m")
    assert refused.value.got == "'serving' (subgraph 0), 'train' (subgraph 1)"


def test_variables_are_read_and_begin_at_their_zero_point() -> None:
    variable = replace(TENSORS[1], is_variable=True)
    graph = read_tflite(sum_file(tensors=[TENSORS[0], variable, TENSORS[2]]), "m")
    assert graph.tensor(1).is_variable
    assert not graph.tensor(0).is_variable
    assert graph.tensor(1).reset_value.tolist() == [0, 0]


def test_a_variable_with_stored_values_is_refused() -> None:
    variable = replace(TENSORS[1], is_variable=True, data=np.zeros(2, np.int8))
    with pytest.raises(UserError, match="variables with stored values"):
        read_tflite(sum_file(tensors=[TENSORS[0], variable, TENSORS[2]]), "m")


def added(constant: FileTensor) -> bytes:
    tensors = [TENSORS[0], constant, TENSORS[2]]
    return tflite_file(tensors, [FileOperator("ADD", (0, 1), (2,))], (0,), (2,))


def test_constants_behind_the_flatbuffer() -> None:
    data = added(replace(TENSORS[1], data=np.array([5, -7], np.int8), external=True))
    assert data.endswith(b"\x05\xf9")
    assert read_tflite(data, "m").tensor(1).constant.tolist() == [5, -7]


def test_constants_behind_the_flatbuffer_that_are_cut_short() -> None:
    data = added(replace(TENSORS[1], data=np.array([5, -7], np.int8), external=True))
    with pytest.raises(UserError, match="damaged or cut short") as refused:
        read_tflite(data[:-1], "m")
    assert refused.value.got == f"buffer 1 ends at byte {len(data)} of {len(data) - 1}"


def test_sparse_constants_are_refused_by_name() -> None:
    with pytest.raises(UserError, match="sparse constants are not supported") as refused:
        read_tflite(added(replace(TENSORS[1], data=np.array([5, -7], np.int8), sparse=True)), "m")
    assert refused.value.where == "m, tensor 1 'b'"


def test_constants_of_4_bits() -> None:
    data = added(FileTensor("b", (3,), "int4", 1.0, np.array([7, -8, -1], np.int8)))
    assert read_tflite(data, "m").tensor(1).constant.tolist() == [7, -8, -1]
