# SPDX-License-Identifier: Apache-2.0
"""The SCons side: variables to a request, files and their dependencies, targets. The only module that imports SCons.

What a target does is in `toolchain.commands`, imported when it runs, so that an up-to-date build stays fast.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import SCons.Errors
import SCons.SConsign
from SCons.Script import Action, AlwaysBuild, Default, Environment, GetLaunchDir, GetOption, Help

from compiler.errors import CheckFailed, UserError
from toolchain.gcc import compiler_for
from toolchain.lock import check_temporary, hold
from toolchain.output import Output
from toolchain.record import Record, record_file
from toolchain.request import ROOT, BoardRequest, HostRequest, ModelRequest, Request, check_target
from toolchain.variables import check_used, read_board_request, read_request, unknown

_R = TypeVar("_R")
_SOURCES = ("boards/**/*.*", "compiler/**/*.*", "firmware_templates/**/*.*", "toolchain/**/*.py")
_EXAMPLE = "./kiln board=ch32v model=models/mnist_int8.tflite run"
_REFUSED = (errno.EACCES, errno.EDQUOT, errno.ENAMETOOLONG, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""What the system says when it is the user who has to make room or give rights."""
_one_at_a_time = threading.Lock()
"""With -j SCons runs actions in threads; ours share the terminal and report.json."""


@dataclass(frozen=True)
class _Target:
    name: str
    description: str
    needs_model: bool
    needs_board: bool = True
    needs_firmware: bool = True


class Project:
    """The targets of one invocation: named first, made by `finish`, when all names are known."""

    def __init__(self, variables: Any, targets: Sequence[str]) -> None:
        sys.stdout = Output(sys.stdout)
        with _one_message():
            self.environment = Environment(variables=variables, tools=[], ENV=os.environ)
        self.variables = variables
        # A target named twice runs once: where it was named first.
        self.wanted = tuple(dict.fromkeys(targets))
        self.known: list[_Target] = []

    def firmware(self, name: str, description: str) -> None:
        """The default target, which makes the files of build/<board>/<model>/."""
        self.known.insert(0, _Target(name, description, True))

    def on_firmware(self, name: str, description: str) -> None:
        """A target that works on the built firmware, each time it is asked for."""
        self.known.append(_Target(name, description, True))

    def on_model(self, name: str, description: str) -> None:
        """A target that needs a board and a model, and no firmware of them."""
        self.known.append(_Target(name, description, True, needs_firmware=False))

    def on_board(self, name: str, description: str) -> None:
        """A target that needs a board, and no model."""
        self.known.append(_Target(name, description, False))

    def command(self, name: str, description: str) -> None:
        """A target that needs neither board nor model."""
        self.known.append(_Target(name, description, False, False))

    def finish(self) -> None:
        """Checks the command line and makes what it asks for. One message and exit code 2 where it is at fault."""
        self._help()
        if not GetOption("help"):
            with _one_message():
                self._make()

    def _make(self) -> None:
        unknown_variables = self.variables.UnknownVariables()
        if unknown_variables:
            raise unknown("variable", next(iter(unknown_variables)), self.variables.keys())
        variables = set(self.variables.keys())
        targets = {target.name: target for target in self.known}
        firmware = self.known[0].name
        for name in self.wanted:
            if name in variables and name not in targets:
                raise UserError(f"'{name}' is a variable, and no target", allowed=f"{name}=VALUE")
            if name not in targets:
                raise unknown("target", name, targets)
        chosen = [targets[name] for name in self.wanted] or [targets[firmware]]
        if not GetOption("clean"):
            check_used(self.variables.args, [target.name for target in chosen])
        if GetOption("clean") and not self.wanted and not self.environment["board"] and not self.environment["model"]:
            everything = self.environment.Alias(firmware)
            for folder in ("build", ".sconsign"):
                self.environment.Clean(everything, self.environment.fs.Dir(str(ROOT / folder)))
            Default(everything)
            return
        request = self._read(read_request) if any(target.needs_model for target in chosen) else None
        if request is not None:
            for target in chosen:
                check_target(request, target.name)
            check_temporary()
            # Before SCons looks at any file: it then finds what another process has built and noted.
            record = record_file(ROOT, request.folder)
            hold(request.folder, record.with_suffix(".lock"))
            SCons.SConsign.File(str(record), Record)
            self._make_firmware(firmware, request)
        needs_device = any(target.needs_board and not target.needs_model for target in chosen)
        device = self._read(read_board_request) if needs_device else None
        before: list[str] = []
        for target in chosen:
            if target.name != firmware:
                # In the order of the command line: a device is flashed before it is asked.
                needed = [firmware, *before] if target.needs_model and target.needs_firmware else before
                scope = self.environment.Clone(
                    KILN_TARGET=target.name, KILN_REQUEST=request if target.needs_model else device
                )
                AlwaysBuild(scope.Alias(target.name, needed, Action(_act, cmdstr=None)))
                before = [target.name]

    def _make_firmware(self, name: str, request: Request | HostRequest) -> None:
        environment = self.environment.Clone(KILN_TARGET=name, KILN_REQUEST=request)
        if environment["cache"]:
            environment.CacheDir(str(_usable_cache(environment["cache"], Path(GetLaunchDir()))))
        sources = [path for pattern in _SOURCES for path in sorted(ROOT.glob(pattern)) if path.suffix != ".pyc"]
        # Nodes, not names: in names SCons would expand `$` and `#`.
        file = environment.fs.File
        products = [file(str(request.folder / product)) for product in request.products]
        inputs = [file(str(path)) for path in (*request.sources, *sources)]
        nodes = environment.Command(products, inputs, Action(_act, cmdstr=None))
        environment.Depends(nodes, environment.Value(_versions(request)))
        environment.Clean(nodes, environment.fs.Dir(str(request.folder)))
        Default(environment.Alias(name, nodes))

    def _read(self, read: Callable[[Mapping[str, Any], Path, bool], _R]) -> _R:
        quiet = bool(GetOption("no_progress") or GetOption("silent"))
        return read(dict(self.environment.items()), Path(GetLaunchDir()), quiet)

    def _help(self) -> None:
        targets = "".join(f"  {target.name:<10} {target.description}\n" for target in self.known)
        variables = self.variables.GenerateHelpText(self.environment)
        Help(f"\nExample: {_EXAMPLE}\n\nTargets:\n{targets}\nVariables:\n{variables}")


def _usable_cache(name: str, directory: Path) -> Path:
    """The folder of `cache`, which SCons makes later. UserError where nothing can be kept there."""
    path = directory / name
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(
            "nothing can be kept in the cache folder",
            where=f"cache={name}",
            got=f"{nearest} is {'not writable' if nearest.is_dir() else 'no folder'}",
        )
    return path


def _versions(request: Request | HostRequest) -> str:
    """What a build depends on besides files. UserError where the cross compiler is missing: before anything is
    touched, so that a good build outlives it."""
    if isinstance(request, HostRequest):
        return f"llvmlite {metadata.version('llvmlite')}"
    gcc = "" if GetOption("clean") else compiler_for(request.board.core, ROOT).version()
    settings = {
        "console": request.console,
        "benchmark": request.benchmark.name if request.benchmark else None,
        "clock": request.clock,
        "arena": request.arena,
        "arena_bytes": request.arena_bytes,
        "weights": request.weights,
        "optimize": request.optimize.value,
        "app": request.app,
    }
    told = ", ".join(f"{name} {value}" for name, value in settings.items())
    return f"{told}, {gcc}, llvmlite {metadata.version('llvmlite')}"


class _Failure(SCons.Errors.BuildError):
    """One message, and the exit code that SCons will end with: it sets that of every failed action to 2."""

    def __init__(self, message: str, code: int) -> None:
        self._code = code
        super().__init__(errstr=message, status=code)

    @property
    def exitstatus(self) -> int:
        return self._code

    @exitstatus.setter
    def exitstatus(self, _: int) -> None:
        """Stays as it is."""


def _act(target: Any, source: Any, env: Any) -> None:
    """What every target runs; SCons passes the arguments by name. It takes what the function refers to for part of
    what is built, so the request comes by way of the environment."""
    with _one_at_a_time:
        _guarded(env["KILN_TARGET"], env["KILN_REQUEST"])


def _guarded(name: str, request: ModelRequest | BoardRequest | None) -> None:
    """Runs a command. Faults become SCons's one-line failure."""
    try:
        _command(name, request)()
        if isinstance(sys.stdout, Output):
            sys.stdout.check()
    except Exception as error:
        raise _Failure(*_told(error, name)) from error


def _told(error: Exception, where: str) -> tuple[str, int]:
    """The one message for what went wrong, and the exit code: 2 for the user's faults, 1 for ours."""
    if isinstance(error, UserError):
        return str(error), 2
    if isinstance(error, CheckFailed):
        return str(error), 1
    if isinstance(error, OSError) and error.errno in _REFUSED:
        place = error.filename or f"{where} (temporary files go to {tempfile.gettempdir()}, by TMPDIR)"
        return f"{error.strerror}: {place}", 2
    return _recorded(error, where), 1


def _command(name: str, request: ModelRequest | BoardRequest | None) -> Callable[[], None]:
    """A target's command; its modules are loaded only now."""
    # SCons takes the project off the path again before actions run.
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from toolchain.commands import command
    from toolchain.report.terminal import show_commands

    if request is not None and request.verbose:
        show_commands()
    return command(name, request)


def _recorded(error: Exception, where: str) -> str:
    """Keeps a fault of ours for a report, and says so in one line."""
    log = ROOT / "build" / "internal-error.log"
    told = f"internal fault in '{where}' ({type(error).__name__})"
    try:
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(traceback.format_exception(error)))
    except OSError as refused:
        return f"{told}: {error}\n  {log.relative_to(ROOT)} cannot be written: {refused.strerror}"
    return f"{told}; please report it with {log.relative_to(ROOT)}"


@contextmanager
def _one_message() -> Iterator[None]:
    """While the command line is read: ends the process with a message, and exit code 2 for the user's faults."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SCons.Errors.UserError):
            message, code = "\n  ".join(str(error).splitlines()), 2
        else:
            message, code = _told(error, "command line")
        print(f"kiln: {message}", file=sys.stderr)
        sys.exit(code)
