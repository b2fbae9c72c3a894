# SPDX-License-Identifier: Apache-2.0
"""Copies of the project to build in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.checkout import Checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One copy for the tests of a module, in a folder whose name SCons and shells could misread."""
    return Checkout(tmp_path_factory.mktemp("cli") / "the project $x #1")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """A copy for one test alone."""
    return Checkout(tmp_path / "project")
