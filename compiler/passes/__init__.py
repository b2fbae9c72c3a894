# SPDX-License-Identifier: Apache-2.0
"""Passes: each takes a valid graph and leaves a valid graph."""
