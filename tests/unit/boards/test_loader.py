# SPDX-License-Identifier: Apache-2.0
"""The loader takes every board we have, and says what is wrong with data that it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boards.board import MemoryKind
from boards.loader import ROOT, board_aliases, board_names, load_board
from compiler.errors import UserError
from toolchain.templates import render


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of boards/ to break."""
    copy = tmp_path / "boards"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return copy


@pytest.mark.parametrize("name", board_names())
def test_every_board_loads(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert board.flash.kind is MemoryKind.FLASH and board.ram.kind is MemoryKind.RAM
    assert [m.size for m in board.emulator.memories] == [m.size for m in board.memories]
    assert [m.name for m in board.emulator.memories] == [m.name for m in board.memories]
    assert all("HandlerHandler" not in vector for vector in board.vectors)
    named = [vector for vector in board.vectors if vector]
    assert len(set(named)) == len(named)
    if board.emulator.native:
        assert board.emulator.memories == board.memories
        assert board.emulator.console == board.console


def test_required_boards_exist() -> None:
    required = "ch32v003 ch32v203 ch32v307 bluepill netduinoplus2 stm32vldiscovery microbit nucleo_f446 nucleo_h743"
    emulated = "m0 m3 m4 m4f m7 m33 m55 rv32imac rv32imafc rv32ec"
    wanted = {*required.split(), "nrf52840dk", "opentitan", "pico", *(f"qemu_{core}" for core in emulated.split())}
    assert wanted <= set(board_names())


def test_interrupts_sit_where_the_headers_say() -> None:
    """IRQ numbers of the vendors' headers."""
    for board, irq, handler in (
        ("bluepill", 37, "USART1_IRQHandler"),
        ("nucleo_f446", 96, "FMPI2C1_ER_IRQHandler"),
        ("netduinoplus2", 81, "FPU_IRQHandler"),
        ("nucleo_h743", 149, "WAKEUP_PIN_IRQHandler"),
        ("stm32vldiscovery", 54, "TIM6_DAC_IRQHandler"),
        ("nrf52840dk", 47, "SPIM3_IRQHandler"),
        ("microbit", 25, "SWI5_IRQHandler"),
        ("ch32v307", 87, "DMA2_Channel11_IRQHandler"),
        ("ch32v303", 67, "USBFS_IRQHandler"),
        ("ch32v303", 87, "DMA2_Channel11_IRQHandler"),
        ("ch32v003", 16, "USART1_IRQHandler"),
        ("pico", 20, "isr_uart0"),
        ("pico2", 33, "isr_uart0"),
        ("nucleo_f072", 31, "USB_IRQHandler"),
        ("nucleo_f303", 84, "SPI4_IRQHandler"),
        ("blackpill_f411", 85, "SPI5_IRQHandler"),
        ("nucleo_f746", 97, "SPDIF_RX_IRQHandler"),
        ("h735discovery", 162, "TIM24_IRQHandler"),
        ("nucleo_l476", 81, "FPU_IRQHandler"),
        ("nucleo_g474", 101, "FMAC_IRQHandler"),
        ("nucleo_u575", 61, "USART1_IRQHandler"),
        ("arduino_zero", 14, "SERCOM5_Handler"),
        ("arduino_due", 44, "CAN1_Handler"),
        ("lpc845brk", 3, "USART0_IRQHandler"),
        ("lpc1768", 34, "CANActivity_IRQHandler"),
        ("teensy40", 157, "GPIO6_7_8_9_IRQHandler"),
        ("ch32v208", 53, "OSCWakeUp_IRQHandler"),
        ("ch32x035", 38, "TIM3_IRQHandler"),
        ("ch32v006", 23, "USART2_IRQHandler"),
        ("longan_nano", 40, "USART0_IRQHandler"),
    ):
        assert load_board(board).vectors[irq] == handler


def test_there_are_many_boards() -> None:
    assert len([name for name in board_names() if not name.startswith("qemu_")]) >= 35


def test_full_speed_comes_between_chip_and_pins() -> None:
    reset, fast = load_board("bluepill").clocks
    assert (reset.name, reset.hz, reset.console.clock_hz) == ("reset", 8_000_000, 8_000_000)
    assert (fast.name, fast.hz, fast.console.clock_hz) == ("max", 64_000_000, 64_000_000)
    added = len(fast.console.setup) - len(reset.console.setup)
    assert added == 4 and fast.console.setup[added:] == reset.console.setup
    assert load_board("netduinoplus2").clocks[1].console.clock_hz == 42_000_000
    assert load_board("pico").clocks[1].console.clock_hz == 12_000_000
    assert [clock.name for clock in load_board("esp32c3").clocks] == ["reset"]


@pytest.mark.parametrize("name", board_names())
def test_every_clock_makes_its_baud_rate(name: str) -> None:
    for clock in load_board(name).clocks:
        assert clock.hz >= 1_000_000 and clock.console.clock_hz >= 1_000_000
        assert all(step.address % 4 == 0 for step in clock.console.setup)
        assert all(step.clear or step.set or step.wait for step in clock.console.setup)
        render(f"uart/{clock.console.driver}.c", {"console": clock.console})


def test_the_arena_prefers_what_the_chip_says() -> None:
    assert load_board("f4discovery").arena_banks == ("CCM", "RAM")
    assert load_board("nucleo_h743").arena_banks == ("DTCM", "AXISRAM")
    assert load_board("esp32c3").constants.name == "DROM" and load_board("bluepill").constants.name == "FLASH"


def test_alias() -> None:
    assert board_aliases()["ch32v"] == "ch32v307"
    assert load_board("ch32v") == load_board("ch32v307")


def test_soft_float_core_has_no_float_unit_in_llvm() -> None:
    core = load_board("qemu_m4").core
    assert core.float_unit == "none" and core.llvm_features == "-fpregs" and core.triple.endswith("eabi")


def test_unknown_board_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean bluepill") as caught:
        load_board("bluepil")
    assert "ch32v307" in (caught.value.allowed or "")


def edit(root: Path, file: str, old: str, new: str) -> None:
    path = root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("bluepill.toml", "chip =", "chipp =", "core is missing"),
        ("bluepill.toml", "chip =", 'colour = "blue"\nchip =', r"unknown key.*bluepill.toml:3\n.*colour"),
        ("bluepill.toml", '"stm32f103c8"', '"stm32f103c9"', "no such chip"),
        ("bluepill.toml", '"USART1"', '"USART9"', "no such entry"),
        ("bluepill.toml", '"PA9_PA10"', '"PB6_PB7"', "no such pins"),
        ("bluepill.toml", "description = ", "description = 3 #", "description has the wrong type"),
        ("bluepill.toml", "description = ", "description = [ #", "not a valid TOML file"),
        ("netduinoplus2.toml", 'qemu = "netduinoplus2"', 'qemu = "stm32vldiscovery"', "lacks this memory"),
        ("machines.toml", "USART2 = 1, USART3 = 2, UART4", "UART4", "does not connect this UART"),
        ("chips/stm32f103c8.toml", 'core = "cortex-m3"', 'core = "cortex-m9"', "no such entry"),
        (
            "chips/stm32f103c8.toml",
            "origin = 0x20000000",
            "origin = 0x08000000",
            r"overlap.*c8.toml:9: memories",
        ),
        ("chips/stm32f103c8.toml", "size = 0x10000", "size = 0x80", "flash is smaller than the vectors"),
        (
            "cores.toml",
            'gcc_flags = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft"]',
            'gcc_flags = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=hard"]',
            r"does not fit cortex-m3.*cores.toml:\d+",
        ),
        ("chips/stm32f103c8.toml", 'kind = "ram"', 'kind = "rom"', "kind has no such value"),
        ("chips/stm32f103c8.toml", 'kind = "ram"', 'kind = "flash"', "needs flash and RAM"),
        ("chips/stm32f103c8.toml", "size = 0x5000", "size = 0x5000000", "less ram than the board"),
        ("chips/stm32f103c8.toml", "size = 0x5000", "size = 0", "out of range"),
        ("chips/stm32f103c8.toml", "set = 0x4000 ", "sets = 0x4000 ", "unknown key"),
        ("chips/stm32f103c8.toml", "vectors = [", "vectors = [ 3,", "a list of strings"),
        ("chips/stm32f407vg.toml", 'arena = ["CCM"]', 'arena = ["CMM"]', "no such RAM bank.*CMM.*RAM, CCM"),
        ("feather_nrf52832.toml", '"71x4K"', '"91x4K"', "does not hold these sectors.*0x81000.*0x0 to 0x80000"),
        ("chips/stm32f103c8.toml", "hz = 64000000", "herz = 64000000", "hz is missing"),
        ("chips/stm32f103c8.toml", "[max]", "[max]\nvolts = 3", "unknown key.*volts"),
        ("cores.toml", 'float_unit = "none"', 'float_unit = "half"', "float_unit has no such value"),
        (
            "cores.toml",
            '"-march=rv32imac_zicsr", "-mabi=ilp32"',
            '"-march=rv32imac_zicsr", "-mabi=ilp32f"',
            "does not fit",
        ),
        ("machines.toml", 'system = "qemu-system-arm"', "", "system is missing"),
        ("chips/stm32f103c8.toml", "0x20000000", "0x20000008", r"multiple of 16.*c8.toml:9: memories\[1\].*RAM at"),
        ("chips/stm32f103c8.toml", "0x20000000", "0xFFFFF000", r"beyond the addresses.*c8.toml:9: memories\[1\]"),
        ("chips/stm32f103c8.toml", '"RAM"', '"MY RAM"', r"not a name in C.*c8.toml:9: memories\[1\].*'MY RAM'"),
        ("chips/stm32f103c8.toml", '"RAM"', '""', r"not a name in C.*c8.toml:9: memories\[1\]"),
        ("chips/stm32f103c8.toml", '"WWDG_IRQHandler"', '"WWDG-IRQ"', r"not a name in C.*c8.toml:\d+\n.*'WWDG-IRQ'"),
        ("chips/stm32f103c8.toml", '"WWDG_IRQHandler"', '"PVD_IRQHandler"', r"have one name.*c8.toml:\d+\n.*PVD"),
        ("chips/stm32f103c8.toml", '"WWDG_IRQHandler"', '"main"', r"have one name.*c8.toml:\d+\n.*main"),
        ("chips/stm32f103c8.toml", '"cortex_m"', '"cortex_n"', r"no such startup template.*c8.toml:\d+\n.*cortex_m,"),
        ("chips/stm32f103c8.toml", '"cortex_m"', '"../link"', r"no such startup template.*c8.toml:\d+\n"),
        ("chips/stm32f103c8.toml", '"cortex_m"', '"qingke_v2"', r"another architecture.*c8.toml:\d+\n.*cortex-m3"),
        ("chips/stm32f103c8.toml", "startup =", 'timer = "sun"\nstartup =', r"no such timer template.*c8.toml:\d+\n"),
        ("chips/stm32f103c8.toml", "stm32_usart_v1", "stm32_usart_v9", r"no such uart template.*c8.toml:\d+: uarts"),
        ("chips/stm32f103c8.toml", "base = 0x40013800", "base = 0x40013801", r"multiple of 4.*c8.toml:\d+: uarts"),
        ("chips/stm32f103c8.toml", "base = 0x40013800", "base = -4", r"base is out of range.*c8.toml:\d+: uarts"),
        ("chips/stm32f103c8.toml", "0x40021018", "0x40021019", r"multiple of 4.*c8.toml:\d+: .*setup\[0\]"),
        ("chips/stm32f103c8.toml", "set = 0x4000 ", "set = 0x400000000 ", r"set is out of range.*c8.toml:\d+: "),
        ("chips/stm32f103c8.toml", "register = ", "registre = ", r"register is missing.*c8.toml:\d+: "),
        ("chips/stm32f103c8.toml", "startup =", 'usual_console = "tiny"\nstartup =', "usual_console has no such value"),
        ("bluepill.toml", "chip =", 'image = "exe"\nchip =', r"image has no such value.*bluepill.toml:3\n"),
        ("bluepill.toml", "chip =", 'aliases = "x"\nchip =', r"aliases has the wrong type.*bluepill"),
        ("bluepill.toml", "console = { ", "console = { baud = 0, ", r"baud is out of range.*bluepill.toml:4: console"),
        ("bluepill.toml", "console = {", 'console = "uart" # {', r"console has the wrong type.*bluepill.toml:4\n"),
        ("bluepill.toml", '"stm32f103c8"', '""', "no such chip"),
    ],
)
def test_faults_are_named(root: Path, file: str, old: str, new: str, message: str) -> None:
    edit(root, file, old, new)
    with pytest.raises(UserError, match=f"(?s){message}") as caught:
        for name in board_names(root):
            load_board(name, root)
    assert caught.value.where and caught.value.where.startswith("boards/")


def test_alias_taken_twice(root: Path) -> None:
    edit(root, "bluepill.toml", "chip =", 'aliases = ["ch32v"]\nchip =')
    with pytest.raises(UserError, match="alias must name one board"):
        load_board("bluepill", root)


def test_a_board_with_its_own_boot_loader_leaves_flash_to_it() -> None:
    feather, chip = load_board("feather_nrf52832"), load_board("nrf52dk")
    assert (feather.flash.origin, feather.flash.end) == (0x26000, 0x6D000)
    assert feather.ram == chip.ram and chip.flash.origin == 0 and chip.flashing is None
    assert load_board("nrf52840dk_mcuboot").image == "mcuboot"


@pytest.mark.parametrize("name", board_names())
def test_templates_exist_for_what_a_board_names(name: str) -> None:
    board = load_board(name)
    templates = ROOT.parent / "firmware_templates"
    assert (templates / "startup" / f"{board.startup}.S.j2").exists()
    for console in (board.console, board.emulator.console):
        assert (templates / "uart" / f"{console.driver}.c.j2").exists()
