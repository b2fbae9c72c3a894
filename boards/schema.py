# SPDX-License-Identifier: Apache-2.0
"""Strict reading of TOML tables: every key is asked for by type, and what nobody asked for is an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from compiler.errors import UserError

T = TypeVar("T")


class Table:
    """A TOML table at a place such as `boards/pico.toml: console`.

    Each method takes a key and returns its value; a missing key without default, or a value of another type, raises
    UserError. `close` raises UserError if keys were left unread.
    """

    def __init__(self, data: Mapping[str, object], where: str, lines: Sequence[str] = (), start: int = 0) -> None:
        self.where = where
        self._data = data
        self._known: list[str] = []
        self._lines, self._start = lines, start

    @classmethod
    def load(cls, path: Path, label: str) -> Table:
        """Read a file; UserError where it is not TOML."""
        try:
            text = path.read_text(encoding="utf-8")
            return cls(tomllib.loads(text), label, text.splitlines())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError("not a valid TOML file", where=label, got=str(error)) from error

    def place(self, key: str) -> str:
        """Where a key of this table is, with its line: `boards/pico.toml:5: console`."""
        file, *path = self.where.split(": ")
        return ": ".join([f"{file}:{self._line(key) + 1}" if self._lines else file, *path])

    def _line(self, key: str) -> int:
        """The line, counted from 0, that first has the key at or after the table's own."""
        pattern = re.compile(rf"""(^|[\s{{,\[."']){re.escape(key)}["']?\s*[=\].]""")
        found = (at for at in range(self._start, len(self._lines)) if pattern.search(self._lines[at]))
        return next(found, self._start)

    def names(self) -> list[str]:
        return sorted(self._data)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def text(self, key: str, default: str | None = None, allowed: tuple[str, ...] = ()) -> str:
        value = self._take(key, str, "a string", default)
        if allowed and value not in allowed:
            raise UserError(f"{key} has no such value", where=self.place(key), got=value, allowed=", ".join(allowed))
        return value

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = 0xFFFFFFFF) -> int:
        value = self._take(key, int, "an integer", default)
        if not low <= value <= high:
            raise UserError(
                f"{key} is out of range", where=self.place(key), got=hex(value), allowed=f"{low} to {high:#x}"
            )
        return value

    def boolean(self, key: str, default: bool | None = None) -> bool:
        return self._take(key, bool, "true or false", default)

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        values = self._take(key, list, "a list of strings", None if default is None else list(default))
        if not all(isinstance(value, str) for value in values):
            raise UserError(
                f"{key} has the wrong type", where=self.place(key), got=repr(values), allowed="a list of strings"
            )
        return tuple(values)

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        values = self._take(key, list, "a list of integers", None if default is None else list(default))
        if not all(type(value) is int and value >= 0 for value in values):
            raise UserError(
                f"{key} has the wrong type", where=self.place(key), got=repr(values), allowed="a list of integers"
            )
        return tuple(values)

    def table(self, key: str, optional: bool = False) -> Table:
        value = self._take(key, dict, "a table", {} if optional else None)
        return Table(value, f"{self.where}: {key}", self._lines, self._line(key))

    def tables(self, key: str, optional: bool = False) -> Iterator[Table]:
        """The tables of an array of tables."""
        values = self._take(key, list, "a list of tables", [] if optional else None)
        for index, value in enumerate(values):
            where = f"{self.where}: {key}[{index}]"
            if not isinstance(value, dict):
                raise UserError(f"{key} has the wrong type", where=where, got=repr(value), allowed="a table")
            yield Table(value, where, self._lines, self._entry(key, index))

    def _entry(self, key: str, index: int) -> int:
        """The line on which an array's entry begins, by its brace."""
        start = self._line(key)
        braces = (at for at in range(start, len(self._lines)) for _ in range(self._lines[at].count("{")))
        return next(islice(braces, index, None), start)

    def choose(self, key: str) -> Table:
        """A sub-table that the data names: UserError lists the names there are."""
        if key not in self._data:
            raise UserError("no such entry", where=self.place(""), got=key, allowed=", ".join(self.names()))
        return self.table(key)

    def close(self) -> None:
        unknown = sorted(set(self._data) - set(self._known))
        if unknown:
            raise UserError(
                "unknown key",
                where=self.place(unknown[0]),
                got=", ".join(unknown),
                allowed=", ".join(sorted(set(self._known))),
            )

    def _take(self, key: str, kind: type[T], name: str, default: T | None) -> T:
        self._known.append(key)
        if key not in self._data:
            if default is None:
                raise UserError(f"{key} is missing", where=self.place(""), allowed=name)
            return default
        value = self._data[key]
        if type(value) is not kind:
            raise UserError(f"{key} has the wrong type", where=self.place(key), got=repr(value), allowed=name)
        return value
