# SPDX-License-Identifier: Apache-2.0
"""Element types and values as C writes them."""

from __future__ import annotations

import re

import numpy as np

from compiler.errors import UserError
from compiler.graph import DType

C_TYPES = {
    DType.FLOAT32: "float",
    DType.INT8: "int8_t",
    DType.UINT8: "uint8_t",
    DType.INT16: "int16_t",
    DType.UINT16: "uint16_t",
    DType.INT32: "int32_t",
    DType.UINT32: "uint32_t",
    DType.INT64: "int64_t",
    DType.UINT64: "uint64_t",
    DType.BOOL: "uint8_t",
}


def c_type(dtype: DType) -> str:
    """The C type of an element. UserError for types that no C interface is made for."""
    if dtype not in C_TYPES:
        raise UserError(
            "an input or output has a type without a C interface",
            got=dtype.name,
            allowed=", ".join(sorted(known.name for known in C_TYPES)),
        )
    return C_TYPES[dtype]


def c_float(value: float) -> str:
    """A float32 literal that reads back as the same value."""
    text = repr(float(np.float32(value)))
    if text in ("inf", "-inf", "nan"):
        return {"inf": "__builtin_inff()", "-inf": "-__builtin_inff()", "nan": '__builtin_nanf("")'}[text]
    return f"{text}f"


def c_values(data: bytes, dtype: DType) -> str:
    """The elements of `data` (little endian), comma separated."""
    values = np.frombuffer(data, dtype=dtype.numpy.newbyteorder("<"))
    if dtype is DType.FLOAT32:
        return ", ".join(c_float(value) for value in values)
    if dtype in (DType.INT64, DType.UINT64):
        suffix = "ll" if dtype is DType.INT64 else "ull"
        return ", ".join("(-9223372036854775807ll - 1)" if v == -(2**63) else f"{v}{suffix}" for v in values.tolist())
    if dtype is DType.INT32:
        return ", ".join("(-2147483647 - 1)" if v == -(2**31) else str(v) for v in values.tolist())
    suffix = "u" if dtype is DType.UINT32 else ""
    return ", ".join(f"{int(value)}{suffix}" for value in values)


def c_draw(dtype: DType) -> str:
    """The next input element from `next_random()`; compiler/selftest.py draws the same in Python."""
    if dtype is DType.FLOAT32:
        return "(float)(int8_t)next_random() / 64.0f"
    if dtype in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        return f"({c_type(dtype)})next_random()"
    return "next_random() & 1"


def c_text(text: str) -> str:
    """What stands between the quotes of a string literal for `text`, on one line; bytes outside ASCII in octal."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "surrogateescape")
    )


def c_comment(text: object) -> str:
    """`text` inside a comment: on one line, without the beginning and the end of comments."""
    line = " ".join(str(text).split()).replace("*/", "* /").replace("/*", "/ *")
    return line.encode("utf-8", "replace").decode()


def identifier(text: str) -> str:
    """`text` as a C identifier: what is not a letter or digit becomes one underscore."""
    return re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")
