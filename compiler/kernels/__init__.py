# SPDX-License-Identifier: Apache-2.0
"""Kernel families: parametrised loops, specialised to a class of layers and shared between its members."""
