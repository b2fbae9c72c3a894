# SPDX-License-Identifier: Apache-2.0
"""Flashing over serial: one file a protocol, and the session that drives them alike."""
