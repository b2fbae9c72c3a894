# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's benchmarks as its runner drives them over serial: what it sends, and what it makes of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.artifact import CompiledModel
from compiler.errors import UserError
from compiler.graph import DType


class Sent(Enum):
    """The form of an input on the line."""

    AS_IT_IS = "the model's own"
    IMAGE = "uint8"
    """128 more than an int8 model takes."""
    REAL = "float32"
    """Quantised on the device, which answers with the distance between output and input."""


_TAKEN = {
    Sent.AS_IT_IS: (DType.INT8,),
    Sent.IMAGE: (DType.INT8, DType.UINT8),
    Sent.REAL: (DType.INT8, DType.FLOAT32),
}


@dataclass(frozen=True)
class Benchmark:
    """`bytes` of an input as it is sent."""

    name: str
    bytes: int
    sent: Sent

    @property
    def elements(self) -> int:
        return self.bytes // 4 if self.sent is Sent.REAL else self.bytes


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("ic01", 32 * 32 * 3, Sent.IMAGE),
        Benchmark("kws01", 49 * 10, Sent.AS_IT_IS),
        Benchmark("vww01", 96 * 96 * 3, Sent.IMAGE),
        Benchmark("ad01", 5 * 128 * 4, Sent.REAL),
    )
}


def check_benchmark(benchmark: Benchmark, model: CompiledModel) -> None:
    """UserError for a model that does not take, or answer with, what the runner expects."""
    ports = (*model.inputs, *model.outputs) if benchmark.sent is Sent.REAL else model.inputs
    got = ", ".join(f"{port.dtype.value} of {port.bytes // port.dtype.bytes}" for port in ports)
    allowed = _TAKEN[benchmark.sent]
    one_each = len(model.inputs) == len(model.outputs) == 1
    if not one_each or any(p.dtype not in allowed or p.bytes // p.dtype.bytes != benchmark.elements for p in ports):
        raise UserError(
            "this is no model of the benchmark",
            where=f"benchmark={benchmark.name}",
            got=f"{len(model.inputs)} inputs and {len(model.outputs)} outputs: {got}",
            allowed=f"one input and one output: {' or '.join(d.value for d in allowed)} of {benchmark.elements}",
        )
