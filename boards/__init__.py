# SPDX-License-Identifier: Apache-2.0
"""Boards as data: TOML files and the loader that validates them."""
