# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can act on.

One message says what is wrong, where, what was got, what is allowed and what to do next.
`UserError` becomes exit code 2; anything else that escapes is an internal fault (exit code 1).
"""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """The user's input is at fault: exit code 2, one message, never a traceback."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: str | None = None,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what, self.where, self.got, self.allowed, self.hint = what, where, got, allowed, hint
        labelled = (("where", where), ("got", got), ("allowed", allowed), ("next", hint))
        super().__init__("\n".join([what, *(f"  {label}: {text}" for label, text in labelled if text)]))


class UnsupportedModel(UserError):
    """The model is well formed but has parts that tinykiln does not compile; all of them are listed at once."""

    def __init__(self, model: str, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        listed = "".join(f"\n    {reason}" for reason in self.reasons)
        super().__init__(
            f"this model uses what tinykiln does not support ({len(self.reasons)} found):{listed}",
            where=model,
            hint="`scons ops` lists the supported operators with their constraints",
        )


class CheckFailed(Exception):
    """Compiled code does not do what it must: this product's fault, exit code 1."""
