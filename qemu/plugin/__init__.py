# SPDX-License-Identifier: Apache-2.0
"""The counting plugin: built once by the host's compiler and kept under build/, by the hash of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("dispatches.c")
CACHE = Path(__file__).parents[2] / "build" / "qemu-plugin"
FLAGS = ("-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib")


class PluginUnavailable(Exception):
    """This host cannot build the plugin, or its QEMU cannot load one."""


def build_plugin(cache: Path = CACHE) -> Path:
    """The shared object. PluginUnavailable where the host has no compiler or it fails."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise PluginUnavailable("the host has no C compiler (Debian package gcc)")
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    target = cache / f"dispatches-{digest}.so"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / target.name
        done = subprocess.run(
            [compiler, *FLAGS, str(SOURCE), "-o", str(fresh)],
            env={**os.environ, "TMPDIR": folder},
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise PluginUnavailable(f"{compiler} does not build the counting plugin:\n{done.stderr.strip()}")
        os.replace(fresh, target)
    return target
