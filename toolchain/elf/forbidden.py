# SPDX-License-Identifier: Apache-2.0
"""Functions that need what a bare board does not have."""

from __future__ import annotations

HEAP = frozenset({
    "malloc", "calloc", "realloc", "free", "_malloc_r", "_calloc_r", "_realloc_r", "_free_r", "sbrk", "_sbrk",
    "_sbrk_r", "_Znwj", "_Znaj", "_ZdlPv", "_ZdaPv", "_ZdlPvj", "_ZdaPvj",
})  # fmt: skip
STDIO = frozenset({
    "printf", "vprintf", "fprintf", "vfprintf", "sprintf", "vsprintf", "snprintf", "vsnprintf", "puts", "putchar",
    "fopen", "fread", "fwrite",
})  # fmt: skip
SYSTEM = frozenset({
    "exit", "_exit", "abort", "atexit", "_read", "_write", "_open", "_close", "_lseek", "_fstat", "_isatty", "_kill",
    "_getpid", "__assert_func", "__libc_init_array",
})  # fmt: skip
FORBIDDEN = HEAP | STDIO | SYSTEM

_PLAIN = {
    "_Znwj": "operator new", "_Znaj": "operator new[]", "_ZdlPv": "operator delete", "_ZdaPv": "operator delete[]",
    "_ZdlPvj": "operator delete", "_ZdaPvj": "operator delete[]",
}  # fmt: skip


def need_of(name: str) -> str | None:
    """`malloc needs a heap, and there is none`; None for a function that needs nothing."""
    for names, need in ((HEAP, "a heap"), (STDIO, "stdio"), (SYSTEM, "an operating system")):
        if name in names:
            return f"{_PLAIN.get(name, name)} needs {need}, and there is none"
    return None
