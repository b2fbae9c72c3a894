# SPDX-License-Identifier: Apache-2.0
"""Strict reading of TOML tables: every key is asked for by type, and what nobody asked for is an error."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from compiler.errors import UserError

T = TypeVar("T")


class Table:
    """A TOML table at a place such as `boards/pico.toml: console`.

    Each method takes a key and returns its value; a missing key without default, or a value of another type, raises
    UserError. `close` raises UserError if keys were left unread.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self.where = where
        self._data = data
        self._known: list[str] = []

    @classmethod
    def load(cls, path: Path, label: str) -> Table:
        """Read a file; UserError where it is not TOML."""
        try:
            return cls(tomllib.loads(path.read_text(encoding="utf-8")), label)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError("not a valid TOML file", where=label, got=str(error)) from error

    def names(self) -> list[str]:
        return sorted(self._data)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def text(self, key: str, default: str | None = None, allowed: tuple[str, ...] = ()) -> str:
        value = self._take(key, str, "a string", default)
        if allowed and value not in allowed:
            raise UserError(f"{key} has no such value", where=self.where, got=value, allowed=", ".join(allowed))
        return value

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = 0xFFFFFFFF) -> int:
        value = self._take(key, int, "an integer", default)
        if not low <= value <= high:
            raise UserError(f"{key} is out of range", where=self.where, got=hex(value), allowed=f"{low} to {high:#x}")
        return value

    def boolean(self, key: str, default: bool | None = None) -> bool:
        return self._take(key, bool, "true or false", default)

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        values = self._take(key, list, "a list of strings", None if default is None else list(default))
        if not all(isinstance(value, str) for value in values):
            raise UserError(
                f"{key} has the wrong type", where=self.where, got=repr(values), allowed="a list of strings"
            )
        return tuple(values)

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        values = self._take(key, list, "a list of integers", None if default is None else list(default))
        if not all(type(value) is int and value >= 0 for value in values):
            raise UserError(
                f"{key} has the wrong type", where=self.where, got=repr(values), allowed="a list of integers"
            )
        return tuple(values)

    def table(self, key: str, optional: bool = False) -> Table:
        value = self._take(key, dict, "a table", {} if optional else None)
        return Table(value, f"{self.where}: {key}")

    def tables(self, key: str, optional: bool = False) -> Iterator[Table]:
        """The tables of an array of tables."""
        values = self._take(key, list, "a list of tables", [] if optional else None)
        for index, value in enumerate(values):
            where = f"{self.where}: {key}[{index}]"
            if not isinstance(value, dict):
                raise UserError(f"{key} has the wrong type", where=where, got=repr(value), allowed="a table")
            yield Table(value, where)

    def choose(self, key: str) -> Table:
        """A sub-table that the data names: UserError lists the names there are."""
        if key not in self._data:
            raise UserError("no such entry", where=self.where, got=key, allowed=", ".join(self.names()))
        return self.table(key)

    def close(self) -> None:
        unknown = sorted(set(self._data) - set(self._known))
        if unknown:
            raise UserError(
                "unknown key", where=self.where, got=", ".join(unknown), allowed=", ".join(sorted(set(self._known)))
            )

    def _take(self, key: str, kind: type[T], name: str, default: T | None) -> T:
        self._known.append(key)
        if key not in self._data:
            if default is None:
                raise UserError(f"{key} is missing", where=self.where, allowed=name)
            return default
        value = self._data[key]
        if type(value) is not kind:
            raise UserError(f"{key} has the wrong type", where=self.where, got=repr(value), allowed=name)
        return value
