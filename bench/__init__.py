# SPDX-License-Identifier: Apache-2.0
"""Measurements against recorded peers: instructions counted under QEMU, exact and repeatable."""
