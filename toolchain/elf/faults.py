# SPDX-License-Identifier: Apache-2.0
"""A fault line of the firmware in words: what happened, in which function and line, in which layer of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

from toolchain.elf.file import Elf, read_elf

FAULT = re.compile(
    r"e-\[(?P<kind>Fault|Stack overflow)(?: cause (?P<cause>[0-9A-F]{8}))?(?: status (?P<status>[0-9A-F]{8}))?"
    r"(?: pc (?P<pc>[0-9A-F]{8}))?(?: (?P<register>lr|ra) (?P<link>[0-9A-F]{8}))?"
    r"(?P<running>(?: (?:\w+ )?dispatch \d+(?: \w+(?: \+ \w+)*)?)*)]"
)
RUNNING = re.compile(r"(?:(?P<prefix>\w+) )?dispatch (?P<index>\d+)")

ARM_EXCEPTIONS = {2: "NMI", 3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault", 7: "SecureFault",
                  11: "SVCall", 12: "DebugMonitor", 14: "PendSV", 15: "SysTick"}  # fmt: skip
"""Armv7-M manual, B1.5.2; Armv8-M manual, B3.9."""
ARM_FIRST_INTERRUPT = 16

ARM_STATUS = {
    0: "instruction access violation", 1: "data access violation", 3: "unstacking violation", 4: "stacking violation",
    5: "float state violation", 8: "bus error on an instruction", 9: "bus error on data",
    10: "bus error on data, late", 11: "bus error on unstacking", 12: "bus error on stacking",
    13: "bus error on float state", 16: "undefined instruction", 17: "invalid state (Thumb bit)",
    18: "invalid return", 19: "no coprocessor (float unit off?)", 20: "stack limit passed", 24: "unaligned access",
    25: "division by zero",
}  # fmt: skip
"""Bits of CFSR: Armv7-M manual, B3.2.15; Armv8-M manual, CFSR."""

RISCV_CAUSES = (
    "instruction address misaligned", "instruction access fault", "illegal instruction", "breakpoint",
    "load address misaligned", "load access fault", "store address misaligned", "store access fault",
    "environment call from U-mode", "environment call from S-mode", "reserved", "environment call from M-mode",
    "instruction page fault", "load page fault", "reserved", "store page fault",
)  # fmt: skip
"""mcause: RISC-V privileged specification, table of machine cause values."""


def decode_fault(line: str, elf: Path, report: Mapping[str, Any]) -> str:
    """The fault line that is in `line` in words, several lines of text; empty where there is none.

    `elf` is the image that ran, `report` its report.json.
    """
    match = FAULT.search(line)
    if match is None:
        return ""
    data = elf.read_bytes()
    image = read_elf(data)
    told = [match["kind"].lower()]
    if match["cause"]:
        told[0] += ": " + "; ".join(_causes(image.machine, int(match["cause"], 16), match["status"]))
    with elf.open("rb") as stream:
        lines = ELFFile(stream)
        debug = lines.get_dwarf_info() if lines.has_dwarf_info() else None
        for name, text in (("pc", match["pc"]), (match["register"], match["link"])):
            if text is not None and int(text, 16) != 0:
                told.append(f"  {name} {text}: {_place(image, debug, int(text, 16))}")
    told += [f"  {one}" for one in _running(match["running"], report)]
    return "\n".join(told)


def _causes(machine: str, cause: int, status: str | None) -> Iterator[str]:
    if machine != "EM_ARM":
        code = cause & 0x7FFFFFFF
        if cause >> 31:
            yield f"interrupt {code}"
        else:
            yield RISCV_CAUSES[code] if code < len(RISCV_CAUSES) else f"cause {code}"
        return
    number = cause & 0x1FF
    known = ARM_EXCEPTIONS.get(number, f"exception {number}")
    yield known if number < ARM_FIRST_INTERRUPT else f"interrupt {number - ARM_FIRST_INTERRUPT} without a handler"
    bits = int(status, 16) if status else 0
    yield from (text for bit, text in ARM_STATUS.items() if bits >> bit & 1)


def _place(elf: Elf, debug: DWARFInfo | None, address: int) -> str:
    """`function + offset`, and file and line where the image has them."""
    if elf.machine == "EM_ARM":
        if address >= 0xFFFFFF00:
            return "an exception's return value"
        address &= ~1
    functions = [s for s in elf.symbols if s.kind == "STT_FUNC" and s.address <= address < s.address + s.size]
    if not functions:
        return "no function of this image"
    line = _line(debug, address) if debug else None
    return f"{functions[0].name} + {address - functions[0].address}" + (f" ({line})" if line else "")


def _line(debug: DWARFInfo, address: int) -> str | None:
    """`file:line` of an address, by the line programs of DWARF 4 and 5."""
    for unit in debug.iter_CUs():
        program = debug.line_program_for_CU(unit)
        if program is None:
            continue
        before = None
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if before is not None and before.address <= address < state.address:
                files = program["file_entry"]
                # DWARF 5 counts files from 0.
                file = files[before.file - (program["version"] < 5)]
                return f"{file.name.decode('utf-8', 'replace')}:{before.line}"
            before = None if state.end_sequence else state
    return None


def _running(text: str, report: Mapping[str, Any]) -> Iterator[str]:
    """What a dispatch of the report is: operator, layer, kernel."""
    models = [report, *report.get("more_models", [])]
    for match in RUNNING.finditer(text):
        index = int(match["index"])
        chosen = next((m for m in models if m["model"]["prefix"] == match["prefix"]), models[0])
        if index >= len(chosen["dispatches"]):
            yield f"dispatch {index}: {chosen['model']['name']} has only {len(chosen['dispatches'])}"
            continue
        dispatch = chosen["dispatches"][index]
        layer = f"{dispatch['op']} {dispatch['name']}, {dispatch['kernel']}"
        yield f"dispatch {index} of {chosen['model']['name']}: {layer}"
