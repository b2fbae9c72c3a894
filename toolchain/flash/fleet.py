# SPDX-License-Identifier: Apache-2.0
"""One device or many: each port in a thread of its own, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from compiler.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class Result(Generic[T]):
    """Of one port: either an outcome or an error."""

    port: str
    outcome: T | None
    error: UserError | None


def on_each(ports: Sequence[str], work: Callable[[str], T]) -> list[Result[T]]:
    """Runs `work` on every port at once. Failures that are the user's are results; others are raised."""

    def one(port: str) -> Result[T]:
        try:
            return Result(port, work(port), None)
        except UserError as error:
            return Result(port, None, error)

    with ThreadPoolExecutor(len(ports)) as pool:
        return list(pool.map(one, ports))


def conclude(results: Sequence[Result[T]]) -> None:
    """Raises the error of the only port, or one that lists those of all that failed."""
    failed = [result for result in results if result.error is not None]
    if not failed:
        return
    if len(results) == 1 and failed[0].error is not None:
        raise failed[0].error
    listed = "".join(f"\n    {result.port}: " + str(result.error).replace("\n", "\n      ") for result in failed)
    raise UserError(f"{len(failed)} of {len(results)} devices failed:{listed}")
