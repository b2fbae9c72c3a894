# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boards.loader import load_board
from compiler.artifact import Port
from compiler.errors import UserError
from compiler.graph import DType
from tests.firmware.fake import input_port, output_port
from toolchain.cnames import c_comment, c_float, c_text, c_type, c_values, identifier
from toolchain.sources import fixed_point


@pytest.mark.parametrize("scale", (1 / 256, 1 / 128, 0.0235, 0.9, 3.7, 1e-6, 211.0, 1 / 32768))
@pytest.mark.parametrize(("dtype", "zero"), ((DType.INT8, -128), (DType.INT8, 3), (DType.UINT8, 0), (DType.INT16, 0)))
def test_fixed_point_agrees_with_floats(scale: float, dtype: DType, zero: int) -> None:
    port = replace(output_port(), dtype=dtype, scales=(scale,), zero_points=(zero,))
    fixed = fixed_point(port)
    assert fixed is not None
    limits = np.iinfo(dtype.numpy)
    q = np.arange(limits.min, limits.max + 1, dtype=np.int64)
    products = (q - zero) * fixed.multiplier + fixed.rounding
    assert products.max() < 2**31 and products.min() >= -(2**31)
    shown = (products >> fixed.shift) / 10.0**fixed.decimals
    exact = (q - zero) * scale
    assert np.all(np.abs(shown - exact) <= 0.51 * 10.0**-fixed.decimals + np.abs(exact) * 2e-4)
    assert len(set(shown)) == len(q) or scale * 10**9 < 1


def test_outputs_without_one_scale_have_no_fixed_point() -> None:
    assert fixed_point(replace(output_port(), scales=(0.1, 0.2), zero_points=(0, 0))) is None
    assert fixed_point(replace(output_port(), scales=(), zero_points=())) is None
    assert fixed_point(replace(output_port(), dtype=DType.FLOAT32)) is None


def test_c_values() -> None:
    assert c_values(np.array([-1, 127], np.int8).tobytes(), DType.INT8) == "-1, 127"
    assert c_values(np.array([-(2**31), 5], np.int32).tobytes(), DType.INT32) == "(-2147483647 - 1), 5"
    assert c_values(np.array([0.1, -0.0], np.float32).tobytes(), DType.FLOAT32) == "0.10000000149011612f, -0.0f"
    assert float(np.float32(c_float(1 / 3)[:-1])) == np.float32(1 / 3)
    assert c_type(DType.BOOL) == "uint8_t"
    assert identifier("serving_default_x:0/a--b") == "serving_default_x_0_a_b"
    with pytest.raises(UserError, match="without a C interface"):
        c_type(DType.STRING)


def test_the_host_draws_what_the_firmware_draws() -> None:
    """The first states of the generator from seed 1, by Marsaglia's definition."""
    from compiler.selftest import generate_inputs

    states = [270369, 67634689, 2647435461, 307599695]
    ports = [replace(input_port(), dtype=dtype, shape=(4,), bytes=4 * dtype.bytes) for dtype in DTYPES]
    for port in ports:
        (drawn,) = generate_inputs([port], 1)
        assert drawn.dtype == port.dtype.numpy and drawn.shape == (4,)
        assert drawn.tolist() == [wanted(state, port) for state in states]
    first, second = generate_inputs([replace(ports[0], shape=(2,), bytes=2)] * 2, 1)
    assert [*first.tolist(), *second.tolist()] == [wanted(state, ports[0]) for state in states]
    with pytest.raises(ValueError, match="seed 0"):
        generate_inputs(ports, 0)


DTYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT32, DType.INT32, DType.BOOL)


def wanted(state: int, port: Port) -> float:
    byte = (state & 255) - (256 if state & 128 else 0)
    short = (state & 65535) - (65536 if state & 32768 else 0)
    by_type = {DType.INT8: byte, DType.UINT8: state & 255, DType.INT16: short, DType.FLOAT32: byte / 64}
    return by_type.get(port.dtype, state & 1)


def test_every_board_has_its_templates() -> None:
    from boards.loader import board_names
    from toolchain.templates import TEMPLATES

    for name in board_names():
        board = load_board(name)
        assert (TEMPLATES / "startup" / f"{board.startup}.S.j2").is_file()
        for console in (board.console, board.emulator.console):
            assert (TEMPLATES / "uart" / f"{console.driver}.c.j2").is_file()


def test_any_text_in_literals_and_comments() -> None:
    assert c_text("plain-1.tflite") == "plain-1.tflite"
    assert c_text('a"b\\c\n??/') == r"a\042b\134c\012\077\077/"
    assert c_text("\u00fc") == r"\303\274"
    assert c_text("\udcff") == r"\377"
    assert c_comment("a\nb */ /* c") == "a b * / / * c"
    assert c_comment("/*/*/") == "/ * / * /"
    assert c_comment("\udcff") == "?"
