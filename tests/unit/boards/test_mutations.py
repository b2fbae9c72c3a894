# SPDX-License-Identifier: Apache-2.0
"""Board files with slips of all kinds: read, or refused in words, never anything else."""

from __future__ import annotations

import random
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from boards.loader import ROOT, load_board
from compiler.errors import UserError

BOARDS = ("bluepill", "ch32v003", "esp32c3", "f4discovery", "feather_nrf52832", "hifive1b", "pico", "qemu_m55")
EACH = 250
VALUES = (
    "0", "-1", '""', "[]", "{}", "true", "1e99", "0x100000000", "nan", "inf", '"\\u0000"', "[[]]", "[{}]",
    '{ name = "A" }',
    '"flash"', '"ram"', "9" * 20, "1979-05-27", '"../x"', "0.5", "'''", "=", "[max]", "#",
)  # fmt: skip
CHARACTERS = '"{}[]=,.#x0\t\x00é'
TOKEN = re.compile(r'"[^"]*"|0x[0-9A-Fa-f]+|\b\d+\b')


def files_of(name: str, root: Path) -> list[Path]:
    """A folder of boards with this one alone. The file of its chip comes more often than others."""
    shutil.copytree(ROOT / "chips", root / "chips", dirs_exist_ok=True)
    for file in ("cores", "machines", name):
        shutil.copy(ROOT / f"{file}.toml", root)
    own = root / f"{name}.toml"
    chip = tomllib.loads(own.read_text()).get("chip")
    return [own, root / "cores.toml", root / "machines.toml", *[root / "chips" / f"{chip}.toml"] * (4 if chip else 0)]


def mutated(text: str, draw: random.Random) -> str:
    """The text with one slip: a line lost, doubled, cut or with a key, a value or a character changed."""
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    line = lines[at]
    where = draw.randrange(len(line)) if line else 0
    kind = draw.randrange(7)
    tokens = list(TOKEN.finditer(line))
    if kind == 0:
        lines.pop(at)
    elif kind == 1:
        lines.insert(at, draw.choice(lines))
    elif kind == 2:
        lines[at] = line[:where]
    elif kind == 3:
        lines[at] = line[:where] + draw.choice(CHARACTERS) + line[where + 1 :]
    elif kind == 4:
        lines[at] = re.sub(r"(\w+)( = )", r"\1x\2", line, count=1)
    elif kind == 5 and tokens:
        token = draw.choice(tokens)
        lines[at] = line[: token.start()] + draw.choice(VALUES) + line[token.end() :]
    elif "=" in line:
        lines[at] = line.split("=", 1)[0] + "= " + draw.choice(VALUES)
    return "\n".join(lines)


@pytest.mark.parametrize("name", BOARDS)
def test_slips_are_refused_in_words(tmp_path: Path, name: str) -> None:
    files, draw, refused = files_of(name, tmp_path), random.Random(name), 0
    for _ in range(EACH):
        file = draw.choice(files)
        good = file.read_bytes()
        text = good.decode()
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            text = mutated(text, draw)
        file.write_bytes(text.encode() + (b"\xff" if draw.random() < 0.02 else b""))
        try:
            load_board(name, tmp_path)
        except UserError as error:
            refused += 1
            assert error.what and error.where and error.where.startswith("boards/"), text
        file.write_bytes(good)
    assert EACH // 4 < refused < EACH


def test_the_boards_themselves_are_read(tmp_path: Path) -> None:
    for name in BOARDS:
        files_of(name, tmp_path / name)
        assert load_board(name, tmp_path / name) == load_board(name)
