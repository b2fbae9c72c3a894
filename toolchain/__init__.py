# SPDX-License-Identifier: Apache-2.0
"""From object files to checked firmware images."""
