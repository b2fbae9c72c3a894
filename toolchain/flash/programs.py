# SPDX-License-Identifier: Apache-2.0
"""Chips that another program or a mounted drive flashes, not a dialogue of ours."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.flash.esp32 import flash_esp32
from toolchain.flash.uf2 import flash_uf2
from toolchain.report.terminal import Terminal
from toolchain.request import Request

PROGRAMS: dict[str, Callable[[Terminal, Request], None]] = {"esp32": flash_esp32, "uf2": flash_uf2}
"""By protocol."""
