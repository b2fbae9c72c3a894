# SPDX-License-Identifier: Apache-2.0
"""Schedules with measured costs in place of estimates.

A call's key is its class: the kernel, whose name stands for its code, LLVM's options, and the arguments that steer it.
Of weights it is the length alone, which tells how many a value-aware kernel was left with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import metadata

from compiler.codegen.objects import kernel_digest
from compiler.costs import CostFile, Costs, Family, sources_digest
from compiler.kernels.compact import Compact, quick
from compiler.kernels.kernel import Argument, Constant, KernelCall, Lowered, Place
from compiler.schedule import Schedule
from compiler.target import Target


def priced(schedule: Schedule, costs: Costs) -> Schedule:
    """The schedule with measured instructions. An operator of which one lowering is not known keeps all estimates: the
    two do not compare. Compact lowerings keep theirs, since flash decides on them."""
    if not costs.instructions:
        return schedule
    dispatches = (replace(d, lowered=_with_alternatives(d.lowered, costs)) for d in schedule.dispatches)
    return replace(schedule, dispatches=tuple(dispatches))


def _with_alternatives(lowered: Lowered, costs: Costs) -> Lowered:
    every = quick(lowered)
    counts = [count for one in every if (count := instructions_of(one, costs)) is not None]
    if len(counts) < len(every):
        return lowered
    first, *others = (replace(one, instructions=count) for one, count in zip(every, counts, strict=True))
    compact = (one for one in lowered.alternatives if isinstance(one, Compact))
    return replace(first, alternatives=(*others, *compact))


def instructions_of(lowered: Lowered, costs: Costs) -> int | None:
    """The instructions of all calls; None where one is not known."""
    counts = [costs.instructions.get(call_key(call)) for call in lowered.calls]
    return None if None in counts else sum(count for count in counts if count is not None)


def call_key(call: KernelCall) -> str:
    """A digest of the call's class."""
    arguments = ", ".join(_told(argument) for argument in call.arguments)
    text = f"{call.kernel.name}({arguments}) {call.kernel.options}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(argument: Argument) -> str:
    if isinstance(argument, Constant):
        return f"constant {argument.data.hex() if argument.steers else len(argument.data)}"
    return argument.role.value if isinstance(argument, Place) else str(argument)


def cost_file(target: Target, calls: Iterable[KernelCall], costs: Costs) -> CostFile:
    """The file with what is known of some calls, as measured with today's sources."""
    by_module: dict[str, dict[str, KernelCall]] = {}
    for call in calls:
        key = call_key(call)
        if key in costs.instructions:
            by_module.setdefault(type(call.kernel).__module__, {})[key] = call
    families = {module: _family(target, module, known, costs) for module, known in by_module.items()}
    return CostFile(target.isa, target.core, metadata.version("llvmlite"), families)


def _family(target: Target, module: str, calls: Mapping[str, KernelCall], costs: Costs) -> Family:
    kernels = {call.kernel.name: call.kernel for call in calls.values()}
    return Family(
        sources_digest(module),
        {name: kernel_digest(kernel, target) for name, kernel in kernels.items()},
        Costs({key: costs.instructions[key] for key in calls}, {name: costs.code_bytes[name] for name in kernels}),
    )


def still_known(file: CostFile, target: Target, calls: Iterable[KernelCall]) -> Costs:
    """What a file of the target's core knows of some calls, of stale families too where the kernel's code is still the
    same."""
    if file.core != target.core or file.llvmlite != metadata.version("llvmlite"):
        return Costs()
    stale, held = set(file.stale), dict[str, bool]()
    instructions: dict[str, int] = {}
    code_bytes: dict[str, int] = {}
    for call in calls:
        key, name, module = call_key(call), call.kernel.name, type(call.kernel).__module__
        family = file.families.get(module)
        if family is None or key not in family.costs.instructions:
            continue
        if name not in held:
            held[name] = module not in stale or family.kernels.get(name) == kernel_digest(call.kernel, target)
        if held[name]:
            instructions[key] = family.costs.instructions[key]
            code_bytes[name] = family.costs.code_bytes[name]
    return Costs(instructions, code_bytes)
