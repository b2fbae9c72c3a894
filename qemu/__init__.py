# SPDX-License-Identifier: Apache-2.0
"""Boards under QEMU: command lines, time limits, the console, exact instruction counts."""
