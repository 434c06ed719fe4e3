"""Primitives that have no lowering, with the reason that users read."""

from onnxproof.lowering.registry import not_lowered

not_lowered(
    "ONNX has no collectives across devices",
    "all_gather",
    "all_to_all",
    "axis_index",
    "pmax",
    "pmin",
    "ppermute",
    "psum",
    "psum_invariant",
    "reduce_scatter",
    "shard_map",
)
not_lowered("a foreign kernel can't travel in a graph", "ffi_call", "pallas_call")
