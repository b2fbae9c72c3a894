# SPDX-License-Identifier: Apache-2.0
"""`board=host`: models compiled for the building machine, and run there in milliseconds. A convenience: what the cores
compute is shown by the emulator."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from compiler.artifact import CompiledModel
from compiler.errors import CheckFailed
from toolchain.host_worker import Job
from toolchain.listings import write_listings
from toolchain.products import HOST_OBJECTS
from toolchain.report.contents import host_report_of, write_report
from toolchain.request import ROOT, HostRequest


class HostProcess:
    """A process that runs models. It is started with the first one and again after a fault."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def run(self, job: Job) -> list[bytes]:
        """Each row's outputs, one after another. Raises CheckFailed where the code does not link, or faults."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "toolchain.host_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
            answer: list[bytes] | str = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise CheckFailed(f"{job.prefix} stopped on this machine: {self.stop()}") from error
        if isinstance(answer, str):
            raise CheckFailed(f"{job.prefix} does not link on this machine: {answer}")
        return answer

    def stop(self) -> str:
        """Ends the process; returns how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        code = process.wait()
        process.stdout.close()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def job_of(model: CompiledModel, rows: tuple[bytes, ...]) -> Job:
    """The job of a model that was compiled for the building machine."""
    return Job(
        model.prefix,
        tuple(part.data for part in model.objects),
        model.arena_bytes,
        tuple((port.offset, port.bytes) for port in model.inputs),
        tuple((port.offset, port.bytes) for port in model.outputs),
        model.stateful,
        rows,
    )


def build_host(model: CompiledModel, out: Path) -> None:
    """Writes report.json, the objects, and LLVM IR and assembly for reading."""
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out / HOST_OBJECTS, "w") as archive:
        for part in model.objects:
            archive.writestr(zipfile.ZipInfo(f"{part.name}.o"), part.data)
    write_listings(model, out)
    write_report(out / "report.json", host_report_of(model))


def read_job(request: HostRequest, report: dict[str, Any], rows: tuple[bytes, ...]) -> Job:
    """The job of a finished build."""
    with zipfile.ZipFile(request.folder / HOST_OBJECTS) as archive:
        objects = tuple(archive.read(name) for name in archive.namelist())
    places = [tuple((p["offset"], p["bytes"]) for p in report[kind]) for kind in ("inputs", "outputs")]
    model = report["model"]
    return Job(model["prefix"], objects, report["arena"]["bytes"], places[0], places[1], model["stateful"], rows)
