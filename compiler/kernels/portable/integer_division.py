# SPDX-License-Identifier: Apache-2.0
"""Division of int32 values that cannot trap: a divisor of 0 gives a quotient of 0 and a remainder of 0."""

from __future__ import annotations

from compiler.codegen.builder import Function, Value


def quotient(f: Function, a: Value, b: Value) -> Value:
    """a / b truncated; -2**31 / -1 saturates."""
    defined, divisor = _safe(f, a, b)
    overflow = f.and_(f.compare("==", a, -(1 << 31)), f.compare("==", b, -1))
    found = f.builder.sdiv(a, divisor)
    return f.select(defined, f.select(overflow, (1 << 31) - 1, found), 0)


def floor_quotient(f: Function, a: Value, b: Value) -> Value:
    """a / b rounded down; -2**31 / -1 saturates."""
    truncated = quotient(f, a, b)
    rest = remainder(f, a, b)
    return f.sub(truncated, f.zext(_below(f, rest, b)))


def floor_remainder(f: Function, a: Value, b: Value) -> Value:
    """a less b * floor(a / b): it has the sign of b."""
    rest = remainder(f, a, b)
    return f.add(rest, f.select(_below(f, rest, b), b, 0))


def remainder(f: Function, a: Value, b: Value) -> Value:
    """The rest of the truncated division: it has the sign of a."""
    defined, divisor = _safe(f, a, b)
    return f.select(defined, f.builder.srem(a, divisor), 0)


def _below(f: Function, rest: Value, b: Value) -> Value:
    """True where the truncated quotient was above the real one."""
    return f.and_(f.compare("!=", rest, 0), f.compare("<", f.xor(rest, b), 0))


def _safe(f: Function, a: Value, b: Value) -> tuple[Value, Value]:
    """Whether b is a divisor, and one by which a can be divided."""
    defined = f.compare("!=", b, 0)
    overflow = f.and_(f.compare("==", a, -(1 << 31)), f.compare("==", b, -1))
    return defined, f.select(overflow, 1, f.select(defined, b, 1))
