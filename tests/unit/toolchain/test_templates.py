# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from compiler.errors import UserError
from toolchain import templates
from toolchain.templates import TemplateError, divisor, render


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(templates, "TEMPLATES", tmp_path)
    return tmp_path


def test_an_undefined_name_is_an_error_with_its_line(folder: Path) -> None:
    (folder / "uart").mkdir()
    (folder / "a.c.j2").write_text("one\n{% include 'uart/b.c.j2' %}\n")
    (folder / "uart" / "b.c.j2").write_text("two\nthree\n{{ nothing }}\n")
    with pytest.raises(TemplateError, match=r"uart/b.c.j2:3: 'nothing' is undefined"):
        render("a.c", {})


def test_a_syntax_error_names_its_line(folder: Path) -> None:
    (folder / "a.c.j2").write_text("one\n{% if %}\n")
    with pytest.raises(TemplateError, match=r"^a\.c\.j2:2: "):
        render("a.c", {})


def test_a_driver_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(UserError, match=r"cmsdk_uart, .*stm32_usart_v1") as caught:
        render("uart/morse.c", {})
    assert caught.value.got == "morse" and caught.value.where == "firmware_templates/uart/morse.c.j2"


def test_baud_rates() -> None:
    assert divisor(8_000_000, 115200, 16) == 69
    assert divisor(16_000_000, 115200, 16) == 139
    with pytest.raises(UserError, match=r"baud rate cannot be made"):
        divisor(1_000_000, 115200, 16)
    with pytest.raises(UserError, match=r"at most 2.5% off"):
        divisor(1_000_000, 300_000, 1)
