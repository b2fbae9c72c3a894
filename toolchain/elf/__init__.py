# SPDX-License-Identifier: Apache-2.0
"""What is read from, and must hold of, a linked image."""
