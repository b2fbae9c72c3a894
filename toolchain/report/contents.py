# SPDX-License-Identifier: Apache-2.0
"""report.json: the one file that everything printed or drawn derives from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llvmlite.binding

from compiler.artifact import CompiledModel, DispatchInfo, Port
from toolchain.bundle import Bundle
from toolchain.elf.sizes import Sizes
from toolchain.files import write_text
from toolchain.guard import guard_of
from toolchain.link import Image
from toolchain.options import FirmwareOptions

SCHEMA = 1


def report_of(image: Image, bundle: Bundle, sizes: Sizes, options: FirmwareOptions, gcc: str) -> dict[str, Any]:
    """The report of a build; what only a run can measure is null. Sizes in bytes, clock in Hz. Of several models the
    first is the report's; `more_models` has the others."""
    stack = image.stack
    report = _model_report(image.site.board.name, bundle.first)
    report["toolchain"]["gcc"] = gcc
    return report | {
        "app": None if options.app is None else options.app.resolve().name,
        "clock": {"name": options.clock, "hz": image.site.clock_hz},
        "benchmark": None if options.benchmark is None else options.benchmark.name,
        "console": "none" if options.app is not None else options.console,
        "more_models": [_model_part(model) for model in bundle.models[1:]],
        "numerics": options.numerics,
        "optimize": options.optimize,
        "flash": asdict(sizes.flash),
        "ram": asdict(sizes.ram),
        "banks": {
            "arena": " + ".join(bank.name for bank in image.layout.arena_banks),
            "constants": image.layout.constants_bank.name if image.layout.constants_bank else image.site.constants.name,
            "stack": image.site.banks[0].name,
        },
        "stack": {
            "bound": stack.bytes,
            "program": stack.program,
            "handlers": stack.handlers,
            "exceptions": stack.interrupt,
            "guard": guard_of(image.site.board).protection.value,
            "measured": None,
            "path": [{"function": name, "bytes": depth} for name, depth in stack.path],
        },
    }


def host_report_of(model: CompiledModel) -> dict[str, Any]:
    """The report of a build for the building machine, which has neither memory map nor console."""
    return _model_report("host", model)


def _model_report(board: str, model: CompiledModel) -> dict[str, Any]:
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    return _model_part(model) | {
        "schema": SCHEMA,
        "board": board,
        "instructions": None,
        "cycles": None,
        "cycles_estimate": None,
        "notes": list(model.notes),
        "toolchain": {"llvm": llvm, "llvmlite": llvmlite.__version__},
    }


def _model_part(model: CompiledModel) -> dict[str, Any]:
    return {
        "model": {
            "name": model.name,
            "prefix": model.prefix,
            "sha256": model.sha256,
            "stateful": model.stateful,
        },
        "inputs": [_port(model, port) for port in model.inputs],
        "outputs": [_port(model, port) for port in model.outputs],
        "arena": {
            "bytes": model.arena_bytes,
            "walls": list(model.arena_walls),
            "lower_bound": model.arena_lower_bound,
            "tensors": [asdict(tensor) for tensor in model.arena_tensors],
        },
        "dispatches": [_dispatch(dispatch) for dispatch in model.dispatches],
    }


def _port(model: CompiledModel, port: Port) -> dict[str, Any]:
    return {**asdict(port), "dtype": port.dtype.value, "place": list(model.place(port))}


def _dispatch(dispatch: DispatchInfo) -> dict[str, Any]:
    return {
        **asdict(dispatch),
        "instructions": None,
        "cycles": None,
        "cycles_estimate": None,
    }


def short_name(tensor: str) -> str:
    """The start of a tensor's name: converters join the names of fused layers with semicolons."""
    return tensor.split(";", 1)[0]


def write_report(path: Path, report: dict[str, Any]) -> Path:
    """Write a report with sorted keys, whole or not at all."""
    return write_text(path, json.dumps(report, indent=1, sort_keys=True) + "\n")


def read_report(path: Path) -> dict[str, Any]:
    """A report as it was written."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report
