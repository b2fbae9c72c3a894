# SPDX-License-Identifier: Apache-2.0
"""What a Winograd kernel is made for: its sizes, the layout of what it holds, and what a core adds.

A ring holds the m+2 input rows of a row of tiles. A group of tiles is transformed into `values`, int16
[positions, input channels / 4, tiles, 4] where a quad's channels are in the order 0, 2, 1, 3; then each block of
output channels multiplies it position by position into `products`, int32 [positions, tiles, channels], and transforms
these back into the output. Where tiles do not divide the output, the last ones overlap their neighbours.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.builder import Operand, Value
from compiler.kernels.dsp.row_ring import RING_PARAMETERS
from compiler.kernels.kernel import Kernel, KernelFunction
from compiler.kernels.winograd.arithmetic import TRANSFORMS, Transform

PARAMETERS = (
    "input",
    "output",
    "weights",
    "records",
    "records_bytes",
    "inverses",  # words: the factor's inverse shifted left by 0, 1, ...
    "values",
    "products",
    "tile_rows",
    "last_row",  # the output row where the last tiles begin
    "groups",  # groups of tiles in a row
    "last_input",  # where the last group begins, in bytes of an input row and of an output row
    "last_output",
    "expanded",  # a block's transformed weights
    *RING_PARAMETERS,
)


@dataclass(frozen=True)
class WinogradLayout(Kernel):
    """`tile` is m; `tiles` a group's, `channels` a block's. `depth`: input channels. `pixel_bytes` and `row_bytes`:
    between output pixels and rows. A block's record is the offset of its first channel, then each channel's fields.

    `strip` rows of tiles share weights that are transformed from int8 on the fly, and `values` holds all their groups;
    with 0, weights are in flash as they are multiplied, and `values` holds one group.
    """

    tile: int
    tiles: int
    channels: int
    depth: int
    pixel_bytes: int
    row_bytes: int
    copy_bytes: int
    strip: int

    parameters: ClassVar[tuple[str, ...]] = PARAMETERS

    @property
    def transform(self) -> Transform:
        return TRANSFORMS[self.tile]

    @property
    def position_bytes(self) -> int:
        """Of one position in `values`."""
        return 2 * self.depth * self.tiles

    @property
    def product_bytes(self) -> int:
        """Of one position in `products`."""
        return 4 * self.channels * self.tiles

    @property
    def code_bytes(self) -> int:
        return 2200 + (400 if self.strip else 0)

    @property
    def group_bytes(self) -> int:
        """Of a group in `values`."""
        return self.transform.positions * self.position_bytes

    @property
    def rows_at_once(self) -> int:
        """Output rows of a step along the height."""
        return self.tile * max(self.strip, 1)

    @property
    def ring_rows(self) -> int:
        return self.rows_at_once + 2

    @property
    def stream_bytes(self) -> int:
        """Of a block's start values and weights at one position, as they are multiplied."""
        return self.channels * (4 + 2 * self.depth)

    @property
    @abstractmethod
    def channel_bytes(self) -> int:
        """Of a channel's fields in the record."""

    @property
    def record_bytes(self) -> int:
        return 4 + self.channels * self.channel_bytes

    @property
    def shape_name(self) -> str:
        sizes = f"{self.depth}_{self.pixel_bytes}_{self.row_bytes}_c{self.copy_bytes}"
        fly = f"i{self.strip}" if self.strip else ""
        return f"f{self.tile}{fly}_{self.channels}x{self.tiles}_{sizes}"

    @property
    def lane_offset(self) -> int:
        """What is added to a word of `values`."""
        return self.transform.offset

    @property
    def holds_rows(self) -> bool:
        """Whether there are registers for the addresses of all rows."""
        return False

    @property
    def rolled(self) -> tuple[bool, bool]:
        """Whether the way back loops over the columns of products, and over the rows of outputs: code is shorter."""
        return False, False

    # -- what a core adds -----------------------------------------------------------------------------------------

    @abstractmethod
    def multiply(self, f: KernelFunction, weights: Value, values: Value) -> Value:
        """Emits the products of a block and a group; returns the end of the block's weights."""

    @abstractmethod
    def expand_quad(self, f: KernelFunction, words: list[Value], to: Value) -> None:
        """Transforms a channel's weights of a quad: 9 words of four int8 each. `to` is their place in the block's
        stream at position 0."""

    @property
    @abstractmethod
    def channel_step(self) -> int:
        """Between the weights of neighbouring channels in the stream."""

    @abstractmethod
    def store_row(self, f: KernelFunction, sums: list[Value], inverse: Operand, record: Value, output: Value) -> None:
        """Requantises the sums of a row of a tile and stores them at `output`. `inverse` is the row's offset in the
        channel's inverses, `record` the channel's."""

    def load_inverses(self, f: KernelFunction, first: Value, row: Operand) -> list[Value]:
        """The inverse of each sum of a row; `first` and `row` are offsets in bytes."""
        start = f.offset(f.pointer("inverses"), first)
        base, at = (start, row) if isinstance(row, int) else (f.offset(start, row), 0)
        exponents = self.transform.exponents
        offsets = [at + 4 * (exponents[0] - exponent) for exponent in exponents]
        loaded = {offset: f.load_i32(base, offset, volatile=True) for offset in sorted(set(offsets))}
        return [loaded[offset] for offset in offsets]

    @abstractmethod
    def lanes(self, f: KernelFunction, words: list[Value]) -> tuple[list[Value], list[Value]]:
        """The words' bytes 0 and 2, and their bytes 1 and 3, as pairs."""

    @abstractmethod
    def load_quad(self, f: KernelFunction, at: Value, offset: int) -> tuple[Value, Value]:
        """The two words of a quad in `values`."""
