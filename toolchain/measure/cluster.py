# SPDX-License-Identifier: Apache-2.0
"""Measurements on a Dask cluster: of this machine's threads, or the one whose scheduler the user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from logging import ERROR

from distributed import Client, LocalCluster

from boards.board import Board
from compiler.costs import Costs
from compiler.errors import UserError
from toolchain.measure.calls import Candidate, measure

CONNECT_SECONDS = 10
LOCAL = "127.0.0.1:0"
"""Where the local cluster serves its state: any free port, for this machine alone."""


def results(board: Board, programs: Sequence[tuple[Candidate, ...]], scheduler: str, workers: int) -> Iterator[Costs]:
    """The costs of each program, in order. UserError where there is no such scheduler."""
    with ExitStack() as stack:
        if scheduler:
            client = _connected(scheduler)
        else:
            # Threads do: they wait for compilers and emulators.
            cluster = LocalCluster(
                n_workers=1, threads_per_worker=workers, processes=False, dashboard_address=LOCAL, silence_logs=ERROR
            )
            client = Client(stack.enter_context(cluster))
        stack.enter_context(client)
        futures = [client.submit(measure, board, program, pure=False) for program in programs]
        yield from (future.result() for future in futures)


def _connected(scheduler: str) -> Client:
    try:
        return Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        told = str(error).splitlines()[0]
        raise UserError(
            "there is no Dask scheduler", where=f"scheduler={scheduler}", got=told, allowed="tcp://HOST:PORT"
        ) from error
