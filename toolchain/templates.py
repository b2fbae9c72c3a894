# SPDX-License-Identifier: Apache-2.0
"""Rendering of firmware_templates/: an undefined name is an error, and every error names the template and the line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import jinja2

from compiler.errors import UserError
from toolchain.cnames import c_comment, c_draw, c_float, c_text, c_type, c_values

TEMPLATES = Path(__file__).parent.parent / "firmware_templates"

BAUD_TOLERANCE = 0.025
"""Largest relative error of a baud rate: a frame of 10 bits, sampled in its middle, bears 5 % over both ends."""


class TemplateError(Exception):
    """A fault in a template: internal, never the user's."""


def render(name: str, values: Mapping[str, object]) -> str:
    """The text of firmware_templates/<name>.j2. TemplateError with the template's name and line where it is at fault;
    UserError where a template refuses the board's data or has no such file for it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=name.endswith(".html"),
    )
    filters: dict[str, Callable[..., object]] = {
        "c_draw": c_draw,
        "c_float": c_float,
        "c_type": c_type,
        "c_values": c_values,
        "c_text": c_text,
        "comment": c_comment,
        "hex": lambda value: f"0x{value:08X}",
    }
    environment.filters.update(filters)
    environment.globals["divisor"] = divisor
    try:
        return environment.get_template(f"{name}.j2").render(values)
    except jinja2.TemplateNotFound as error:
        directory = (TEMPLATES / str(error.name)).parent
        allowed = sorted(path.name.split(".")[0] for path in directory.glob("*.j2"))
        raise UserError(
            "the board asks for a firmware template that does not exist",
            where=f"firmware_templates/{error.name}",
            got=Path(str(error.name)).name.split(".")[0],
            allowed=", ".join(allowed),
        ) from error
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{error.name}:{error.lineno}: {error.message}") from error
    except jinja2.TemplateError as error:
        raise TemplateError(f"{_origin(error)}: {error.message}") from error


def _origin(error: jinja2.TemplateError) -> str:
    """The innermost template line on the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
    return f"{Path(frames[-1].filename).relative_to(TEMPLATES)}:{frames[-1].lineno}" if frames else "template"


def divisor(clock_hz: int, rate: int, least: int) -> int:
    """The divider that brings `clock_hz` nearest to `rate`, both in Hz.

    UserError where it is under `least` (what the UART can do) or more than BAUD_TOLERANCE off.
    """
    value = (clock_hz + rate // 2) // rate
    if value < least or abs(clock_hz / (value * rate) - 1) > BAUD_TOLERANCE:
        raise UserError(
            "the console's baud rate cannot be made from its clock",
            got=f"a clock of {clock_hz} Hz, divided to {rate} Hz",
            allowed=f"a divider of at least {least}, at most {BAUD_TOLERANCE:.1%} off",
            hint="give the board a lower baud rate in its file",
        )
    return value
