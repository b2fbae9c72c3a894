# SPDX-License-Identifier: Apache-2.0
"""Compiled operators under QEMU give the golden bytes: a few of each kernel here, all in the sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.loader import load_board
from compiler.compile import compile_graph
from tests.harness import core_boards, run
from tests.ops.models import case, is_supported, names
from tests.support import shared_dir
from toolchain.target import target_of

FAST_CORES = ("cortex-m4", "rv32imac")
FAST = (
    "add__i16", "add__i8", "add_bcast_both__f", "add_bcast_both__i8", "add_relu6__i8", "add_scalar__i8",
    "avgpool_3x2_s2x1_same__i8", "avgpool_global__i16", "avgpool_3x3_s1_same__f", "concat_3__i8",
    "conv_3x3_same_s2_relu6__i16", "conv_batch3__i8", "conv_grouped__i8", "dw_3x3_same_relu__i16",
    "dw_c1_m8_5x4__i16", "expand_squeeze__i8", "fb_add_1", "fb_conv_mult_gt1", "fb_dw_i16", "fb_fc_i16_b32",
    "fb_maxpool_i8_relu", "fb_mean_i16", "fb_mean_i8_c", "fb_mean_i8_rescale", "fb_relu6_i8_rescale",
    "fb_requant_i16_i32", "fb_requant_i16_i8_5", "fb_requant_i8_i16_500", "fb_requant_u8_i8_500",
    "fb_softmax_i8_i16", "fb_strided_neg_i8", "fb_sub_2",
    "fb_lstm_i8", "fb_svdf_f_r2_relu", "fb_svdf_i8_r1",
    "fb_sum_i8", "fc_wide_k__i16", "maxpool_3x3_s2_same__f", "maxpool_3x3_s2_same__i8", "mean_h__i8", "mean_hw__f",
    "pad_c__i8", "pad_hw__i16", "padv2__f", "quant_chain__q", "relu__i16", "relu_n1_to_1__f",
    "strided_slice_shrink__i8", "sub_bcast__i8", "zeropad_conv_bn_relu6__i8",
    "transpose_3d__i8", "transpose_nchw__f", "fb_transpose_i16", "split_c__i8", "split_v__i8", "unstack_stack__i8",
    "slice__i8", "reverse__f", "tile__i8", "broadcast_to__f", "fb_mirror_i8", "mirror_pad_symmetric__i8",
    "space_to_depth__i8", "depth_to_space__f", "fb_resize_nearest_i16", "resize_nearest_align__i8",
    "resize_nearest_frac_hp__f", "space_to_batch__i8", "batch_to_space__f", "fb_resize_bilinear_align_u8",
    "resize_bilinear_align__f", "resize_bilinear_legacy__i8", "resize_bilinear_x2_hp__i16",
    "embedding__f", "gather_const__i8", "gather_idx__f", "one_hot__f", "fb_concat_u8",
    "fb_conv_u8_legacy", "fb_dw_u8_legacy", "fb_fc_u8", "fb_maxpool_u8_relu6", "fb_mean_u8", "fb_sub_u8",
    "abs__i16", "argmax_4d__f", "batch_matmul__i16", "batch_matmul_adj__i8", "cumsum__f", "exp__i16", "fb_add_u8",
    "fb_argmin_i8", "fb_greater_i8", "fb_mul_1", "fb_mul_i16", "fb_mul_u8", "fb_prelu_i8", "floor_mod__f", "gelu__f",
    "l2norm__f", "l2norm__i8", "log_softmax__i8", "net_attention__i8", "net_layernorm__f", "net_layernorm__i8",
    "net_se_block__i8", "pow__f", "reduce_prod__f", "rsqrt__i8", "select__f", "sin__f", "sqdiff__i8", "topk__f",
    "fb_softmax_i8_i16", "tconv_4x4_s3__i8", "tconv_s2_same__i16", "tconv_s2_valid_relu__f",
)  # fmt: skip
OTHER_CORES = ("cortex-m0", "cortex-m55", "rv32ec")
OTHERS = (
    "add__i16", "avgpool_3x2_s2x1_same__i8", "conv_3x3_same_relu__i16", "fb_fc_i16_b32", "fb_mean_i8_rescale",
    "fb_requant_i8_i16_500", "maxpool_2x2__i8",
)  # fmt: skip


def check(core: str, name: str, folder: Path) -> None:
    shared_dir("ops")
    found = case(name)
    compiled = compile_graph(found.graph, found.model, target_of(load_board(core_boards()[core]).core))
    for row, outputs in enumerate(run(compiled, found.rows, folder)):
        found.check(row, outputs)


@pytest.mark.parametrize("core", FAST_CORES)
@pytest.mark.parametrize("name", FAST)
def test_kernel(core: str, name: str, tmp_path: Path) -> None:
    check(core, name, tmp_path)


@pytest.mark.parametrize("core", OTHER_CORES)
@pytest.mark.parametrize("name", OTHERS)
def test_kernel_on_other_cores(core: str, name: str, tmp_path: Path) -> None:
    check(core, name, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("core", list(core_boards()))
@pytest.mark.parametrize("name", names())
def test_every_kernel(core: str, name: str, tmp_path: Path) -> None:
    if not is_supported(name):
        pytest.skip("an operator of this model is not supported yet")
    check(core, name, tmp_path)
