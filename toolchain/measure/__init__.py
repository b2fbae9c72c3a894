# SPDX-License-Identifier: Apache-2.0
"""Exact instruction counts of kernels, and estimates of cycles."""
