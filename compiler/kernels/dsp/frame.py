# SPDX-License-Identifier: Apache-2.0
"""Constants of an inner loop that exceed the registers: kept in the frame, loaded two at a time."""

from __future__ import annotations

from compiler.codegen.builder import I32, Function, Value


class FrameConstants:
    """Values in the frame, in groups that are loaded together by LDRD where they are used.

    There are more than registers: left alone, LLVM spills accumulators as well, and reloads one by one."""

    def __init__(self, f: Function, groups: tuple[tuple[str, ...], ...]) -> None:
        self.f = f
        self.places: dict[str, int] = {}
        at = 0
        for group in groups:
            self.places.update({name: at + 4 * i for i, name in enumerate(group)})
            at += -(-len(group) // 2) * 8
        self.memory = f.alloca(I32, at // 4)

    def put(self, name: str, value: Value) -> None:
        self.f.store(value, self.memory, self.places[name])

    def take(self, group: tuple[str, ...]) -> list[Value]:
        values: list[Value] = []
        for i in range(0, len(group) - 1, 2):
            values += self.f.load_pair(self.memory, self.places[group[i]])
        if len(group) % 2:
            values.append(self.f.load_i32(self.memory, self.places[group[-1]], volatile=True))
        return values
