# SPDX-License-Identifier: Apache-2.0
"""Applications that use libc and libm, and C++ with virtual functions and constructors."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.errors import UserError
from tests.firmware.fake import fake_model
from tests.firmware.test_applications import app, heard
from toolchain.firmware import build_firmware

BOARDS = ("microbit", "qemu_m3", "qemu_m4f", "qemu_rv32imac", "qemu_rv32imafc", "qemu_rv32ec", "ch32v307")

C = """
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

static void show(long value)
{
    firmware_put_number((int32_t)value);
    firmware_put(' ');
}

int main(void)
{
    char text[16] = "-1234 ", *end;
    volatile float x = 1.0f;
    volatile double d = 0.5;
    fake_invoke();
    show((long)(sinf(x) * 100000.0f));
    show((long)(expf(x) * 10000.0f));
    show((long)(powf(2.0f * x, 2.5f) * 10000.0f));
    show((long)(tanhf(x) * 100000.0f));
    show((long)(sin(d) * 100000.0));
    show(strtol(text, &end, 10));
    show(end - text);
    show((long)strtoul("ff", NULL, 16));
    show(atoi("77"));
    show(errno);
    show(strtol("99999999999", NULL, 10) == 2147483647L && errno == ERANGE);
    strcpy(text, "abc");
    strcat(text, "def");
    show((long)strlen(text));
    show(strcmp(text, "abcdeg") < 0);
    show(memcmp(text, "abcdef", 6));
    show(toupper('a') + (isdigit('1') != 0));
    firmware_put_text(strchr(text, 'd'));
    firmware_put_text(strstr(text, "ef"));
    firmware_put_text(" end");
    for (;;) {
    }
}
"""
C_SAYS = "84147 27182 56568 76159 47942 -1234 5 255 77 0 1 6 1 0 66 defef end"

CPP = """
struct Filter {
    int order;
    __attribute__((noinline)) Filter() : order(3) {}
    virtual int step(int x) = 0;
    virtual int twice(int x) { return 2 * x; }
};
struct Gain final : Filter {
    int factor;
    __attribute__((noinline)) explicit Gain(int f) : factor(f) {}
    int step(int x) override { return factor * x + order; }
};
static Gain gain(atoi("7"));
static int started = gain.step(1);
CALLED
int main()
{
    fake_invoke();
    firmware_put_number(CALL(6));
    firmware_put(' ');
    firmware_put_number(gain.twice(started));
    firmware_put_text(" end");
    for (;;) {
    }
}
"""
"""The constructor of the class without `step` writes a table with __cxa_pure_virtual in it."""
DYNAMIC = "Filter *volatile filter = &gain;"


@pytest.mark.parametrize("name", BOARDS)
def test_functions_of_libc_and_libm(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    options = app(tmp_path / "user", main_c=C)
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
    text, used = heard(board, result, "end")
    bound = result.twin_stack or result.stack
    assert text == C_SAYS
    assert 0 < used <= bound.program


@pytest.mark.parametrize("name", BOARDS)
def test_virtual_functions_and_constructors(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    options = app(tmp_path / "user", main_cpp=CPP.replace("CALLED", "").replace("CALL", "gain.step"))
    result = build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
    assert heard(board, result, "end")[0] == "45 20 end"


@pytest.mark.parametrize("name", ("qemu_m3", "qemu_rv32ec"))
def test_a_call_that_only_the_run_decides_is_refused(tmp_path: Path, name: str) -> None:
    board = load_board(name)
    options = app(tmp_path / "user", main_cpp=CPP.replace("CALLED", DYNAMIC).replace("CALL", "filter->step"))
    with pytest.raises(UserError, match="the stack of main has no bound: an indirect call"):
        build_firmware(board, fake_model(board, tmp_path), tmp_path / "out", options)
