# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the compiler knows no board, and one module alone knows the build tool."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGES = ("bench", "boards", "compiler", "models", "qemu", "toolchain")
ALLOWED = {
    "compiler": ("compiler",),
    "boards": ("boards", "compiler.errors"),
    "qemu": ("qemu", "boards", "compiler"),
    "toolchain": ("toolchain", "qemu", "boards", "compiler"),
    "models": ("models",),
}
BUILD_TOOL = "toolchain/scons.py"


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, at its top or inside functions; `from a import b` counts as a and as a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(f"{p}.") for p in prefixes)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_packages_import_only_what_lies_below(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        for module in imported(path):
            ours = module.split(".")[0] in PACKAGES
            # `from compiler import errors` names the package on the way to an allowed module.
            on_the_way = any(p.startswith(f"{module}.") for p in ALLOWED[package])
            assert not ours or on_the_way or within(module, ALLOWED[package]), f"{path.relative_to(ROOT)}: {module}"


def test_one_module_knows_the_build_tool() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(module.split(".")[0] == "SCons" for module in imported(path))
    }
    assert users == {BUILD_TOOL}


def test_the_rule_sees_a_breach(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text("def f():\n    from boards.loader import load_board\n    return load_board\n")
    assert any(not within(module, ALLOWED["compiler"]) for module in imported(breach))
