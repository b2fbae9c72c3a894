# SPDX-License-Identifier: Apache-2.0
"""report.json, and what is printed and drawn from it."""
