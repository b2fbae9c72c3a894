# SPDX-License-Identifier: Apache-2.0
"""Other runtimes, and where they are known to differ from the contract."""
