# SPDX-License-Identifier: Apache-2.0
"""The commands behind the targets: each takes the request (None where it needs none) and prints its result."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.commands.listing import list_boards, list_operators
from toolchain.request import Request

COMMANDS: dict[str, Callable[[Request | None], None]] = {"boards": list_boards, "ops": list_operators}
