# SPDX-License-Identifier: Apache-2.0
"""Packed channels into the records of another kernel, in scratch memory: once a layer, before that kernel runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.codegen.builder import Value
from compiler.kernels import packed_records
from compiler.kernels.compact import Compact, compact
from compiler.kernels.kernel import CompileOptions, Constant, Kernel, KernelCall, KernelFunction, Lowered, Place, Role
from compiler.kernels.packed_records import PARAMETERS, Packed, Word

_CALL_BYTES = 12
"""Code of a call."""
_CHANNEL, _WORD = 20, 2
"""Instructions of a channel and of each of its words, about."""


@dataclass(frozen=True)
class Unpack(Kernel):
    """Records of `words`; with `block` > 0 the number of the first channel comes before each block of them."""

    words: tuple[Word, ...]
    block: int = 0

    options = CompileOptions(optimize=True)

    @property
    def _shared(self) -> tuple[str, ...]:
        return tuple(f"shared_{i}" for i in range(self.words.count(Word.SHARED)))

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("packed", "records", "count", *PARAMETERS, *self._shared)

    @property
    def name(self) -> str:
        return f"unpack_{''.join(word.value for word in self.words)}{self.block or ''}"

    @property
    def code_bytes(self) -> int:
        return 220

    def build(self, f: KernelFunction) -> None:
        def channel(_: Value, carried: list[Value]) -> list[Value]:
            packed, record = carried
            values = packed_records.emit(f, packed)
            shared = iter(self._shared)
            for i, word in enumerate(self.words):
                f.store(f.integer(next(shared)) if word is Word.SHARED else _word(values, word), record, 4 * i)
            return [values.end, f.offset(record, 4 * len(self.words))]

        def block(_: Value, carried: list[Value]) -> list[Value]:
            first, *state = carried
            f.store(first, state[1])
            state[1] = f.offset(state[1], 4)
            return [f.add(first, self.block), *f.loop(self.block, channel, state)]

        start = [f.pointer("packed"), f.pointer("records")]
        if self.block:
            f.loop(f.integer("count"), block, [f.const(0), *start])
        else:
            f.loop(f.integer("count"), channel, start)


def _word(channel: packed_records.Channel, word: Word) -> Value:
    return {
        Word.BIAS: channel.bias,
        Word.MULTIPLIER: channel.multiplier,
        Word.ROUNDING: channel.rounding,
        Word.EXPONENT: channel.exponent,
        Word.TIE: channel.tie,
    }[word]


def unpacked(lowered: Lowered, table: str, packed: Packed, words: tuple[Word, ...], block: int = 0) -> Compact | None:
    """A lowering of one call with its `table` of records in scratch memory, behind what it has there already. None
    where that takes no less flash."""
    (call,) = lowered.calls
    position = call.kernel.parameters.index(table)
    records = call.arguments[position]
    assert isinstance(records, Constant)
    kernel = Unpack(words, block)
    channels = len(packed.rows)
    place = Place(Role.SCRATCH, offset=-(-lowered.scratch_bytes // 4) * 4)
    count = channels // block if block else channels
    rows = packed_records.constant(packed.rows)
    first = KernelCall(kernel, (rows, place, count, *packed.entries, *packed.shared))
    if len(rows.data) + 4 * len(first.arguments) + _CALL_BYTES >= len(records.data):
        return None
    if 4 * (channels * len(words) + (count if block else 0)) != len(records.data):
        raise ValueError(f"{call.kernel.name}: {channels} channels are not its {len(records.data)} bytes of records")
    second = replace(call, arguments=(*call.arguments[:position], place, *call.arguments[position + 1 :]))
    return compact(
        replace(
            lowered,
            calls=(first, second),
            scratch_bytes=place.offset + len(records.data),
            instructions=lowered.instructions + channels * (_CHANNEL + _WORD * len(words)),
            # Scratch memory is written before the input is read.
            overlaps=tuple(overlap for overlap in lowered.overlaps if not overlap.scratch),
        )
    )
