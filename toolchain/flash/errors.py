# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on a serial line, each with its diagnosis. All are the user's to mend: exit code 2."""

from __future__ import annotations

from compiler.errors import UserError


class FlashError(UserError):
    """The device was not flashed."""

    def leaves(self, state: str) -> None:
        """Adds how the failure leaves the chip, before what else there is to do."""
        hint = f"{state}; {self.hint}" if self.hint else state
        UserError.__init__(self, self.what, where=self.where, got=self.got, allowed=self.allowed, hint=hint)


class PortError(FlashError):
    """The port cannot be opened or set up."""


class LinkLost(FlashError):
    """The port went away while it was in use."""


class TooLong(FlashError):
    """The time that the session may take has passed."""


class NoAnswer(FlashError):
    """The boot loader said nothing."""


class Garbage(FlashError):
    """Something answered, but no boot loader of this protocol: the rate, the parity, or another program."""


class Echo(FlashError):
    """The bytes we send come back."""


class WrongChip(FlashError):
    """The boot loader is of another chip than the board's."""


class Protected(FlashError):
    """The chip refuses because its flash is protected."""


class Refused(FlashError):
    """The boot loader said no."""


class Damaged(FlashError):
    """A write did not come through whole, so what the block at `address` holds is unknown. It can be repaired by
    erasing and writing again."""

    def __init__(self, address: int) -> None:
        self.address = address
        FlashError.__init__(self, f"the link failed while the block at {address:#x} was written")


class Mismatch(FlashError):
    """The flash holds something else than was written; `found` is None where the boot loader does not tell."""

    def __init__(self, address: int, expected: int | None, found: int | None, where: str | None = None) -> None:
        self.address, self.expected, self.found = address, expected, found
        wanted = f", {expected:#04x} was written" if expected is not None else ""
        FlashError.__init__(
            self,
            "the flash differs from the image",
            where=where or f"first at address {address:#x}",
            got=f"{found:#04x}{wanted}" if found is not None else None,
            hint="the program on the chip is not whole: flash again; if it recurs, the chip or the link is bad",
        )


class WriteIgnored(FlashError):
    """The boot loader accepted the data and the flash did not change."""
