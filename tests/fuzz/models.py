# SPDX-License-Identifier: Apache-2.0
"""Random models by seed, with rows of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.model import Model
from tests.fuzz import elementwise, functions, layers, rearranged, shapes, stateful
from tests.fuzz.draft import Draft, Step

STEPS = [step for module in (layers, elementwise, shapes, rearranged, stateful) for step in module.STEPS.values()]
FUNCTIONS = [*STEPS, *(step for step in functions.STEPS.values() for _ in range(3))]
ROWS = 3


@dataclass(frozen=True)
class Random:
    """A model and its inputs, [rows, *shape]."""

    model: Model
    inputs: tuple[NDArray[Any], ...]


def random_function(seed: int) -> Random:
    """Likewise, of the rarer operators."""
    return random_model(seed, FUNCTIONS)


def random_model(seed: int, steps: Sequence[Step] = STEPS) -> Random:
    """The same model for the same seed: one to six operators or more over one to three inputs. It need not read all."""
    draft = Draft(np.random.default_rng(seed))
    first = _kind(draft)
    kinds = [first, *(first if draft.chance(0.6) else _kind(draft) for _ in range(draft.choice(0, 0, 0, 1, 1, 2)))]
    draft.inputs = [draft.add(shape, dtype) for dtype, shape in kinds]
    draft.frontier = list(draft.inputs)
    wanted = draft.integer(1, 6)
    while len(draft.operators) < wanted:
        index = draft.frontier[-1] if draft.chance(0.7) else draft.choice(*draft.frontier)
        draft.choice(*steps)(draft, index, draft.tensors[index])
    rows = tuple(random_rows(draft, shape, dtype) for dtype, shape in kinds)
    return Random(Model(f"random_{seed}.tflite", draft.finish(_more_outputs(draft))), rows)


def _kind(draft: Draft) -> tuple[str, tuple[int, ...]]:
    """The type and shape of an input."""
    dtype = draft.choice("int8", "int8", "int8", "int8", "int16", "int16", "uint8", "float32", "float32")
    shape = draft.choice(
        (1, draft.integer(1, 8), draft.integer(1, 8), draft.integer(1, 8)),
        (draft.integer(1, 2), draft.integer(2, 6), draft.integer(2, 6), draft.choice(1, 2, 3, 4, 8, 16)),
        (draft.integer(1, 3), draft.integer(1, 40)),
        (1, draft.integer(1, 9), draft.integer(1, 12)),
    )
    return dtype, shape


def _more_outputs(draft: Draft) -> list[int]:
    """Now and then an input, a constant, or a tensor that is read too. A tensor that nobody uses may be added."""
    more = []
    if draft.chance(0.1):
        more.append(draft.choice(*draft.inputs))
    if draft.chance(0.1):
        more.append(draft.constant(draft.values((2, 3), "float32")))
    if draft.chance(0.1):
        more += draft.operators[0].outputs
    if draft.chance(0.1):
        draft.add((3, 5), "int8")
    return more


def random_rows(draft: Draft, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Random rows; of integers the last one has the ends of the range alone."""
    rows = draft.values((ROWS, *shape), dtype)
    if dtype != "float32":
        info = np.iinfo(dtype)
        rows[-1] = np.where(draft.random.random(shape) < 0.5, info.min, info.max)
    return rows
