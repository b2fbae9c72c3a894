# SPDX-License-Identifier: Apache-2.0
"""What a model must state before it can be compiled: its ends, and the size of all that it computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.errors import UserError
from compiler.graph import DType, Tensor

MOST_BYTES = 64 << 20
"""The largest tensor that is read: more is a damaged file or no model for a microcontroller, and its reference outputs
would take the host's memory."""
_OPAQUE = (DType.STRING, DType.RESOURCE, DType.VARIANT, DType.BFLOAT16)


def check_ends(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """UserError for a model that nothing goes into or nothing comes out of, or something else than numbers."""
    if not inputs or not outputs:
        raise UserError(
            "this model has no input or no output",
            where=name,
            got=f"{len(inputs)} inputs and {len(outputs)} outputs",
            allowed="at least one of each",
            hint="export it with its inference signature",
        )
    opaque = [t for t in (*inputs, *outputs) if t.dtype in _OPAQUE]
    if opaque:
        raise UserError(
            "inputs and outputs have to be numbers",
            where=name,
            got="; ".join(f"tensor {t.index} '{t.name}' is {t.dtype.name}" for t in opaque),
        )
    empty = [t for t in outputs if t.elements < 1]
    if empty:
        raise UserError(
            "an output of this model has no elements",
            where=name,
            got="; ".join(f"tensor {t.index} '{t.name}' is {list(t.shape)}" for t in empty),
            allowed="sizes of at least 1 in every dimension",
        )


def check_sizes(name: str, tensors: Iterable[Tensor]) -> None:
    """UserError with every computed tensor whose size the file does not state, or that no microcontroller holds."""
    computed = [t for t in tensors if not t.is_constant and t.dtype not in _OPAQUE]
    unknown = [t for t in computed if min(t.shape, default=1) < 1]
    if unknown:
        raise UserError(
            f"{len(unknown)} tensors have sizes that are not known before the model runs",
            where=name,
            got="; ".join(f"tensor {t.index} '{t.name}' is {list(t.shape)}" for t in unknown),
            allowed="sizes of at least 1 in every dimension",
            hint="export the model with fixed input shapes",
        )
    large = [t for t in computed if t.bytes > MOST_BYTES]
    if large:
        raise UserError(
            f"{len(large)} tensors are larger than any microcontroller's memory",
            where=name,
            got="; ".join(f"tensor {t.index} '{t.name}' {list(t.shape)} has {t.bytes} bytes" for t in large),
            allowed=f"{MOST_BYTES} bytes",
            hint="export the model for smaller inputs",
        )


def size_note(tensor: Tensor, signature: Sequence[int]) -> str | None:
    """What to say of an input for which the model leaves more than the batch open; `signature` has -1 there."""
    if -1 not in signature[1:]:
        return None
    return f"input '{tensor.name}' has open sizes {list(signature)}: compiled for {list(tensor.shape)}, as stored"
