# SPDX-License-Identifier: Apache-2.0
"""Exact integer Winograd convolutions."""
