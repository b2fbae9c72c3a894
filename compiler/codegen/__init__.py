# SPDX-License-Identifier: Apache-2.0
"""LLVM: structured IR building, target machines, objects."""
