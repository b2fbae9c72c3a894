# SPDX-License-Identifier: Apache-2.0
"""The MNIST models that the project ships, with their test digits."""
