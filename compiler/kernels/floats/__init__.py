# SPDX-License-Identifier: Apache-2.0
"""Float layers and functions, without libm."""
