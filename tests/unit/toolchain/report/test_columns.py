# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from toolchain.report.columns import GAP, Column, fit, shorten

COLUMNS = (Column("#", number=True), Column("kernel", cut=True), Column("name", cut=True, spare=1), Column("n"))
ROWS = (("10", "k" * 30, "some/long/path/of/a/layer", "1,234,567"), ("9", "k", "x", "0"))


def test_everything_is_shown_where_there_is_room() -> None:
    assert fit(COLUMNS, ROWS, 200) == ([0, 1, 2, 3], [2, 30, 25, 9])


def test_cut_columns_share_what_is_left() -> None:
    shown, widths = fit(COLUMNS, ROWS, 60)
    assert (shown, widths) == ([0, 1, 2, 3], [2, 22, 21, 9])
    assert sum(widths) + GAP * 3 == 60


def test_spare_columns_go_before_words_become_meaningless() -> None:
    assert fit(COLUMNS, ROWS, 38) == ([0, 1, 3], [2, 23, 9])


def test_numbers_stay_whole_in_the_narrowest_window() -> None:
    assert fit(COLUMNS, ROWS, 5) == ([0, 1, 3], [2, 1, 9])


def test_a_table_without_rows_has_its_headers() -> None:
    assert fit(COLUMNS, (), 80) == ([0, 1, 2, 3], [1, 6, 4, 1])


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("abc", 3, "abc"), ("abcdef", 4, "abc…"), ("model/layer_1/Relu", 9, "…r_1/Relu"), ("abcdef", 1, "…")],
)
def test_shortened_texts(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short
    assert len(shorten(text, width)) <= width
