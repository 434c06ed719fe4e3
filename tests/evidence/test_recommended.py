"""Recommended session options: offered, recorded, and never what makes a value right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import onnxproof
from onnxproof import to_onnx
from onnxproof.evidence import execute, verify
from onnxproof.evidence.court import runs_of
from onnxproof.evidence.findings import run_label
from onnxproof.evidence.proof import RUNS

ENTRY = "session.set_denormal_as_zero"


def masked_softmax(scores: Any) -> Any:
    """Half of each row lies 90 below the rest, where exp gives denormals."""
    keep = jnp.arange(scores.shape[-1]) % 2 == 0
    return jax.nn.softmax(jnp.where(keep, scores, scores - 90.0))


def test_one_call_gives_them() -> None:
    assert onnxproof.recommended_options() == {ENTRY: "1"}
    options = onnxproof.session_options(threads=2)
    assert options.get_session_config_entry(ENTRY) == "1"
    assert options.intra_op_num_threads == 2
    assert onnxproof.session_options().intra_op_num_threads == 0


def test_evidence_runs_with_them_and_says_so(tmp_path: Path) -> None:
    names = ["onnxruntime", "onnxruntime-recommended"]
    scores = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    model = to_onnx(masked_softmax, [("B", 64)])
    bundle = tmp_path / "masked.evidence"
    record = verify(masked_softmax, model, [scores], runtimes=names, bundle_path=bundle)
    assert record.level == "executed"
    runs = runs_of(record)
    assert [r.runtime.session.get(ENTRY) for r in runs] == [None, None, "1"]
    assert len({run_label(r.runtime) for r in runs}) == 3
    assert execute(record, tmp_path)["level"] == "executed"


def test_other_entries_are_refused() -> None:
    (spec,) = RUNS["onnxruntime-recommended"]
    other = spec.model_copy(
        update={"session": {**spec.session, "session.record_ep_graph_assignment_info": "0"}}
    )
    record = verify(None, to_onnx(jnp.tanh, [(3,)]), [np.ones(3, np.float32)], runtimes=[other])
    assert record.failure == "load-error"
