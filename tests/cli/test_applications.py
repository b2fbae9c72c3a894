# SPDX-License-Identifier: Apache-2.0
"""app= on the command line: the examples as their comments say, and faults of the user's own sources."""

from __future__ import annotations

import pytest

from tests.cli.checkout import Checkout
from tests.support import ROOT

EXAMPLES = ROOT / "docs" / "examples"


def test_the_sensor_example(checkout: Checkout) -> None:
    found = checkout.run("board=netduinoplus2", "model=mnist_mlp_int8", f"app={EXAMPLES / 'adc'}", "run")
    assert found.code == 0, found.error
    assert "class 9\nclass 3\nclass 9\n" in found.out.replace("\r", "")


def test_the_example_with_two_models(checkout: Checkout) -> None:
    models = "model=mnist_mlp_int8,mnist_nano_int8"
    found = checkout.run("board=netduinoplus2", models, f"app={EXAMPLES / 'two_models'}", "run")
    assert found.code == 0, found.error
    assert "agreed on 3 of 3" in found.out


@pytest.mark.parametrize(
    ("files", "told"),
    (
        ({"main.c": "void far_away(void);\nint main(void)\n{\n    far_away();\n}\n"}, ("app/main.c:4: far_away",)),
        (
            {"main.c": "int main(void) { return 0; }\n", "b.c": "\nint main(void) { return 1; }\n"},
            ("two functions or variables of one name", "app/main.c:1", "app/b.c:2"),
        ),
        (
            {"main.c": "#include <stdlib.h>\nint main(void)\n{\n    return malloc(4) != 0;\n}\n"},
            ("app/main.c:4: malloc needs a heap, and there is none",),
        ),
        ({"main.c": "int main(void) { return x; }\n"}, ("app/main.c:1", "x")),
        ({"notes.txt": "no source\n"}, ("the application has no sources", "*.c, *.cc")),
        ({}, ("the application's folder is not there",)),
    ),
    ids=("undefined", "duplicate", "heap", "does_not_compile", "no_sources", "no_folder"),
)
def test_faults_of_an_application(fresh: Checkout, files: dict[str, str], told: tuple[str, ...]) -> None:
    folder = fresh.root / "app"
    for name, text in files.items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    fresh.run("board=qemu_m3", "model=mnist_nano_int8", "app=app").refused(*told)
    assert fresh.left() == []
