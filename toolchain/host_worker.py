# SPDX-License-Identifier: Apache-2.0
"""Runs compiled models in a process of its own, so that a fault in their code ends nothing else.

Reads `Job`s from standard input and answers each on standard output, pickled: a list of the rows' outputs, or the text
of an error. Started by toolchain/host.py.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from dataclasses import dataclass

from compiler.codegen.host import Loaded

GARBAGE = 0xA5
"""What memory holds before the first run: code that relies on zeros shows."""


@dataclass(frozen=True)
class Job:
    """A model's objects and rows of inputs, each row's inputs one after another. Places are (offset in the arena,
    bytes). With `reset` the variables get their first values before the first row."""

    prefix: str
    objects: tuple[bytes, ...]
    arena_bytes: int
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    reset: bool
    rows: tuple[bytes, ...]


def perform(job: Job) -> list[bytes]:
    """Each row's outputs, one after another. Raises RuntimeError where the objects do not link."""
    loaded = Loaded(job.objects)
    arena = loaded.address(f"{job.prefix}_arena")
    ctypes.memset(arena, GARBAGE, job.arena_bytes)
    if job.reset:
        loaded.call(f"{job.prefix}_reset")
    found = []
    for row in job.rows:
        at = 0
        for offset, size in job.inputs:
            ctypes.memmove(arena + offset, row[at : at + size], size)
            at += size
        loaded.call(f"{job.prefix}_invoke")
        found.append(b"".join(ctypes.string_at(arena + offset, size) for offset, size in job.outputs))
    return found


def serve() -> None:
    """Answers jobs until standard input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            job = pickle.load(requests)
        except EOFError:
            return
        answer: list[bytes] | str
        try:
            answer = perform(job)
        except RuntimeError as error:
            answer = str(error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    # Jobs are pickled under this module's importable name, not as members of __main__.
    from toolchain import host_worker

    host_worker.serve()
