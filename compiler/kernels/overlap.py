# SPDX-License-Identifier: Apache-2.0
"""How far an output may lie over an input that nothing needs afterwards, from the order in which a kernel reads and
writes.

An output lies `lead` bytes ahead of an input: its first byte is so many bytes before the input's first (less than 0:
behind it). While a kernel has written the output's bytes before `written`, and will yet read only input bytes from
`needed` on, nothing is lost if written - lead <= needed. The safe distance is the greatest written - needed over the
kernel's run: the output may lie anywhere that it is at least so far ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from compiler.kernels.kernel import Overlap
from compiler.kernels.problems import Window


@dataclass(frozen=True)
class Step:
    """A part of a kernel's run: input bytes before `reads` are no more read in it, output bytes from `writes` on not
    yet written."""

    reads: int
    writes: int


def in_steps(steps: Iterable[Step], input_bytes: int, reads_first: bool) -> Overlap:
    """A kernel that runs step by step. `reads_first`: a step writes after all it reads."""
    distance, written = -input_bytes, 0
    run = list(steps)
    needed = input_bytes
    needs = [input_bytes]  # behind the last step
    for step in reversed(run):
        needed = min(needed, step.reads)
        needs.append(needed)
    needs.reverse()
    for i, step in enumerate(run):
        written = max(written, step.writes)
        need = needs[i + 1] if reads_first else needs[i]
        if need < input_bytes:
            distance = max(distance, written - need)
    return Overlap(distance)


def elementwise(count: int, input_element: int, output_element: int) -> Overlap:
    """Element by element in order, each read before it is written. Sizes in bytes."""
    if count <= 1:
        return Overlap(-count * input_element)
    growth = output_element - input_element
    return Overlap(max(growth, (count - 1) * growth))


def from_ring(w: Window, together: int = 1, element: int = 1) -> Overlap:
    """Rows go through a ring: before `together` output rows are written, the input rows of their windows are read,
    and each is read once."""
    row, reach = w.input_width * w.input_channels * element, (w.kernel_height - 1) * w.dilation_height + 1
    steps, read = [], 0
    for first in range(0, w.output_height, together):
        last = min(first + together, w.output_height) - 1
        steps.append(Step(read * row, (last + 1) * w.output_width * w.output_channels * element))
        read = min(max(last * w.stride_height + reach - w.pad_top, read), w.input_height)
    return in_steps(steps, w.input_height * row, reads_first=True)


def of_groups(
    w: Window, group: int, reads_first: bool, in_row: bool = True, element: int = 1, second_repeats: bool = False
) -> Overlap:
    """Windows of the input itself, `group` pixels at a time, in order. Where groups do not divide, the last group (of
    each row, if `in_row`) overlaps the one before it; if `second_repeats`, it is the second that overlaps the first.
    `reads_first`: a group's windows are read before its outputs are written."""
    steps = (
        Step(element * _window_start(w, first), element * (first + group) * w.output_channels)
        for first in _group_starts(w, group, in_row, second_repeats)
    )
    return in_steps(steps, element * w.input_height * w.input_width * w.input_channels, reads_first)


def of_pixels(w: Window, element: int) -> Overlap:
    """Windows of the input itself, pixel by pixel; a pixel's outputs are written between its reads."""
    return of_groups(w, 1, reads_first=False, element=element)


def of_channels(w: Window) -> Overlap:
    """Channel by channel: all of a channel's input is read, then all of its output written. Input and output have
    their channels interleaved alike, so that only bytes of the channel are overwritten, wherever the output lies."""
    assert w.input_channels == w.output_channels
    return Overlap(-w.input_height * w.input_width * w.input_channels, w.input_channels)


def of_images(one: Overlap, images: int, input_bytes: int, output_bytes: int) -> Overlap:
    """Image by image, from one image's overlap. Sizes are one image's."""
    if images == 1:
        return one
    growth = output_bytes - input_bytes
    within = max(one.distance, one.distance + (images - 1) * growth)
    between = max(growth, (images - 1) * growth)
    return replace(one, distance=max(within, between))


def _group_starts(w: Window, group: int, in_row: bool, second_repeats: bool) -> Iterator[int]:
    lines, length = (w.output_height, w.output_width) if in_row else (1, w.output_height * w.output_width)
    for line in range(lines):
        for first in range(0, length, group):
            if second_repeats:
                start = first - (-length % group if first else 0)
            else:
                start = max(min(first, length - group), 0)
            yield line * length + start


def _window_start(w: Window, pixel: int) -> int:
    """The first byte that the window of an output pixel, or a later one's, may read."""
    y, x = divmod(pixel, w.output_width)
    row, column = max(y * w.stride_height - w.pad_top, 0), max(x * w.stride_width - w.pad_left, 0)
    return (min(row, w.input_height) * w.input_width + min(column, w.input_width)) * w.input_channels
