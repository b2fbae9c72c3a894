# SPDX-License-Identifier: Apache-2.0
"""Kernels for Helium (Cortex-M55)."""
