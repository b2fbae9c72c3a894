# SPDX-License-Identifier: Apache-2.0
"""The commands behind the targets; each prints its result. Those of a model take the request."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.commands.compiledb import compiledb
from toolchain.commands.erase import erase
from toolchain.commands.firmware import firmware
from toolchain.commands.flash import flash
from toolchain.commands.host_firmware import host_firmware
from toolchain.commands.infer import infer
from toolchain.commands.library import library
from toolchain.commands.listing import list_boards, list_operators
from toolchain.commands.monitor import monitor
from toolchain.commands.profile import profile
from toolchain.commands.report import report
from toolchain.commands.run import run
from toolchain.commands.show import schedule, size
from toolchain.commands.tune import tune
from toolchain.commands.verify import verify
from toolchain.request import BoardRequest, HostRequest, ModelRequest, Request

BOARD_COMMANDS: dict[str, Callable[[Request], None]] = {
    "firmware": firmware,
    "report": report,
    "run": run,
    "infer": infer,
    "profile": profile,
    "schedule": schedule,
    "size": size,
    "tune": tune,
    "verify": verify,
    "compiledb": compiledb,
    "library": library,
    "flash": flash,
    "upload": flash,
}
DEVICE_COMMANDS: dict[str, Callable[[BoardRequest], None]] = {"erase": erase, "monitor": monitor}
HOST_COMMANDS: dict[str, Callable[[HostRequest], None]] = {
    "firmware": host_firmware,
    "infer": infer,
    "schedule": schedule,
    "verify": verify,
}
COMMANDS: dict[str, Callable[[], None]] = {"boards": list_boards, "ops": list_operators}


def command(name: str, request: ModelRequest | BoardRequest | None) -> Callable[[], None]:
    """What a target does."""
    if isinstance(request, Request):
        return lambda: BOARD_COMMANDS[name](request)
    if isinstance(request, BoardRequest):
        return lambda: DEVICE_COMMANDS[name](request)
    if isinstance(request, HostRequest):
        return lambda: HOST_COMMANDS[name](request)
    return COMMANDS[name]
