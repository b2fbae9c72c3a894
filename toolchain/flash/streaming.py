# SPDX-License-Identifier: Apache-2.0
"""What boot loaders have in common that take an image from its first byte to its last and do nothing else."""

from __future__ import annotations

from toolchain.flash.errors import Refused
from toolchain.flash.port import Port


class Streaming:
    """Parts of a BootLoader: nothing can be read, nothing is erased but by writing, and protection stays."""

    from_start = True
    erases = False

    def __init__(self, port: Port) -> None:
        self._port = port

    def read(self, address: int, size: int) -> bytes | None:
        return None

    def unprotect(self) -> None:
        raise Refused("there is no unprotecting by this protocol", where=self._port.name)
