"""``dot_general`` and ``ragged_dot``: batch and contraction forms, dtypes, empty and symbolic sizes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.cases.case import Case, f32, ints


def dot(contract, batch=((), ()), **options):
    return partial(lax.dot_general, dimension_numbers=(contract, batch), **options)


def einsum(spec):
    return partial(jnp.einsum, spec)


W = f32(5, 4, seed=9)
BF16 = jnp.bfloat16
EDGE = np.array([[0.0, -0.0, np.inf, 1e38], [np.nan, 1.0, -np.inf, -1e38]], np.float32)
I32_EXTREME = np.array([[2**31 - 1, 3], [-(2**31), 7]], np.int32)

FORMS = {  # name: (contraction, batch, shape of x, shape of y, operators)
    "matrix": (((1,), (0,)), ((), ()), (3, 4), (4, 5), ["MatMul", "!Transpose", "!Reshape"]),
    "matrix_transposed": (((1,), (1,)), ((), ()), (3, 4), (5, 4), ["!Reshape"]),
    "both_transposed": (((0,), (1,)), ((), ()), (4, 3), (5, 4), ["!Reshape"]),
    "stack": (((3,), (0,)), ((), ()), (2, 3, 6, 4), (4, 5), ["!Transpose", "!Reshape"]),
    "matrix_vector": (((1,), (0,)), ((), ()), (3, 4), (4,), ["!Transpose", "!Reshape"]),
    "matrix_first_vector": (((0,), (0,)), ((), ()), (4, 3), (4,), ["!Transpose", "!Reshape"]),
    "vector_matrix": (((0,), (0,)), ((), ()), (4,), (4, 5), ["!Transpose", "!Reshape"]),
    "vector_matrix_last": (((0,), (1,)), ((), ()), (4,), (5, 4), ["!Transpose", "!Reshape"]),
    "vector_stack": (((0,), (1,)), ((), ()), (4,), (2, 4, 5), ["!Transpose", "!Reshape"]),
    "vector_stack_first": (((0,), (0,)), ((), ()), (4,), (4, 2, 5), []),
    "vectors": (((0,), (0,)), ((), ()), (4,), (4,), ["MatMul"]),
    "many_free": (((1,), (1,)), ((), ()), (2, 4, 3), (5, 4, 6), []),
    "two_contractions": (((1, 2), (0, 1)), ((), ()), (2, 3, 4), (3, 4, 5), ["!Transpose"]),
    "two_contractions_swapped": (((1, 2), (1, 0)), ((), ()), (2, 3, 4), (4, 3, 5), []),
    "all_contracted": (((0, 1), (1, 0)), ((), ()), (3, 4), (4, 3), []),
    "batched": (((2,), (1,)), ((0,), (0,)), (2, 3, 4), (2, 4, 5), ["!Transpose", "!Reshape"]),
    "attention_scores": (((3,), (3,)), ((0, 2), (0, 2)), (2, 5, 3, 4), (2, 6, 3, 4), ["!Reshape"]),
    "batch_order": (((4,), (3,)), ((3, 2, 0), (1, 0, 2)), (2, 3, 4, 5, 6), (4, 5, 2, 6, 7), []),
    "batch_many_free": (((3,), (1,)), ((0,), (0,)), (2, 3, 5, 4), (2, 4, 6, 7), []),
    "batch_matrix_vector": (((2,), (1,)), ((0,), (0,)), (2, 3, 4), (2, 4), ["!Reshape"]),
    "batch_vector_matrix": (((1,), (1,)), ((0,), (0,)), (2, 4), (2, 4, 5), ["!Reshape"]),
    "batch_vector_many": (((1,), (2,)), ((0,), (0,)), (2, 4), (2, 5, 4, 3), []),
    "batch_two_contractions": (((1, 2), (2, 1)), ((0,), (0,)), (2, 3, 4, 5), (2, 4, 3, 6), []),
    "rows": (((1,), (1,)), ((0,), (0,)), (3, 4), (3, 4), ["Mul", "ReduceSum", "!MatMul"]),
    "rows_crossed": (((1, 0), (0, 2)), ((2,), (1,)), (5, 4, 3), (4, 3, 5), ["!MatMul"]),
    "rows_batch_order": (((2,), (2,)), ((1, 0), (0, 1)), (2, 3, 4), (3, 2, 4), ["!MatMul"]),
    "outer": (((), ()), ((), ()), (2, 3), (4, 5), ["Mul", "!MatMul"]),
    "outer_batched": (((), ()), ((1,), (0,)), (2, 3), (3, 4), ["Mul", "!MatMul"]),
    "scalars": (((), ()), ((), ()), (), (), []),
    "nothing_contracted": (((1,), (0,)), ((), ()), (3, 0), (0, 5), []),
    "no_rows": (((1,), (0,)), ((), ()), (0, 4), (4, 5), []),
    "no_batch": (((2,), (1,)), ((0,), (0,)), (0, 3, 4), (0, 4, 5), []),
    "rows_of_nothing": (((1,), (1,)), ((0,), (0,)), (3, 0), (3, 0), []),
}

BYTES = (ints(3, 40, low=-128, high=128), ints(40, 5, low=-128, high=128, seed=1), np.int8)
DTYPES = {
    "bf16": (f32(3, 64), f32(64, 5, seed=1), BF16, None),
    "bf16_to_f32": (f32(3, 64), f32(64, 5, seed=1), BF16, np.float32),
    "f16": (f32(3, 64), f32(64, 5, seed=1), np.float16, None),
    "f16_to_f32": (f32(3, 64), f32(64, 5, seed=1), np.float16, np.float32),
    "f32_to_bf16": (f32(3, 64), f32(64, 5, seed=1), np.float32, BF16),
    "i32_wraps": (I32_EXTREME, I32_EXTREME, np.int32, None),
    "i8_wraps": (*BYTES, None),
    "i8_to_i32": (
        ints(3, 40, low=-128, high=128),
        ints(40, 5, low=-128, high=128, seed=1),
        np.int8,
        np.int32,
    ),
    "u8": (ints(3, 40, low=0, high=256), ints(40, 5, low=0, high=256, seed=1), np.uint8, None),
    "i16_to_f32": (ints(3, 40, low=-999, high=999), ints(40, 5, seed=1), np.int16, np.float32),
    "u32": (ints(3, 4, low=0, high=2**32, dtype=np.uint32), ints(4, 5, low=0), np.uint32, None),
    "bool": (ints(3, 4, low=0, high=2), ints(4, 5, low=0, high=2, seed=1), np.bool_, None),
    "bool_many": (np.ones((1, 512)), np.ones((512, 1)), np.bool_, None),
}

W3, W9 = f32(3, 6), f32(9, 12)

CASES = [
    Case(
        "across",
        lambda x: jnp.einsum("btc,ts->bsc", x, W3),
        [f32(2, 3, 8)],
        spec=[("B", 3, "C")],
        also=[[f32(1, 3, 5)], [f32(0, 3, 4)]],
        ops=["!Transpose"],
    ),
    Case(
        "across_first",
        jax.vmap(lambda x: W3.T @ x),
        [f32(2, 3, 9)],
        spec=[("B", 3, 9)],
        also=[[f32(1, 3, 9)]],
        ops=["!Transpose"],
    ),
    Case(
        "across_two",
        lambda x: jnp.einsum("bhwc,hH,wW->bHWc", x, W3, W3),
        [f32(2, 3, 3, 8)],
        spec=[("B", 3, 3, 8)],
        also=[[f32(1, 3, 3, 8)], [np.where(f32(1, 3, 3, 8) > 1, np.inf, f32(1, 3, 3, 8)).astype(np.float32)]],
        ops=["!Transpose"],
    ),
    Case(
        "across_two_last",
        lambda x: jnp.einsum("bchw,hH,wW->bcHW", x, W3, W9),
        [f32(2, 4, 3, 9)],
        ops=["!Transpose"],
    ),
    Case("across_small", lambda x: jnp.einsum("bhtc,ts->bhsc", x, W3), [f32(2, 5, 3, 2)]),
    Case(
        "across_symbolic",
        lambda x: jnp.einsum("bhtc,ts->bhsc", x, W3),
        [f32(2, 3, 3, 8)],
        spec=[("B", "H", 3, "C")],
        also=[[f32(1, 5, 3, 4)]],
    ),
    Case(
        "across_symbolic_inner",
        lambda x: jnp.einsum("bthc,ts->bhsc", x, W3),
        [f32(2, 3, 4, 8)],
        spec=[("B", 3, "H", "C")],
        also=[[f32(1, 3, 5, 4)]],
    ),
    Case("across_int", lambda x, w: jnp.einsum("btc,ts->bcs", x, w), [ints(2, 3, 9), ints(3, 4)]),
    Case(
        "across_f16",
        lambda w, x: jnp.einsum("ts,btc->bsc", w, x),
        [f32(3, 4).astype(np.float16), f32(2, 3, 9).astype(np.float16)],
    ),
    Case(
        "single_row_first",
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        [f32(2, 1, 3, 4), f32(2, 5, 3, 4)],
        spec=[("B", 1, 3, 4), ("B", "S", 3, 4)],
    ),
    Case(
        "single_row_last",
        lambda v, p: jnp.einsum("bkhd,bhqk->bhdq", v, p),
        [f32(2, 5, 3, 4), f32(2, 3, 1, 5)],
        spec=[("B", "S", 3, 4), ("B", 3, 1, "S")],
    ),
    Case(
        "single_rows_grouped",
        lambda q, k: jnp.einsum("btkgd,bskd->bkgts", q, k),
        [f32(2, 1, 3, 1, 4), f32(2, 5, 3, 4)],
    ),
    Case("single_both", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), [f32(2, 1, 3, 4), f32(2, 1, 3, 4)]),
    Case(
        "turned_product", lambda p, v: jnp.einsum("bhqk,bkhd->bqhd", p, v), [f32(2, 3, 4, 5), f32(2, 5, 3, 7)]
    ),
    Case(
        "turned_product_twice",
        lambda p, v: (lambda y: (y, y.transpose(0, 1, 3, 2)))(jnp.einsum("bkhd,bhqk->bhdq", v, p)),
        [f32(2, 3, 4, 5), f32(2, 5, 3, 7)],
    ),
    *(
        Case(name, dot(c, b), [f32(*sx), f32(*sy, seed=1)], ops=ops)
        for name, (c, b, sx, sy, ops) in FORMS.items()
    ),
    *(
        Case(f"dtype_{name}", dot(((1,), (0,)), preferred_element_type=to), [x.astype(dt), y.astype(dt)])
        for name, (x, y, dt, to) in DTYPES.items()
    ),
    *(
        Case(f"rows_{np.dtype(dt).name}", einsum("bi,bi->b"), [x.astype(dt), y.astype(dt)])
        for x, y, dt in (
            (f32(4, 200), f32(4, 200, seed=1), BF16),
            (f32(4, 200), f32(4, 200, seed=1), np.float16),
            (I32_EXTREME, I32_EXTREME, np.int32),
            (ints(4, 9, low=-128, high=128), ints(4, 9, low=-128, high=128, seed=1), np.int8),
            (ints(4, 9, low=0, high=2), ints(4, 9, low=0, high=2, seed=1), np.bool_),
        )
    ),
    Case("f64", lambda x: x @ x.T, [f32(3, 4).astype(np.float64)], x64=True),
    Case("i64_wraps", lambda x: x @ x, [np.array([[2**62, 3], [-(2**63), 5]])], x64=True),
    Case("rows_i64", lambda x: jnp.einsum("bi,bi->b", x, x), [np.array([[2**53 + 1, 1]])], x64=True),
    Case("mixed_dtypes", dot(((1,), (0,))), [ints(3, 4, dtype=np.int16), f32(4, 5)]),
    Case("mixed_floats", dot(((1,), (0,))), [f32(3, 4).astype(np.float16), f32(4, 5)]),
    Case("edge_values", lambda x: x @ jnp.ones((4, 3)), [EDGE]),
    Case("precision", dot(((1,), (0,)), precision=lax.Precision.HIGHEST), [f32(3, 4), f32(4, 5)]),
    Case(
        "algorithm",
        dot(((1,), (0,)), precision=lax.DotAlgorithmPreset.F32_F32_F32),
        [f32(3, 4), f32(4, 5)],
    ),
    Case(
        "algorithm_half",
        dot(((1,), (0,)), precision=lax.DotAlgorithmPreset.BF16_BF16_F32, preferred_element_type=np.float32),
        [f32(3, 40).astype(BF16), f32(40, 5, seed=1).astype(BF16)],
        rtol=1e-5,
    ),
    Case(
        "attention_bfloat16",
        jax.nn.dot_product_attention,
        [f32(2, 5, 4, 8, seed=i).astype(BF16) for i in range(3)],
    ),
    Case("transposed_times_vector", lambda a, v: a.T @ v, [f32(3, 3), f32(3)], ops=["!Transpose"]),
    Case("transposed_stack_times_vector", lambda a, v: a.mT @ v, [f32(2, 3, 3), f32(3)]),
    Case("computed_times_vector", lambda a, v: jnp.where(a > 0, a.T, 0.0) @ v, [f32(3, 3), f32(3)]),
    Case("moved_times_vector", lambda a, v: jnp.exp(a.transpose(1, 2, 0)) @ v, [f32(3, 3, 3), f32(3)]),
    Case("weight", lambda x: x @ W.T, [f32(2, 3, 4)], spec=[("B", "T", 4)], also=[[f32(5, 1, 4)]]),
    Case("weight_first", lambda x: jnp.einsum("ij,bj->ib", W, x), [f32(3, 4)], spec=[("B", 4)]),
    Case(
        "symbolic_batch",
        einsum("bqhd,bkhd->bhqk"),
        [f32(2, 5, 3, 4), f32(2, 6, 3, 4)],
        spec=[("B", "Q", 3, 4), ("B", "K", 3, 4)],
        also=[[f32(1, 1, 3, 4), f32(1, 7, 3, 4)]],
    ),
    Case(
        "symbolic_free",
        einsum("abk,kcd->abcd"),
        [f32(2, 3, 4), f32(4, 5, 6)],
        spec=[("A", "B", 4), (4, "C", "D")],
        also=[[f32(1, 2, 4), f32(4, 3, 1)]],
    ),
    Case(
        "symbolic_contraction",
        einsum("bij,bji->b"),
        [f32(2, 3, 4), f32(2, 4, 3)],
        spec=[("B", "N", "M"), ("B", "M", "N")],
        also=[[f32(1, 2, 5), f32(1, 5, 2)]],
    ),
    Case(
        "ragged",
        lambda x, y, sizes: jax.lax.ragged_dot(x, y, sizes),
        [f32(8, 3), f32(3, 3, 4, seed=1), np.array([3, 0, 4], np.int32)],
        also=[[f32(8, 3), f32(3, 3, 4, seed=1), np.array([0, 8, 0], np.int32)]],
    ),
    Case(
        "symbolic_rows_in_batch",
        einsum("btef,efd->bted"),
        [f32(2, 3, 4, 5), f32(4, 5, 6)],
        spec=[("B", "T", 4, 5), (4, 5, 6)],
        also=[[f32(1, 1, 4, 5), f32(4, 5, 6)], [f32(7, 5, 4, 5), f32(4, 5, 6)]],
        ops=["!Concat"],
    ),
    Case(
        "symbolic_rows_in_batch_vector",
        einsum("btef,ef->bte"),
        [f32(2, 3, 4, 5), f32(4, 5)],
        spec=[("B", "T", 4, 5), (4, 5)],
        also=[[f32(1, 1, 4, 5), f32(4, 5)]],
    ),
    Case(
        "symbolic_rows_first_operand",
        lambda x, w: jax.lax.dot_general(x, w, (((3,), (1,)), ((2,), (0,)))),
        [f32(2, 3, 4, 5), f32(4, 5, 6)],
        spec=[("B", "T", 4, 5), (4, 5, 6)],
        also=[[f32(7, 1, 4, 5), f32(4, 5, 6)]],
    ),
    Case(
        "symbolic_rows_two_contractions",
        einsum("btefg,egfd->bted"),
        [f32(2, 3, 4, 5, 2), f32(4, 2, 5, 6)],
        spec=[("B", "T", 4, 5, 2), (4, 2, 5, 6)],
        also=[[f32(1, 5, 4, 5, 2), f32(4, 2, 5, 6)]],
    ),
    Case(
        "scaled_dot",
        lambda x, y, a, b: lax.scaled_dot(x, y, lhs_scale=a, rhs_scale=b, preferred_element_type=jnp.float32),
        [f32(3, 64), f32(64, 5, seed=1), f32(3, 2, seed=2), f32(2, 5, seed=3)],
    ),
    Case("nothing_to_sum_integers", lambda x: jnp.matmul(x, x.T), [np.zeros((3, 0), np.uint8)]),
    Case("nothing_to_sum_batched", lambda x: jnp.einsum("bik,bjk->bij", x, x), [np.zeros((2, 3, 0), np.int32)]),
]
if jax.__version_info__ >= (0, 12):  # older ones compute it on GPUs only
    CASES += [
        Case(
            "scaled_matmul",
            lambda *x: jax.nn.scaled_matmul(*x, preferred_element_type=jnp.float32),
            [f32(2, 3, 32), f32(2, 5, 32, seed=1), f32(2, 3, 4, seed=2), f32(2, 5, 4, seed=3)],
        ),
        Case(
            "scaled_matmul_float8",
            lambda *x: jax.nn.scaled_matmul(*(v.astype(jnp.float8_e4m3fn) for v in x)),
            [f32(1, 3, 32), f32(1, 5, 32, seed=1), f32(1, 3, 1, seed=2), f32(1, 5, 1, seed=3)],
        ),
    ]
