# SPDX-License-Identifier: Apache-2.0
"""Boards by name: TOML files to frozen values, checked on the way.

A board names a chip (boards/chips/<chip>.toml) and chooses its console, or names a core alone and is then the emulated
machine of that core. Facts come from vendors' reference manuals and headers, named at the top of each file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from boards.abi import check_abi
from boards.board import Board, Clock, Console, Core, Emulator, Memory, MemoryKind, RegisterStep
from boards.checks import check_memory, check_startup, check_template, check_vectors, register_address
from boards.flashing import Flashing, read_flashing
from boards.machine import Machine, read_machine
from boards.schema import Table
from compiler.errors import UserError

ROOT = Path(__file__).parent
CORE_VECTORS = 16
"""Slots of the vector table before the chip's own interrupts."""
NOT_BOARDS = ("cores", "machines")
CONSOLES = ("uart", "compact")
IMAGES = ("plain", "rp2040", "rp2350", "esp32c3", "imxrt", "lpc", "mcuboot")


def board_names(root: Path = ROOT) -> tuple[str, ...]:
    """Every board's name, sorted; aliases are not among them."""
    return tuple(sorted(path.stem for path in root.glob("*.toml") if path.stem not in NOT_BOARDS))


def board_aliases(root: Path = ROOT) -> dict[str, str]:
    """Alias to board name. UserError where two boards claim one alias or an alias is a board's name."""
    names = board_names(root)
    found: dict[str, str] = {}
    for name in names:
        label = f"boards/{name}.toml"
        for alias in Table.load(root / f"{name}.toml", label).texts("aliases", ()):
            if alias in names or alias in found:
                other = found.get(alias, alias)
                raise UserError("an alias must name one board", where=label, got=f"{alias}, taken by {other}")
            found[alias] = name
    return found


def load_board(name: str, root: Path = ROOT) -> Board:
    """The board called `name` (or so by alias). UserError for an unknown name, or for a fault in its data."""
    aliases = board_aliases(root)
    resolved = aliases.get(name, name)
    if resolved not in board_names(root):
        raise unknown_board(name, (*board_names(root), *aliases))
    table = Table.load(root / f"{resolved}.toml", f"boards/{resolved}.toml")
    cores = Table.load(root / "cores.toml", "boards/cores.toml")
    machines = Table.load(root / "machines.toml", "boards/machines.toml")
    board = (
        _chip_board(resolved, table, cores, machines, root)
        if "chip" in table
        else _bare_board(resolved, table, cores, machines)
    )
    table.close()
    return board


def unknown_board(name: str, known: Iterable[str]) -> UserError:
    """The error for a name that no board has, with the nearest ones."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
    return UserError(
        f"there is no board '{name}'",
        got=name,
        allowed=", ".join(choices),
        hint=f"did you mean {' or '.join(near)}?" if near else "`scons boards` lists the boards with their memories",
    )


def read_core(cores: Table, name: str) -> tuple[Core, str, str]:
    """A core of boards/cores.toml, with the QEMU machine and CPU of boards whose chip QEMU lacks."""
    table = cores.choose(name)
    gcc_flags = table.texts("gcc_flags")
    core = Core(
        name=name,
        isa=table.text("isa"),
        triple=table.text("triple"),
        llvm_cpu=table.text("llvm_cpu"),
        llvm_features=table.text("llvm_features", ""),
        llvm_abi=table.text("llvm_abi", ""),
        gcc=table.text("gcc"),
        gcc_flags=gcc_flags,
        multilib_flags=table.texts("multilib_flags", gcc_flags),
        float_unit=table.text("float_unit", allowed=("none", "single", "double")),
    )
    check_abi(core, table)
    machine, cpu = table.text("machine"), table.text("machine_cpu", "")
    table.close()
    return core, machine, cpu


def _bare_board(name: str, table: Table, cores: Table, machines: Table) -> Board:
    core, machine_name, cpu = read_core(cores, table.text("core"))
    machine = read_machine(machines, machine_name)
    memories = (machine.flash, machine.ram)
    console = machine.require_console(table.where)
    startup = check_startup(table.text("startup"), core, table.place("startup"))
    return Board(
        name=name,
        aliases=table.texts("aliases", ()),
        description=table.text("description"),
        chip=machine.qemu,
        core=core,
        memories=memories,
        arena_banks=(machine.ram.name,),
        clocks=(Clock("reset", machine.clock_hz, console),),
        startup=startup,
        timer=startup,
        vectors=(),
        image="plain",
        simulator="",
        emulator=_emulator(machine, cpu, True, 0, memories, console),
    )


def _chip_board(name: str, table: Table, cores: Table, machines: Table, root: Path) -> Board:
    chip_name = table.text("chip")
    path = root / "chips" / f"{chip_name}.toml"
    if not path.exists():
        allowed = ", ".join(sorted(p.stem for p in path.parent.glob("*.toml")))
        raise UserError("no such chip", where=table.where, got=chip_name, allowed=allowed)
    chip = Table.load(path, f"boards/chips/{chip_name}.toml")
    core, machine_name, cpu = read_core(cores, chip.text("core"))
    memories = _memories(chip)
    flashing = read_flashing(chip, next(m.size for m in memories if m.kind is MemoryKind.FLASH))
    behind = read_flashing(table)
    if behind is not None:
        memories = _behind(behind, memories, table)
    _check_vectors(chip, memories)
    startup = check_startup(chip.text("startup"), core, chip.place("startup"))
    timer = chip.text("timer", startup.split("_v")[0])
    clocks = _clocks(table, chip)
    console = clocks[0].console
    native = "qemu" in table
    machine = read_machine(machines, table.text("qemu") if native else machine_name)
    emulator = _native(machine, memories, console, table) if native else _twin(machine, cpu, memories, table.where)
    board = Board(
        name=name,
        aliases=table.texts("aliases", ()),
        description=table.text("description"),
        chip=chip_name,
        core=core,
        memories=memories,
        arena_banks=_arena_banks(chip, memories),
        clocks=clocks,
        startup=startup,
        timer=check_template("timer", timer, "c", chip.place("timer" if "timer" in chip else "startup")),
        vectors=chip.texts("vectors", ()),
        image=table.text("image", chip.text("image", "plain"), allowed=IMAGES),
        simulator=table.text("simulator", ""),
        emulator=emulator,
        flashing=behind or flashing,
        usual_console=chip.text("usual_console", "uart", allowed=CONSOLES),
    )
    chip.close()
    return board


def _memories(chip: Table) -> tuple[Memory, ...]:
    found: list[Memory] = []
    for table in chip.tables("memories"):
        kind = MemoryKind(table.text("kind", allowed=tuple(kind.value for kind in MemoryKind)))
        memory = Memory(table.text("name"), kind, table.integer("origin"), table.integer("size", low=1))
        check_memory(memory, table)
        table.close()
        for other in found:
            if memory.origin < other.end and other.origin < memory.end:
                raise UserError("memories overlap", where=table.place("origin"), got=f"{memory.name} and {other.name}")
            if memory.name == other.name:
                raise UserError("two memories have one name", where=table.place("name"), got=memory.name)
        found.append(memory)
    missing = {"flash", "ram"} - {memory.kind.value for memory in found}
    if missing:
        raise UserError("a chip needs flash and RAM", where=chip.where, got=f"no {', '.join(sorted(missing))}")
    return tuple(found)


def _behind(flashing: Flashing, memories: tuple[Memory, ...], table: Table) -> tuple[Memory, ...]:
    """The memories, with the flash that the board's own boot loader leaves. UserError where the chip has no such."""
    flash = next(memory for memory in memories if memory.kind is MemoryKind.FLASH)
    if not flash.origin <= flashing.origin < flashing.end <= flash.end:
        raise UserError(
            "the chip's flash does not hold these sectors",
            where=table.place("flash"),
            got=f"{flashing.origin:#x} to {flashing.end:#x}",
            allowed=f"{flash.origin:#x} to {flash.end:#x}",
        )
    left = replace(flash, origin=flashing.origin, size=flashing.end - flashing.origin)
    return tuple(left if memory is flash else memory for memory in memories)


def _check_vectors(chip: Table, memories: tuple[Memory, ...]) -> None:
    """UserError for a flash that cannot even hold the vector table: a slip of a digit in its size."""
    flash = next(memory for memory in memories if memory.kind is MemoryKind.FLASH)
    names = chip.texts("vectors", ())
    check_vectors(names, chip.place("vectors"))
    vectors = 4 * (CORE_VECTORS + len(names))
    if flash.size < vectors:
        raise UserError(
            "the flash is smaller than the vectors",
            where=chip.place("memories"),
            got=f"{flash.name} of {flash.size} bytes",
            allowed=f"at least {vectors} bytes",
        )


def _arena_banks(chip: Table, memories: tuple[Memory, ...]) -> tuple[str, ...]:
    """The RAM banks, those that the chip prefers for the arena first."""
    banks = [memory.name for memory in memories if memory.kind is MemoryKind.RAM]
    preferred = chip.texts("arena", ())
    unknown = [name for name in preferred if name not in banks]
    if unknown:
        raise UserError("no such RAM bank", where=f"{chip.where}: arena", got=unknown[0], allowed=", ".join(banks))
    return (*preferred, *(name for name in banks if name not in preferred))


def _clocks(table: Table, chip: Table) -> tuple[Clock, ...]:
    """The reset clock and, where the chip's data has it, full speed. A UART with a clock of its own keeps it."""
    choice = table.table("console")
    uart = chip.table("uarts").choose(choice.text("uart"))
    hz = chip.integer("clock_hz", low=1)
    own = uart.integer("clock_hz", low=1) if "clock_hz" in uart else None
    driver = check_template("uart", uart.text("driver"), "c", uart.place("driver"))
    base, baud = register_address(uart, "base"), choice.integer("baud", 115200, low=1)
    before, after = read_steps(chip, "setup"), (*read_steps(uart, "setup"), *_pins(choice, uart))
    clocks = [Clock("reset", hz, Console(driver, base, baud, own or hz, (*before, *after)))]
    divided = uart.integer("max_clock_hz", own or 0)
    if "max" in chip:
        fast = chip.table("max")
        hz = fast.integer("hz", low=1)
        console = Console(driver, base, baud, divided or hz, (*before, *read_steps(fast, "steps"), *after))
        clocks.append(Clock("max", hz, console))
        fast.close()
    uart.close()
    choice.close()
    return tuple(clocks)


def _pins(choice: Table, uart: Table) -> tuple[RegisterStep, ...]:
    pins = uart.table("pins", optional=True)
    if not pins.names():
        return ()
    chosen = choice.text("pins")
    if chosen not in pins:
        raise UserError("no such pins", where=choice.where, got=chosen, allowed=", ".join(pins.names()))
    return read_steps(pins, chosen)


def read_steps(table: Table, key: str) -> tuple[RegisterStep, ...]:
    """A list of register steps; `register` names what is written, for the reader."""
    steps: list[RegisterStep] = []
    for entry in table.tables(key, optional=True):
        entry.text("register")
        steps.append(
            RegisterStep(
                register_address(entry, "address"),
                entry.integer("clear", 0),
                entry.integer("set", 0),
                entry.integer("wait", 0),
            )
        )
        entry.close()
    return tuple(steps)


def _native(machine: Machine, memories: tuple[Memory, ...], console: Console, board: Table) -> Emulator:
    for memory in memories:
        region = machine.region(memory.kind)
        if not (region.origin <= memory.origin and memory.end <= region.end):
            raise UserError(
                f"QEMU's {machine.name} lacks this memory",
                where=board.where,
                got=f"{memory.name} at {memory.origin:#x}, {memory.size} bytes",
                allowed=f"{region.origin:#x} to {region.end:#x}",
            )
    serial = machine.serial_of(board.table("console").text("uart"), board.where)
    return _emulator(machine, "", True, serial, memories, console)


def _twin(machine: Machine, cpu: str, memories: tuple[Memory, ...], where: str) -> Emulator:
    """The board's memories, with their sizes, laid out one after another in the machine's."""
    placed: list[Memory] = []
    free = {region.name: region.origin for region in (machine.flash, machine.ram)}
    for memory in memories:
        region = machine.region(memory.kind)
        moved = Memory(memory.name, memory.kind, free[region.name], memory.size)
        if moved.end > region.end:
            raise UserError(
                f"QEMU's {machine.name} has less {memory.kind.value} than the board",
                where=where,
                got=f"{moved.end - region.origin} bytes up to {memory.name}",
                allowed=f"{region.size} bytes",
            )
        free[region.name] = moved.end
        placed.append(moved)
    return _emulator(machine, cpu, False, 0, tuple(placed), machine.require_console(where))


def _emulator(
    machine: Machine, cpu: str, native: bool, serial: int, memories: tuple[Memory, ...], console: Console
) -> Emulator:
    return Emulator(
        system=machine.system,
        machine=machine.qemu,
        cpu=cpu,
        options=machine.options,
        version=machine.version,
        native=native,
        serial=serial,
        clock_hz=machine.clock_hz,
        memories=memories,
        console=console,
    )
