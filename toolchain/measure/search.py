# SPDX-License-Identifier: Apache-2.0
"""Measures many lowerings at once: through Dask where it is installed (requirements-tune.lock), on a cluster of this
machine's or on the scheduler that the user names; else in threads, which wait for compilers and emulators."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

from boards.board import Board
from compiler.costs import Costs
from compiler.errors import UserError
from toolchain.measure.calls import Candidate, batches, measure

Progress = Callable[[int, int], None]


def search(board: Board, candidates: Sequence[Candidate], scheduler: str, progress: Progress) -> Costs:
    """The costs of all calls of the candidates; `progress` is told how many programs of how many are done.

    `scheduler` is the address of a Dask scheduler whose workers have this project, its tools and its packages at the
    same versions; empty for this machine. UserError where it cannot be had.
    """
    programs = batches(candidates, board)
    costs = Costs()
    for number, found in enumerate(_results(board, programs, scheduler) if programs else (), 1):
        costs = costs.joined(found)
        progress(number, len(programs))
    return costs


def _results(board: Board, programs: Sequence[tuple[Candidate, ...]], scheduler: str) -> Iterator[Costs]:
    if find_spec("distributed") is not None:
        from toolchain.measure.cluster import results

        yield from results(board, programs, scheduler, _workers())
    elif scheduler:
        raise UserError(
            "Dask is not installed",
            where=f"scheduler={scheduler}",
            hint="pip install -r requirements-tune.lock, or leave scheduler= out",
        )
    else:
        # Threads do: they wait for compilers and emulators.
        with ThreadPoolExecutor(_workers()) as pool:
            yield from pool.map(partial(measure, board), programs)


def _workers() -> int:
    return os.cpu_count() or 1
