# SPDX-License-Identifier: Apache-2.0
"""What TFLite Micro with CMSIS-NN takes for the MLPerf Tiny models, as measured under QEMU by the same kind of plugin.

TFLite Micro 90b983c with CMSIS-NN 99f736a, GCC 12.2, the better of -O2 and -O3. On RV32IMAC the kernels are CMSIS-NN's
plain C. Instructions of one inference; code without the model, arena, in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "zoo" / "models"
"""Where the MLPerf Tiny models may be."""


@dataclass(frozen=True)
class Anchor:
    instructions: int
    code: int
    arena: int


MODELS = {
    "ic": "mlperf_ic_resnet_int8",
    "vww": "mlperf_vww_mobilenet_int8",
    "kws": "mlperf_kws_dscnn_int8",
    "ad": "mlperf_ad_autoencoder_int8",
}
BOARDS = {"M4": "qemu_m4f", "M55": "qemu_m55", "M0": "qemu_m0", "RV32IMAC": "qemu_rv32imac"}
ANCHORS = {
    ("ic", "M4"): Anchor(29_863_153, 53_104, 54_996),
    ("ic", "M55"): Anchor(4_810_867, 43_124, 55_028),
    ("ic", "M0"): Anchor(97_557_330, 57_692, 54_980),
    ("ic", "RV32IMAC"): Anchor(65_291_055, 56_692, 55_004),
    ("vww", "M4"): Anchor(24_101_543, 55_332, 100_708),
    ("vww", "M55"): Anchor(6_433_172, 46_404, 100_772),
    ("vww", "M0"): Anchor(86_878_412, 60_148, 100_708),
    ("vww", "RV32IMAC"): Anchor(48_604_421, 59_468, 100_716),
    ("kws", "M4"): Anchor(7_699_734, 55_332, 22_820),
    ("kws", "M55"): Anchor(1_787_276, 46_404, 27_348),
    ("kws", "M0"): Anchor(29_004_015, 60_148, 22_820),
    ("kws", "RV32IMAC"): Anchor(16_244_881, 59_468, 22_828),
    ("ad", "M4"): Anchor(582_260, 29_648, 2_580),
    ("ad", "M55"): Anchor(149_916, 21_516, 9_268),
    ("ad", "M0"): Anchor(1_762_911, 33_156, 2_580),
    ("ad", "RV32IMAC"): Anchor(1_477_521, 30_376, 2_684),
}
CEILINGS = {
    ("ic", "M4"): 15_000_000,
    ("vww", "M4"): 12_000_000,
    ("kws", "M4"): 4_000_000,
    ("ad", "M4"): 400_000,
    ("ic", "RV32IMAC"): 40_000_000,
    ("vww", "RV32IMAC"): 27_000_000,
    ("kws", "RV32IMAC"): 11_000_000,
    ("ad", "RV32IMAC"): 1_000_000,
}
"""Instructions that an inference must not exceed; elsewhere the anchor itself is the ceiling."""
CODE_CEILINGS = {"M4": 20 * 1024, "RV32IMAC": 24 * 1024}
"""Bytes of an image's code, start-up and console included; elsewhere the anchor's."""
