# SPDX-License-Identifier: Apache-2.0
"""docs/BOARDS.md says of every board what its data says; what was measured stays as it was written."""

from __future__ import annotations

from toolchain.commands.board_table import DOCUMENT, HEADER, INTRODUCTION, STATIC, boards, static_cells


def rows() -> list[tuple[str, ...]]:
    lines = DOCUMENT.read_text(encoding="utf-8").removeprefix(INTRODUCTION).splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


def test_the_table_is_up_to_date() -> None:
    header, _, *found = rows()
    assert header == HEADER
    wrong = [
        (cells[0], board.name)
        for cells, board in zip(found, boards(), strict=True)
        if cells[:STATIC] != static_cells(board)
    ]
    assert not wrong, "write it again: python -m toolchain.commands.board_table"


def test_every_board_passed() -> None:
    for cells in rows()[2:]:
        name, measured = cells[0], cells[STATIC:]
        assert measured[0].startswith("mnist"), name
        assert measured[3] == "passed" and "FAIL" not in measured[4] and "vectors" in measured[4], name


def test_the_simulator_column_is_the_boards_data() -> None:
    assert [cells[-1] for cells in rows()[2:]] == [board.simulator for board in boards()]
