# SPDX-License-Identifier: Apache-2.0
"""GCC's cross compilers: where they are, how they are called, and which libraries belong to a core."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards.board import Core
from compiler.errors import UserError

FULL = os.strerror(errno.ENOSPC)
"""What a program says that finds no room for its files."""
PACKAGES = {
    "arm-none-eabi-gcc": ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi"),
    "riscv64-unknown-elf-gcc": ("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf"),
}
"""The Debian packages of each compiler and of its C library."""

PICOLIBC = Path("/usr/lib/picolibc/riscv64-unknown-elf")
"""Where Debian's picolibc keeps headers and libraries, outside the compiler's own paths."""

C_FLAGS = (
    "-Os", "-ffunction-sections", "-fdata-sections", "-fno-common", "-fno-jump-tables",
    "-fno-tree-loop-distribute-patterns", "-fno-asynchronous-unwind-tables",
)  # fmt: skip
"""All C. No jump tables: their indirect jumps are harder to follow."""

GENERATED_FLAGS = (
    "-std=c99", "-ffreestanding", "-Wall", "-Wextra", "-Werror",
    "-fno-tree-loop-im", "-fno-move-loop-invariants", "-fno-code-hoisting",
)  # fmt: skip
"""Generated C only: the user's own sources may warn, and want speed too. What is taken out of loops costs registers."""

RISCV_FLAGS = ("-malign-data=natural",)
"""Strings without padding."""

LINK_FLAGS = (
    "-nostdlib", "-nostartfiles", "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,--no-warn-rwx-segments",
    "-Wl,--orphan-handling=error", "-Wl,--fatal-warnings", "-Wl,--nmagic", "-Wl,-z,noexecstack",
)  # fmt: skip


_log = logging.getLogger("kiln.commands")


class CompileError(Exception):
    """A generated source does not compile: internal. For the user's own sources it becomes a UserError."""


@dataclass(frozen=True)
class Result:
    """What a tool printed (both streams) and its exit code."""

    code: int
    text: str


@dataclass(frozen=True)
class Compiler:
    """A cross compiler for one core. `directory` is where it is run, so that messages and debug data name no paths."""

    core: Core
    gcc: Path
    directory: Path

    @property
    def is_arm(self) -> bool:
        return self.core.triple.startswith("thumb")

    def run(self, arguments: Sequence[str]) -> Result:
        """Run gcc."""
        return run_tool([str(self.gcc), *arguments], self.directory)

    def run_binutil(self, name: str, arguments: Sequence[str]) -> Result:
        """Run a binutils program of the same target (objdump, ...). UserError where it is missing."""
        program = find_tool(self.core.gcc.removesuffix("gcc") + name, self.core.gcc)
        return run_tool([str(program), *arguments], self.directory)

    def compile(self, source: Path, to: Path, flags: Sequence[str] = ()) -> None:
        """Compile C or preprocessed assembly (.S). CompileError with gcc's messages."""
        result = self.run(self.arguments(source, to, flags))
        if result.code != 0 or not to.exists():
            raise CompileError(result.text)

    def arguments(self, source: Path, to: Path, flags: Sequence[str]) -> list[str]:
        """gcc's arguments that compile `source` to the object `to`, run in `directory`."""
        c_flags = C_FLAGS if self.is_arm else C_FLAGS + RISCV_FLAGS
        language = ("-x", "assembler-with-cpp") if source.suffix == ".S" else c_flags
        names = [os.path.relpath(source, self.directory), "-o", os.path.relpath(to, self.directory)]
        return [*self.core.gcc_flags, *language, *flags, f"-ffile-prefix-map={self.directory}=.", "-c", *names]

    def link(
        self, objects: Sequence[Path], script: Path, to: Path, libraries: Sequence[Path], wrapped: Sequence[str] = ()
    ) -> Result:
        """Link in the given order, with a map beside the ELF; the caller reads failures out of the messages. Calls of
        a function `wrapped` go to `__wrap_<function>`."""
        names = [os.path.relpath(path, self.directory) for path in objects]
        return self.run(
            [
                *self.core.gcc_flags,
                *LINK_FLAGS,
                *(f"-Wl,--wrap={name}" for name in wrapped),
                f"-Wl,-Map={os.path.relpath(to.with_suffix('.map'), self.directory)}",
                "-T",
                os.path.relpath(script, self.directory),
                *names,
                "-Wl,--start-group",
                *map(str, libraries),
                "-Wl,--end-group",
                "-o",
                os.path.relpath(to, self.directory),
            ]
        )

    def libgcc(self) -> Path:
        """The core's libgcc.a. UserError where the compiler has none for it."""
        return _library(self.core, self.gcc)

    def libc(self) -> Path:
        """The core's libc.a, for the user's own sources: newlib-nano on Arm, picolibc on RISC-V."""
        if self.is_arm:
            found = Path(_query(self.gcc, (*self.core.multilib_flags, "-print-file-name=libc_nano.a")))
        else:
            found = PICOLIBC / "lib" / multi_directory(self.core, self.gcc) / "libc.a"
        if not found.is_file():
            raise _missing_library("libc", self.core, str(found))
        return found

    def libm(self) -> Path:
        """The core's libm.a, which goes with `libc`."""
        found = self.libc().with_name("libm.a")
        if not found.is_file():
            raise _missing_library("libm", self.core, str(found))
        return found

    def libc_flags(self) -> tuple[str, ...]:
        """Where the C library's headers are, if the compiler does not know it."""
        return () if self.is_arm else ("-isystem", str(PICOLIBC / "include"))

    def version(self) -> str:
        """For example `arm-none-eabi-gcc 12.2.1`."""
        return f"{self.core.gcc} {_query(self.gcc, ('-dumpfullversion',))}"


def compiler_for(core: Core, directory: Path) -> Compiler:
    """The core's compiler, run in `directory`. UserError where it is not installed."""
    return Compiler(core, find_tool(core.gcc, core.gcc), directory)


def find_tool(name: str, gcc: str) -> Path:
    """A program on the PATH. UserError names the package to install."""
    found = shutil.which(name)
    if found is None:
        packages = " ".join(PACKAGES.get(gcc, (gcc,)))
        raise UserError(
            f"the cross tool {name} is not installed",
            where="PATH",
            hint=f"sudo apt-get install {packages} (or run ./kiln, which installs what is missing)",
        )
    return Path(found)


def run_tool(command: Sequence[str], directory: Path) -> Result:
    """Run a program to its end, with messages in the C locale, its temporary files in `directory` too. The logger
    `kiln.commands` is told of it. UserError where there is no room for what it writes."""
    _log.debug("%s", shlex.join(command))
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0 and FULL in done.stdout:
        raise UserError(f"{Path(command[0]).name} cannot write its files", where=str(directory), got=FULL)
    return Result(done.returncode, done.stdout)


@cache
def _query(gcc: Path, arguments: tuple[str, ...]) -> str:
    return run_tool([str(gcc), *arguments], Path("/")).text.strip()


def multi_directory(core: Core, gcc: Path) -> str:
    """The directory of the core's libraries below the compiler's. UserError where the compiler has none for it: it
    then falls back to libraries of another architecture without a word."""
    directory = _query(gcc, (*core.multilib_flags, "-print-multi-directory"))
    if directory in ("", "."):
        raise _missing_library("libgcc", core, directory)
    return directory


@cache
def _library(core: Core, gcc: Path) -> Path:
    multi_directory(core, gcc)
    found = Path(_query(gcc, (*core.multilib_flags, "-print-libgcc-file-name")))
    if not found.is_file():
        raise _missing_library("libgcc", core, str(found))
    return found


def _missing_library(name: str, core: Core, got: str) -> UserError:
    return UserError(
        f"{core.gcc} has no {name} for {core.name}",
        where=" ".join(core.multilib_flags),
        got=got or "nothing",
        hint=f"sudo apt-get install {' '.join(PACKAGES.get(core.gcc, (core.gcc,)))}",
    )
