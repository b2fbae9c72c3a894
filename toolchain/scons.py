# SPDX-License-Identifier: Apache-2.0
"""The SCons side: variables to a request, files and their dependencies, targets. The only module that imports SCons.

What a target does is in `toolchain.commands`, imported when it runs, so that an up-to-date build stays fast.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from SCons.Errors import BuildError
from SCons.Script import Action, AlwaysBuild, Default, Environment, GetLaunchDir, GetOption, Help

from compiler.errors import CheckFailed, UserError
from toolchain.request import ROOT, Request, unknown

_SOURCES = ("boards/**/*.*", "compiler/**/*.py", "firmware_templates/**/*.*", "toolchain/**/*.py")
_EXAMPLE = "./kiln board=ch32v model=models/mnist_int8.tflite run"


@dataclass(frozen=True)
class _Target:
    name: str
    description: str
    needs_model: bool


class Project:
    """The targets of one invocation: named first, made by `finish`, when all names are known."""

    def __init__(self, variables: Any, targets: Sequence[str]) -> None:
        self.environment = Environment(variables=variables, tools=[], ENV=os.environ)
        self.environment.Decider("content-timestamp")
        self.variables = variables
        self.wanted = tuple(targets)
        self.known: list[_Target] = []

    def firmware(self, name: str, description: str) -> None:
        """The default target, which makes the files of build/<board>/<model>/."""
        self.known.insert(0, _Target(name, description, True))

    def on_firmware(self, name: str, description: str) -> None:
        """A target that works on the built firmware, each time it is asked for."""
        self.known.append(_Target(name, description, True))

    def command(self, name: str, description: str) -> None:
        """A target that needs neither board nor model."""
        self.known.append(_Target(name, description, False))

    def finish(self) -> None:
        """Checks the command line and makes what it asks for. One message and exit code 2 where it is at fault."""
        self._help()
        if not GetOption("help"):
            try:
                self._make()
            except UserError as error:
                _stop(error)

    def _make(self) -> None:
        unknown_variables = self.variables.UnknownVariables()
        if unknown_variables:
            raise unknown("variable", next(iter(unknown_variables)), self.variables.keys())
        targets = {target.name: target for target in self.known}
        firmware = self.known[0].name
        for name in self.wanted:
            if name not in targets:
                raise unknown("target", name, targets)
        chosen = [targets[name] for name in self.wanted] or [targets[firmware]]
        request = self._request() if any(target.needs_model for target in chosen) else None
        if request is not None:
            self._make_firmware(firmware, request)
        for target in chosen:
            if target.name != firmware:
                needed = [firmware] if target.needs_model else []
                AlwaysBuild(self.environment.Alias(target.name, needed, _action(target.name, request)))

    def _make_firmware(self, name: str, request: Request) -> None:
        if self.environment["cache"]:
            self.environment.CacheDir(self.environment["cache"])
        sources = [str(path) for pattern in _SOURCES for path in sorted(ROOT.glob(pattern)) if path.suffix != ".pyc"]
        products = [str(request.folder / product) for product in request.products]
        nodes = self.environment.Command(products, [str(request.model), *sources], _action(name, request))
        self.environment.Depends(nodes, self.environment.Value(request.console))
        self.environment.Clean(nodes, str(request.folder))
        Default(self.environment.Alias(name, nodes))

    def _request(self) -> Request:
        directory = Path(GetLaunchDir())
        return Request.from_variables(dict(self.environment.items()), directory, bool(GetOption("no_progress")))

    def _help(self) -> None:
        targets = "".join(f"  {target.name:<10} {target.description}\n" for target in self.known)
        variables = self.variables.GenerateHelpText(self.environment)
        Help(f"\nExample: {_EXAMPLE}\n\nTargets:\n{targets}\nVariables:\n{variables}")


def _action(name: str, request: Request | None) -> Any:
    """What a target runs; its modules are loaded only then."""

    def act(target: Any, source: Any, env: Any) -> None:  # SCons passes these by name
        # SCons takes the project off the path again before actions run.
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        from toolchain.commands import COMMANDS, MODEL_COMMANDS

        _guarded(name, COMMANDS[name] if request is None else lambda: MODEL_COMMANDS[name](request))

    return Action(act, cmdstr=None)


def _guarded(name: str, command: Callable[[], None]) -> None:
    """Runs a command. The user's faults become SCons's one-line failure (exit code 2); ours end it with exit code 1."""
    try:
        command()
    except UserError as error:
        raise BuildError(errstr=str(error), status=2, exitstatus=2) from error
    except CheckFailed as failure:
        _leave(str(failure))
    except Exception:
        log = ROOT / "build" / "internal-error.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(traceback.format_exc())
        _leave(f"internal fault in '{name}'; please report it with {log.relative_to(ROOT)}")


def _leave(message: str) -> NoReturn:
    """Ends the process with exit code 1; SCons itself knows no code but 2."""
    print(f"kiln: {message}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _stop(error: UserError) -> NoReturn:
    print(f"kiln: {error}", file=sys.stderr)
    sys.exit(2)
