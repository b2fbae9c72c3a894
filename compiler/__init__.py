# SPDX-License-Identifier: Apache-2.0
"""The compiler: model bytes in, object files out.

It knows no board, no build tool, and no file but the model it is given.
"""
