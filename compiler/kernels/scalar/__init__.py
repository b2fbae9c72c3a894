# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores without vectors: RV32IM, ARMv6-M, ARMv7-M, RV32E."""
