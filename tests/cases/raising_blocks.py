"""Blocks of pixels to channels and back, and what looks like it."""

import numpy as np

from tests.cases.case import Case, f32


def moved(parts, perm, out):
    return lambda x: x.reshape(x.shape[0], *parts).transpose(perm).reshape(x.shape[0], *out)


def symbolic(x):
    b, _, h, w = x.shape
    return x.reshape(b, 3, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(b, 3, 2 * h, 2 * w)


DEEP, FLAT = f32(2, 12, 3, 5), f32(2, 3, 6, 10)
ODD = np.where(DEEP > 1, np.nan, np.where(DEEP < -1, -np.inf, DEEP)).astype(np.float32)
BATCHES = [("B", 12, 3, 5)]
ALSO = [[f32(1, 12, 3, 5)], [ODD], [DEEP[:0]]]
CUT = ["!DepthToSpace", "!SpaceToDepth"]
CRD = moved((3, 2, 2, 3, 5), (0, 1, 4, 2, 5, 3), (3, 6, 10))
DCR = moved((2, 2, 3, 3, 5), (0, 3, 4, 1, 5, 2), (3, 6, 10))
DEPTH = moved((3, 3, 2, 5, 2), (0, 3, 5, 1, 2, 4), (12, 3, 5))

CASES = [
    Case("pixel_shuffle", CRD, [DEEP], spec=BATCHES, also=ALSO, ops=["DepthToSpace", "!Transpose"]),
    Case("depth_to_space", DCR, [DEEP], spec=BATCHES, also=ALSO, ops=["DepthToSpace", "!Transpose"]),
    Case("space_to_depth", DEPTH, [FLAT], spec=[("B", 3, 6, 10)], also=[[FLAT[:1]], [FLAT[:0]]], ops=["SpaceToDepth"]),
    Case("static", CRD, [DEEP], also=[[ODD]], ops=["DepthToSpace"]),
    Case("one_channel", moved((1, 3, 3, 2, 2), (0, 1, 4, 2, 5, 3), (1, 6, 6)), [f32(2, 9, 2, 2)]),
    Case("unshuffle", moved((3, 3, 2, 5, 2), (0, 1, 3, 5, 2, 4), (12, 3, 5)), [FLAT], ops=CUT),
    Case("columns_swapped", moved((3, 2, 2, 3, 5), (0, 1, 4, 3, 5, 2), (3, 6, 10)), [DEEP], ops=CUT),
    Case("oblong", moved((2, 3, 2, 3, 5), (0, 1, 4, 2, 5, 3), (2, 9, 10)), [DEEP], ops=CUT),
    Case("channels_last", moved((3, 5, 2, 2, 3), (0, 1, 3, 2, 4, 5), (6, 10, 3)), [f32(2, 3, 5, 12)], ops=CUT),
    Case("unknown_size", symbolic, [DEEP], spec=[("B", 12, "H", "W")], also=[[f32(1, 12, 2, 2)]], ops=CUT),
    Case("f16", CRD, [DEEP.astype(np.float16)], ops=CUT),
]  # fmt: skip
