# SPDX-License-Identifier: Apache-2.0
"""Files for programmers, and what boot ROMs want around them."""
