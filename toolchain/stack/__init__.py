# SPDX-License-Identifier: Apache-2.0
"""The proven stack size: what instructions do to the stack, and the call graph's worst case."""
