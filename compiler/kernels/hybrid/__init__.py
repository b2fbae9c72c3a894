# SPDX-License-Identifier: Apache-2.0
"""Layers with float activations and int8 weights."""
