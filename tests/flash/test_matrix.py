# SPDX-License-Identifier: Apache-2.0
"""Every protocol over every kind of bad line: the image byte for byte, or a clear failure; never a false success."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flash.bench import flash_device
from tests.flash.line import Faults
from tests.flash.rigs import RIGS
from toolchain.flash.errors import FlashError, LinkLost

SIZE = 1500
GENTLE = (Faults(), Faults(lost=0.001), Faults(flipped=0.001), Faults(stall_s=0.1))
HARSH = tuple(
    replace(faults, seed=seed)
    for seed in (1, 2, 3)
    for faults in (Faults(lost=0.01), Faults(flipped=0.01), Faults(stall_s=0.2), Faults(lost=0.003, flipped=0.003))
)
CUTS = tuple(Faults(cut=cut) for cut in range(20, 5000, 530))


def attempt(protocol: str, faults: Faults) -> bool:
    """Whether the session called itself good; asserts that it then was."""
    rig = RIGS[protocol]
    device, data = rig.device(rig.flashing), rig.image(SIZE, faults.seed)
    try:
        flash_device(device, rig.flashing, data, faults)
    except FlashError as error:
        assert str(error)
        return False
    assert rig.held(device, len(data)) == data
    return True


@pytest.mark.parametrize("protocol", tuple(RIGS))
@pytest.mark.parametrize("change", (-1, 0, 1))
def test_images_about_as_large_as_a_sector(protocol: str, change: int) -> None:
    written(protocol, RIGS[protocol].flashing.sectors[0].size + change)


@pytest.mark.parametrize("protocol", tuple(RIGS))
def test_images_of_one_byte_and_of_the_whole_flash(protocol: str) -> None:
    written(protocol, 1)
    written(protocol, RIGS[protocol].room)


def written(protocol: str, size: int) -> None:
    rig = RIGS[protocol]
    device, data = rig.device(rig.flashing), rig.image(size)
    flash_device(device, rig.flashing, data)
    assert rig.held(device, len(data)) == data


@pytest.mark.parametrize("protocol", tuple(RIGS))
@pytest.mark.parametrize("faults", GENTLE, ids=str)
def test_gentle_lines(protocol: str, faults: Faults) -> None:
    good = attempt(protocol, faults)
    assert good or faults != Faults()


@pytest.mark.parametrize("protocol", tuple(RIGS))
def test_a_port_that_is_unplugged_in_the_middle(protocol: str) -> None:
    rig = RIGS[protocol]
    with pytest.raises(LinkLost, match=r"the link was lost(.|\n)*not whole(.|\n)*flash again(.|\n)*cable"):
        flash_device(rig.device(rig.flashing), rig.flashing, rig.image(4000), Faults(unplugged=3000))


@pytest.mark.sweep
@pytest.mark.parametrize("protocol", tuple(RIGS))
@pytest.mark.parametrize("faults", (*HARSH, *CUTS), ids=str)
def test_harsh_lines(protocol: str, faults: Faults) -> None:
    good = attempt(protocol, faults)
    assert not (good and faults in CUTS and faults.cut is not None and faults.cut < SIZE)


@pytest.mark.parametrize("faults", HARSH[:2], ids=str)
def test_stm32_gets_through_one_percent(faults: Faults) -> None:
    assert attempt("stm32", replace(faults, lost=faults.lost / 2, flipped=faults.flipped / 2))
