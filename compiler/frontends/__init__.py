# SPDX-License-Identifier: Apache-2.0
"""Front ends: the bytes of a model file become a `compiler.graph.Graph`."""
