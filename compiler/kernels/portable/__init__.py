# SPDX-License-Identifier: Apache-2.0
"""Kernels for any core: element-wise, moving, reducing, recurrent and int16 layers."""
