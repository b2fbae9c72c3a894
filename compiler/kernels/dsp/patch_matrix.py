# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers as patches times weights, with SMLAD.

A few output pixels at a time, their input patches are gathered as int16 into a small buffer; then all output channels
run over it, a block of channels by pixels in registers. The buffer interleaves the pixels by quads of elements, so
every operand is at a small constant offset of one pointer, whatever the depth: one kernel serves all depths that are
multiples of its unrolling. Weights stay int8 in flash, in the order in which SXTB16 makes pairs of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.builder import I32, I64, PTR, Value
from compiler.kernels.dsp.frame import FrameConstants
from compiler.kernels.dsp.instructions import extend_even, extend_quad, smlad
from compiler.kernels.dsp.patch_gather import DirectWalk, Gather, Source
from compiler.kernels.dsp.patch_weights import WeightForm
from compiler.kernels.dsp.patch_window import walk
from compiler.kernels.dsp.requantize import Requantizer
from compiler.kernels.kernel import CompileOptions, Kernel, KernelFunction

_STRAIGHT = ("-enable-misched=false", "-disable-lsr", "-disable-machine-licm")
"""Keeps the order of instructions as built; no address is rewritten or moved out of a loop into a spilled register."""
_LOOP = (*_STRAIGHT, "-greedy-reverse-local-assignment")
"""Measured: 0.972 -> 0.928 instructions per MAC (3x3, 16 channels); 0.965 -> 1.017 where the depth has no loop."""


_COMMON = ("input", "output", "weights", "records", "records_bytes", "buffer", "buffer_bytes")


@dataclass(frozen=True)
class PatchMatrix(Kernel):
    """`channels` x `pixels_at_once` outputs in registers, `unroll` quads of the depth a step.

    `once`: the depth is one step, without a loop. `overlap`: a
    block's record ends with the distance to the next block's output (an odd count of channels).
    `alike`: all channels are requantised alike; a record is the bias. `small`: tables are lean.
    """

    gather: Gather
    channels: int
    pixels_at_once: int
    unroll: int
    weights: WeightForm
    requantizer: Requantizer
    overlap: bool = False
    once: bool = False
    alike: bool = False
    small: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return _COMMON + (("fields",) if self.alike else ()) + self.gather.parameters

    @property
    def lean(self) -> bool:
        return self.small

    @property
    def direct(self) -> bool:
        return self.gather.source is Source.DIRECT

    @property
    def quad_step(self) -> int:
        """Bytes from a quad to the next in what is multiplied."""
        return 4 if self.direct else 8 * self.pixels_at_once

    @property
    def record_bytes(self) -> int:
        return 4 if self.alike else self.requantizer.record_bytes

    @property
    def options(self) -> CompileOptions:  # type: ignore[override]
        return CompileOptions(flags=_STRAIGHT if self.once else _LOOP)

    @property
    def name(self) -> str:
        marks = (
            f"{self.weights.value}{'q' * self.alike}{'' if self.once else 'n'}{'o' * self.overlap}{'z' * self.small}"
        )
        block = f"{self.channels}x{self.pixels_at_once}x{self.unroll}{marks}"
        return f"patch_dsp_{self.gather.name}_{block}_{self.requantizer.name}"

    @property
    def code_bytes(self) -> int:
        return 1500

    def build(self, f: KernelFunction) -> None:
        f.park_table()
        _Builder(self, f).build()


class _Builder:
    def __init__(self, kernel: PatchMatrix, f: KernelFunction) -> None:
        self.kernel, self.f = kernel, f
        self.walk = walk(f, kernel.gather, kernel.pixels_at_once)
        # A short depth's buffer is in the frame: its loads then need no register for an address.
        self.frame = f.alloca(I64, kernel.unroll * kernel.pixels_at_once) if kernel.once and not kernel.direct else None

        self.park = f.alloca(PTR, 2)
        self.fields = tuple(field for field in kernel.requantizer.fields if field != "bias")
        self.alike = FrameConstants(f, (self.fields,)) if kernel.alike else None

    def build(self) -> None:
        if self.alike:
            for field in self.fields:
                self.alike.put(field, self.kernel.requantizer.load(self.f, self.f.pointer("fields"), field))
        self.walk.groups(self._buffer, self._channels)

    def _buffer(self) -> Value:
        if isinstance(self.walk, DirectWalk):
            return self.f.load(PTR, self.walk.source)
        return self.frame if self.frame is not None else self.f.pointer("buffer")

    def _channels(self) -> None:
        """All blocks of channels over the buffer."""
        f, k = self.f, self.kernel
        size = k.channels * k.record_bytes + 4 * k.overlap

        def block(record: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
            weights, channel = carried
            # Out of registers while multiplying, which needs all of them: else accumulators are spilled.
            f.store(record, self.park)
            f.store(channel, self.park, 4)
            weights, totals = self._multiply(record, weights)
            record, channel = f.load(PTR, self.park, volatile=True), f.load_i32(self.park, 4, volatile=True)
            outputs = [f.load(PTR, self.walk.outputs, 4 * p) for p in range(k.pixels_at_once)]
            fields = dict(zip(self.fields, self.alike.take(self.fields), strict=True)) if self.alike else {}
            for c in range(k.channels):
                if not self.alike:
                    fields = k.requantizer.load_all(f, record, c * k.record_bytes)
                place = f.add(channel, c) if c else channel
                for p, output in enumerate(outputs):
                    f.store_i8(k.requantizer.emit(f, totals[c * k.pixels_at_once + p], fields), f.offset(output, place))
            step = f.load_i32(record, size - 4) if k.overlap else f.const(k.channels)
            return f.offset(record, size), [weights, f.add(channel, step)]

        records = f.pointer("records")
        end = f.offset(records, f.integer("records_bytes"))
        f.loop_until(end, records, block, [f.pointer("weights"), f.const(0)])

    def _multiply(self, record: Value, weights: Value) -> tuple[Value, list[Value]]:
        """The weights behind the block, and its accumulators [channels * pixels]."""
        f, k = self.f, self.kernel
        biases = [k.requantizer.load(f, record, "bias", c * k.record_bytes) for c in range(k.channels)]
        start = [bias for bias in biases for _ in range(k.pixels_at_once)]
        buffer = self._buffer()
        if k.once:
            _, (weights, *totals) = self._step(buffer, [weights, *start])
        else:
            end = f.offset(buffer, f.integer("buffer_bytes"))
            _, (weights, *totals) = f.loop_until(end, buffer, self._step, [weights, *start])
        return weights, totals

    def _step(self, cursor: Value, carried: list[Value]) -> tuple[Value, list[Value]]:
        """`unroll` quads of depth for the block: `cursor` in the buffer, then weights and accumulators."""
        f, k = self.f, self.kernel
        weights, totals = carried[0], carried[1:]
        at, together = 0, min(k.channels, 2)
        # The order is measured: registers are just enough, and LLVM's allocator finds it in these orders best.
        words = k.weights is WeightForm.WORDS
        order = range(k.pixels_at_once) if words else range(k.pixels_at_once)[::-1]
        for quad in range(k.unroll):
            offset = k.quad_step * quad
            early = self._activations(cursor, offset) if words or k.pixels_at_once == 1 else None
            for first in range(0, k.channels, together):
                pairs = self._weights(weights, at, together)
                at += k.weights.quad_bytes * together
                for p in order:
                    x = early if early and p == 0 else self._activations(cursor, offset + 8 * p)
                    for half in range(2):
                        for c, pair in enumerate(pairs, first):
                            i = c * k.pixels_at_once + p
                            totals[i] = smlad(f, pair[half], x[half], totals[i])
        return f.offset(cursor, k.quad_step * k.unroll), [f.offset(weights, at), *totals]

    def _activations(self, cursor: Value, offset: int) -> tuple[Value, Value]:
        if self.kernel.direct:
            return self.kernel.gather.convert(self.f, self.f.load(I32, cursor, offset, align=1, volatile=True))
        return self.f.load_pair(cursor, offset)

    def _weights(self, weights: Value, at: int, channels: int) -> list[tuple[Value, Value]]:
        """A quad of weights of each of one or two channels: what the two words of a quad in the buffer meet."""
        f, form = self.f, self.kernel.weights
        if form is WeightForm.WORDS:
            return [f.load_pair(weights, at + 8 * c) for c in range(channels)]
        words = f.load_pair(weights, at) if channels == 2 else (f.load_i32(weights, at, volatile=True),)
        if form is WeightForm.JOINED:
            return [(extend_even(f, word), word) for word in words]
        return [extend_quad(f, word) for word in words]
