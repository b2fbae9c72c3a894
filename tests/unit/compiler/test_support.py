# SPDX-License-Identifier: Apache-2.0
"""What is said of operators that nothing defines."""

from __future__ import annotations

import pytest

from compiler.errors import UnsupportedModel
from compiler.frontends.tflite import read_tflite
from compiler.support import check_supported
from tests.tflite_files import FileOperator, FileTensor, tflite_file


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("SignalFilterBankLog", "compute the features in the application"),
        ("TFLite_Detection_PostProcess", "end the model before it"),
        ("CIRCULAR_BUFFER", "it ends most runs of the model early"),
        ("ethos-u", "use the model from before Vela"),
        ("my_operator", "custom, its code is not in the file"),
    ],
)
def test_custom_operators_are_told_why(op: str, told: str) -> None:
    data = tflite_file([FileTensor(n, (4,), "float32") for n in "xy"], [FileOperator(op, (0,), (1,))], (0,), (1,))
    with pytest.raises(UnsupportedModel) as refused:
        check_supported(read_tflite(data, "m"), "m")
    assert f"operator 0 CUSTOM:{op} ('y'): not a supported operator: " in str(refused.value)
    assert told in str(refused.value)
