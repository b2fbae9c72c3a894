# SPDX-License-Identifier: Apache-2.0
"""The generated sources of an image: a board, a model and a layout go in, texts come out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boards.board import MemoryKind
from compiler.artifact import CompiledModel, Port
from compiler.errors import UserError
from compiler.graph import DType
from compiler.selftest import tolerance
from toolchain.benchmark import Sent, check_benchmark
from toolchain.bundle import Bundle
from toolchain.cnames import identifier
from toolchain.guard import Protection, guard_of
from toolchain.images.forms import FORMS, Form, form_of
from toolchain.layout import Layout
from toolchain.options import FirmwareOptions
from toolchain.site import Site
from toolchain.templates import render

STACK_PAINT = 0xC5C5C5C5
"""What start-up writes over the stack; what is left of it shows how deep the stack has been."""

UART_SPINS = 20 << 20
"""Polls of the UART's transmitter before a byte is given up: the emulator's reader may be slow."""


COUNTERS = {"riscv": "mcycle", "nuclei": "mcycle", "qingke_v3a": "qingke", "systimer": "esp32c3"}
"""By the timer: firmware_templates/cycles/<counter>.c.j2, where not of the same name."""


@dataclass(frozen=True)
class FixedPoint:
    """Decimal output of quantised values: ((q - zero_point) * multiplier + rounding) >> shift, in 10^-decimals."""

    multiplier: int
    shift: int
    rounding: int
    decimals: int


@dataclass(frozen=True)
class Output:
    """An output as the console prints and tests it. `tolerances`: one a test vector, float outputs only."""

    index: int
    port: Port
    elements: int
    is_float: bool
    zero_point: int
    fixed: FixedPoint | None
    tolerances: tuple[float, ...]


def fixed_point(port: Port) -> FixedPoint | None:
    """The widest fixed-point form that stays inside 31 bits; None for outputs without one scale."""
    if len(port.scales) != 1 or port.dtype not in (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16):
        return None
    limits = np.iinfo(port.dtype.numpy)
    span = max(abs(int(limits.min) - port.zero_points[0]), abs(int(limits.max) - port.zero_points[0]))
    scale = port.scales[0]
    decimals = min(max(3, math.ceil(-math.log10(scale))), 9)
    while decimals > 0 and scale * 10**decimals * span >= 2**30:
        decimals -= 1
    unit = scale * 10**decimals
    shift = 24
    while shift > 0 and (round(unit * 2**shift) * span) + 2**shift >= 2**31:
        shift -= 1
    if round(unit * 2**shift) * span >= 2**31:
        return None
    return FixedPoint(round(unit * 2**shift), shift, (1 << shift) >> 1, decimals)


def outputs_of(model: CompiledModel) -> tuple[Output, ...]:
    """The model's outputs with all that the console needs to know of them."""
    found: list[Output] = []
    for index, port in enumerate(model.outputs):
        is_float = port.dtype is DType.FLOAT32
        tolerances = tuple(
            tolerance(np.frombuffer(vector.outputs[index], dtype="<f4")) for vector in model.vectors if is_float
        )
        zero_point = port.zero_points[0] if len(port.zero_points) == 1 else 0
        elements = port.bytes // port.dtype.bytes
        found.append(Output(index, port, elements, is_float, zero_point, fixed_point(port), tolerances))
    return tuple(found)


def header(model: CompiledModel, bundle: Bundle) -> str:
    """include/<prefix>.h: the C interface of the model."""
    named: list[tuple[str, str]] = []
    for port in (*model.inputs, *model.outputs):
        kind = "input" if port in model.inputs else "output"
        alias = f"{model.prefix}_{kind}_{identifier(port.name)}"
        if alias != port.symbol and alias not in [known for known, _ in named]:
            named.append((alias, port.symbol))
    symbols = {port.symbol for port in (*model.inputs, *model.outputs)}
    named = [(alias, symbol) for alias, symbol in named if alias not in symbols]
    sharing = [] if model.stateful else [m.prefix for m in bundle.models if m != model and not m.stateful]
    values = {"model": model, "upper": model.prefix.upper(), "named_ports": named, "sharing": sharing}
    return render("header.h", values)


def interface() -> str:
    """include/firmware.h: what the firmware offers to the user's own sources."""
    return render("firmware.h", {})


def startup(site: Site, bundle: Bundle, layout: Layout, application: str) -> str:
    """Vectors and start-up, for the C preprocessor and the assembler. Only the user's own sources can have
    constructors to run, or turn on interrupts of the chip: without them the table ends with the core's own."""
    interrupts = site.board.vectors if application == "app" else ()
    values = {
        "board": site.board,
        "twin": site.twin,
        "form": _form(site),
        "stack_paint": f"0x{STACK_PAINT:X}",
        "guard": guard_of(site.board).protection.value,
        "constructors": application == "app",
        "float_handlers": application == "app",
        "arenas_apart": [s.name for s in layout.arena_sections(bundle) if s.bank != site.banks[0]],
        "constants_apart": layout.constants_bank is not None,
        "interrupts": interrupts,
        "vector_alignment": max(128, 1 << (4 * (16 + len(interrupts)) - 1).bit_length()),
    }
    return render(f"startup/{site.board.startup}.S", values)


def firmware(site: Site, bundle: Bundle, layout: Layout, options: FirmwareOptions) -> str:
    """Console (or what stands in its place), fault report and clock set-up. UserError for a console that cannot be."""
    model = bundle.first
    if not model.inputs or not model.outputs:
        raise UserError("a model needs an input and an output to be run", where=model.name)
    options.check([each.name for each in bundle.models])
    benchmark = options.benchmark
    if benchmark is not None:
        check_benchmark(benchmark, model)
    outputs, timer = outputs_of(model), _timer(site)
    sent, taken = benchmark.sent if benchmark else Sent.AS_IT_IS, model.inputs[0].dtype
    values = {
        "board": site.board,
        "console": site.console,
        "model": model,
        "bundle": bundle,
        "models": bundle.models,
        "guard": guard_of(site.board),
        "application": options.application,
        "compact": options.application == "compact",
        "timer": timer,
        "counts_cycles": options.counts_cycles,
        "checked_kernels": checked_kernels(site, bundle, options),
        "counter": _counter(timer, site),
        "kernels": model.kernels,
        "emulated": site.emulated,
        "clock_mhz": max(1, round(site.clock_hz / 1_000_000)),
        "stack_paint": f"0x{STACK_PAINT:X}",
        "uart_spins": UART_SPINS,
        "outputs": outputs,
        "prints_floats": sent is Sent.REAL or any(output.is_float for output in outputs),
        "input_bytes": benchmark.bytes if benchmark else sum(port.bytes for port in model.inputs),
        "model_name": options.known_as(model.name),
        "flips": sent is Sent.IMAGE and taken is DType.INT8,
        "sends_reals": sent is Sent.REAL,
        "quantises": sent is Sent.REAL and taken is DType.INT8,
        "keeps_input": layout.keeps_input,
        "repeats": layout.keeps_input or model.inputs_kept,
    }
    return render("firmware.c", values)


def checked_kernels(site: Site, bundle: Bundle, options: FirmwareOptions) -> tuple[str, ...]:
    """The kernels behind which the stack's guard is looked at: all, where it is but a canary."""
    seen_late = guard_of(site.board).protection is Protection.CANARY
    if not seen_late or options.application == "none" or options.counts_cycles:
        return ()
    return tuple(dict.fromkeys(kernel for model in bundle.models for kernel in model.kernels))


def _form(site: Site) -> Form:
    """The board's own; the emulator has no boot ROM."""
    return FORMS["plain"] if site.twin else form_of(site.board)


def _timer(site: Site) -> str:
    """The board's own; the emulator's RISC-V has the standard's counter."""
    if not site.twin:
        return site.board.timer
    return "cortex_m" if site.board.core.triple.startswith("thumb") else "riscv"


def _counter(timer: str, site: Site) -> str:
    """What counts core clocks: a source of time may have another rate."""
    if timer == "nrf_timer" and site.board.core.isa != "armv6m":
        return "dwt"
    return COUNTERS.get(timer, timer)


def runtime() -> str:
    """memcpy and its like."""
    return render("runtime.c", {})


def boot(name: str, site: Site) -> str:
    """A part of the image for the boot ROM (toolchain/images/forms.py)."""
    return render(f"startup/{name}.S", {"board": site.board, "flash": site.flash})


def linker_script(site: Site, bundle: Bundle, layout: Layout, stack_bytes: int, application: str) -> str:
    """The memory map. `stack_bytes` is the stack's proven size."""
    values = {
        "board": site.board,
        "bundle": bundle,
        "constructors": application == "app",
        "memories": site.memories,
        "file": site.file,
        "flash": site.flash,
        "constants": site.constants,
        "constants_bank": layout.constants_bank,
        "ram": site.banks[0],
        "arena_sections": layout.arena_sections(bundle),
        "form": _form(site),
        "guard": guard_of(site.board),
        "stack_bytes": stack_bytes,
        "arm": site.board.core.triple.startswith("thumb"),
    }
    for memory in site.memories:
        if memory.kind is MemoryKind.RAM and memory.origin % 16:
            raise UserError("a RAM bank must begin at a multiple of 16", got=f"{memory.name} at {memory.origin:#x}")
    return render("link.ld", values)
