# SPDX-License-Identifier: Apache-2.0
"""Random models by seed, with rows of inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.model import Model
from tests.fuzz import elementwise, layers, rearranged, shapes
from tests.fuzz.draft import Draft

STEPS = [*layers.STEPS.values(), *elementwise.STEPS.values(), *shapes.STEPS.values(), *rearranged.STEPS.values()]
ROWS = 3


@dataclass(frozen=True)
class Random:
    """A model and its inputs, [rows, *shape]."""

    model: Model
    inputs: tuple[NDArray[Any], ...]


def random_model(seed: int) -> Random:
    """The same model for the same seed: one to six operators over one input, or two."""
    draft = Draft(np.random.default_rng(seed))
    dtype = draft.choice("int8", "int8", "int8", "int16", "float32")
    shape = draft.choice(
        (1, draft.integer(1, 8), draft.integer(1, 8), draft.integer(1, 8)),
        (draft.integer(1, 2), draft.integer(2, 6), draft.integer(2, 6), draft.choice(1, 2, 3, 4, 8, 16)),
        (draft.integer(1, 3), draft.integer(1, 40)),
        (1, draft.integer(1, 9), draft.integer(1, 12)),
    )
    inputs = [draft.add(shape, dtype) for _ in range(draft.choice(1, 1, 2))]
    draft.frontier = list(inputs)
    wanted = draft.integer(1, 6)
    while len(draft.operators) < wanted:
        index = draft.frontier[-1] if draft.chance(0.7) else draft.choice(*draft.frontier)
        draft.choice(*STEPS)(draft, index, draft.tensors[index])
    read = {i for operator in draft.operators for i in operator.inputs}
    for unread in (i for i in inputs if i not in read):
        draft.operator("QUANTIZE" if dtype != "float32" else "ABS", (unread,), (draft.add(shape, dtype),))
    rows = tuple(random_rows(draft, shape, dtype) for _ in inputs)
    return Random(Model(f"random_{seed}.tflite", draft.finish(inputs)), rows)


def random_rows(draft: Draft, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Random rows; of integers the last one has the ends of the range alone."""
    rows = draft.values((ROWS, *shape), dtype)
    if dtype != "float32":
        info = np.iinfo(dtype)
        rows[-1] = np.where(draft.random.random(shape) < 0.5, info.min, info.max)
    return rows
