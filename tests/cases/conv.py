"""``conv_general_dilated``: layouts, padding, dilation of either side, groups, dtypes, symbolic sizes."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints

NHWC = ("NHWC", "HWIO", "NHWC")
NCHW = ("NCHW", "OIHW", "NCHW")


def conv(strides=(1, 1), padding="VALID", layout=NHWC, **options):
    def run(x, w):
        return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=layout, **options)

    return run


def row(name, x, w, *args, ops=(), spec=None, also=(), tolerance=None, export=None, **options):
    case_x = f32(*x) if isinstance(x, tuple) else x
    case_w = f32(*w, seed=1, scale=0.1) if isinstance(w, tuple) else w
    others = [[f32(*shape), case_w] for shape in also]
    fn = conv(*args, **options)
    return Case(
        name, fn, [case_x, case_w], spec=spec, also=others, ops=ops, atol=tolerance, options=export or {}
    )


NONE = [(0, 0), (0, 0)]
X, K = (2, 9, 10, 4), (3, 3, 4, 5)
XC, KC = (2, 4, 9, 10), (5, 4, 3, 3)

CASES = [
    row("nchw", XC, KC, layout=NCHW, ops=["Conv", "!Transpose"]),
    row("nhwc", X, K),
    row("mixed_layout", XC, K, layout=("NCHW", "HWIO", "NHWC")),
    row("odd_layout", (9, 4, 2, 10), (4, 3, 5, 3), layout=("HCNW", "IHOW", "CWHN")),
    row("same_stride", X, K, (2, 3), "SAME"),
    row("same_lower", X, K, (2, 2), "SAME_LOWER"),
    row("asymmetric", X, K, (1, 2), [(0, 2), (3, 1)]),
    row("wide_padding", X, K, (1, 1), [(7, 8), (5, 0)]),
    row("negative_padding", X, K, (1, 1), [(-1, -2), (2, -3)]),
    row("negative_low", X, K, (2, 1), [(-2, 1), (0, 0)]),
    row("rhs_dilation", X, K, (1, 1), "SAME", rhs_dilation=(2, 1)),
    row("rhs_dilation_stride", X, K, (2, 2), "SAME", rhs_dilation=(2, 3)),
    row("kernel_1x1", X, (1, 1, 4, 5)),
    row("kernel_past_input", (1, 4, 1, 1), (4, 2, 1, 2), padding="SAME"),
    row("empty_window", (1, 2, 2, 3), (3, 3, 3, 4)),
    row("groups", (2, 9, 10, 6), (3, 3, 3, 8), feature_group_count=2),
    row("depthwise", X, (3, 3, 1, 8), padding="SAME", feature_group_count=4),
    row("batch_groups", (6, 9, 10, 4), (3, 3, 4, 6), batch_group_count=3),
    row("batch_groups_whole", (3, 9, 10, 4), (3, 3, 4, 6), batch_group_count=3),
    row("line", (2, 10, 3), (3, 3, 5), (2,), "SAME", ("NHC", "HIO", "NHC")),
    row("volume", (2, 5, 6, 7, 3), (2, 3, 3, 3, 4), (1, 2, 1), "SAME", ("NDHWC", "DHWIO", "NDHWC")),
    row("four_axes", (1, 2, 4, 4, 4, 4), (3, 2, 2, 2, 2, 2), (1,) * 4, layout=("NCABHW", "OIABHW", "NCABHW")),
    row("no_axes", (3, 4), (4, 5), (), [], ("NC", "IO", "NC")),
    row("no_batch", (0, 9, 10, 4), K),
    row("no_channels", (2, 9, 10, 0), (3, 3, 0, 5)),
    row("up", (2, 5, 6, 4), K, padding=[(2, 2), (2, 2)], lhs_dilation=(2, 2), ops=["ConvTranspose"]),
    row("up_no_padding", (2, 5, 6, 4), K, padding=NONE, lhs_dilation=(2, 3)),
    row("up_uneven", (2, 5, 6, 4), K, padding=[(1, 2), (2, 0)], lhs_dilation=(2, 2)),
    row("up_output_padding", (2, 5, 6, 4), K, padding=[(1, 3), (2, 2)], lhs_dilation=(2, 2), ops=["!Pad"]),
    row("up_wide_padding", (2, 5, 6, 4), K, padding=[(5, 6), (3, 2)], lhs_dilation=(2, 1), ops=["Pad"]),
    row("up_negative_padding", (2, 5, 6, 4), K, padding=[(-1, -2), (2, 2)], lhs_dilation=(2, 2)),
    row("up_strided", (2, 5, 6, 4), K, (3, 2), [(2, 2), (1, 1)], lhs_dilation=(2, 2)),
    row("up_rhs_dilation", (2, 5, 6, 4), K, padding=[(4, 4), (2, 2)],
        lhs_dilation=(2, 2), rhs_dilation=(2, 1)),
    row("up_groups", (2, 5, 6, 6), (3, 2, 3, 8), padding=NONE, lhs_dilation=(2, 2), feature_group_count=2),
    row("up_batch_groups", (4, 5, 6, 3), (3, 2, 3, 8), padding=NONE,
        lhs_dilation=(1, 2), batch_group_count=2),
    row("up_line", (2, 7, 3), (4, 3, 5), (1,), [(3, 3)], ("NHC", "HIO", "NHC"), lhs_dilation=(3,)),
    row("up_volume", (1, 3, 4, 3, 2), (2, 3, 2, 2, 3), (1,) * 3, [(1, 1)] * 3, ("NDHWC", "DHWIO", "NDHWC"),
        lhs_dilation=(2, 1, 2)),
    Case("transpose_same", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
         [f32(*X), f32(*K, scale=0.1)]),
    Case("transpose_stride_past_kernel", lambda x, w: lax.conv_transpose(x, w, (4, 3), "SAME"),
         [f32(1, 3, 4, 4), f32(2, 2, 4, 5)]),
    Case("transpose_kernel",
         lambda x, w: lax.conv_transpose(x, w, (2, 2), "VALID", transpose_kernel=True, rhs_dilation=(1, 2)),
         [f32(*X), f32(3, 3, 5, 4)]),
    row("bf16", f32(*X).astype(jnp.bfloat16), f32(*K, scale=0.1).astype(jnp.bfloat16)),
    row("bf16_to_f32", f32(*X).astype(jnp.bfloat16), f32(*K, scale=0.1).astype(jnp.bfloat16),
        preferred_element_type=np.float32, tolerance=1e-5),
    row("f16", f32(*X).astype(np.float16), f32(*K, scale=0.1).astype(np.float16), tolerance=1e-2),
    row("i32", ints(*X), ints(*K)),
    row("i32_to_f32", ints(*X), ints(*K), preferred_element_type=np.float32),
    row("i8", ints(*X, dtype=np.int8), ints(*K, dtype=np.int8)),
    Case("f64", conv(padding="SAME"), [f32(*X).astype(np.float64), f32(*K).astype(np.float64)], x64=True),
    row("symbolic", X, K, (1, 1), "SAME", spec=[("B", "H", "W", 4), K], also=[(1, 1, 1, 4), (3, 4, 7, 4)]),
    row("symbolic_stride", (2, 9, 10, 2), (3, 3, 2, 5), (2, 2), "SAME", ops=["!Pad"],
        spec=[("B", "H", "W", 2), (3, 3, 2, 5)], also=[(1, 1, 2, 2), (3, 8, 7, 2), (1, 3, 4, 2)]),
    row("symbolic_dilated", (2, 9, 10, 2), (3, 3, 2, 5), (2, 2), "SAME", rhs_dilation=(2, 1),
        spec=[("B", "H", "W", 2), (3, 3, 2, 5)], also=[(1, 1, 2, 2), (3, 8, 7, 2)]),
    row("symbolic_same_lower", (2, 9, 10, 2), (4, 3, 2, 5), (2, 2), "SAME_LOWER",
        spec=[("B", "H", "W", 2), (4, 3, 2, 5)], also=[(1, 1, 2, 2), (3, 8, 7, 2)]),
    row("symbolic_up", (2, 5, 6, 4), K, padding=[(2, 2), (2, 2)], lhs_dilation=(2, 2),
        spec=[("B", "H", "W", 4), K], also=[(1, 1, 2, 4)]),
    row("symbolic_crop", X, K, (1, 1), [(-1, -2), (2, -3)],
        spec=[("B", "H", "W", 4), K], also=[(1, 8, 9, 4)], export={"constraints": ("H >= 5", "W >= 5")}),
]  # fmt: skip
