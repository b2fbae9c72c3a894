# SPDX-License-Identifier: Apache-2.0
"""What kernels take, as measured in the emulator, and files of it: those of common layers, which come with the
project, and those that a user has measured.

Figures hold for the sources that they were measured with. They are kept by the module of the kernel, with a digest of
its source and of all that it imports of this package, and those of a module whose digest is another are not used. The
digest is of the files' bytes: the same files give the same choice, and so the same firmware, on every machine.
Measuring again takes little time where sources are others and the code is still the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

SCHEMA = 1
_ROOT = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^from (compiler[\w.]*) import (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Costs:
    """Exact instructions by the call's key, the call itself included; bytes of code by the kernel's name."""

    instructions: Mapping[str, int] = field(default_factory=dict)
    code_bytes: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Costs) -> Costs:
        """Both; where both know a figure, the other's."""
        return Costs({**self.instructions, **other.instructions}, {**self.code_bytes, **other.code_bytes})


@dataclass(frozen=True)
class Family:
    """The figures of the kernels of one module, with digests of the sources that they were measured with, and of what
    LLVM was given for each kernel, by name."""

    sources: str
    kernels: Mapping[str, str]
    costs: Costs


@dataclass(frozen=True)
class CostFile:
    """Figures by module, measured on `core` as code of the LLVM that `llvmlite` has."""

    isa: str
    core: str
    llvmlite: str
    families: Mapping[str, Family]

    @property
    def stale(self) -> tuple[str, ...]:
        """The modules whose sources are others today; all of them under another version of llvmlite."""
        if self.llvmlite != metadata.version("llvmlite"):
            return tuple(sorted(self.families))
        return tuple(sorted(m for m, family in self.families.items() if family.sources != sources_digest(m)))

    @property
    def costs(self) -> Costs:
        """The figures that hold."""
        joined, stale = Costs(), set(self.stale)
        for module, family in sorted(self.families.items()):
            if module not in stale:
                joined = joined.joined(family.costs)
        return joined

    @property
    def text(self) -> str:
        """As it is written: sorted, a line a figure."""
        families = {
            module: {
                "sources": family.sources,
                "kernels": dict(family.kernels),
                "code_bytes": dict(family.costs.code_bytes),
                "instructions": dict(family.costs.instructions),
            }
            for module, family in self.families.items()
        }
        head = {"schema": SCHEMA, "isa": self.isa, "core": self.core, "llvmlite": self.llvmlite}
        return json.dumps({**head, "families": families}, indent=0, sort_keys=True) + "\n"


def parse_costs(text: str) -> CostFile:
    """A file as `CostFile.text` gives it. ValueError where it is none."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, known is {SCHEMA}")
        families = {
            module: Family(
                str(one["sources"]),
                dict(one["kernels"]),
                Costs(_counts(one["instructions"]), _counts(one["code_bytes"])),
            )
            for module, one in document["families"].items()
        }
        return CostFile(str(document["isa"]), str(document["core"]), str(document["llvmlite"]), families)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no file of measured costs: {error}") from error


def _counts(table: Mapping[str, Any]) -> dict[str, int]:
    if not all(isinstance(count, int) and count >= 0 for count in table.values()):
        raise ValueError("counts are integers from zero")
    return dict(table)


def shipped_path(isa: str) -> Path:
    """The file of an instruction set that comes with the project; not every one has it."""
    return _ROOT / "compiler" / "measured" / f"{isa}.json"


def shipped_file(isa: str) -> CostFile | None:
    """The figures of common layers that come with the project."""
    path = shipped_path(isa)
    return parse_costs(path.read_text(encoding="utf-8")) if path.is_file() else None


@cache
def shipped_costs(isa: str) -> Costs:
    """Those that hold."""
    file = shipped_file(isa)
    return Costs() if file is None else file.costs


@cache
def sources_digest(module: str) -> str:
    """A digest of a module's source, and of all modules of this package that it imports, directly or not."""
    digest = hashlib.sha256()
    for name, source in sorted(_sources(module)):
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def _sources(module: str) -> Iterator[tuple[str, bytes]]:
    """Names and sources; nothing for a module that is not there any more."""
    seen: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        path = _ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if name not in seen and path.is_file():
            seen.add(name)
            source = path.read_bytes()
            for package, names in _IMPORT.findall(source.decode()):
                # What is imported may be a module, or something of one.
                left += [package, *(f"{package}.{one.strip()}" for one in names.split(","))]
            yield name, source
