"""The decoder benchmark runs, and its report holds what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.benchmark_decoder_normalization import main

TINY = ("--warmup", "1", "--iterations", "3", "--repeats", "2")
TIMES = ("initialization_ms", "first_run_ms", "warmed_latency_ms")


@pytest.mark.parametrize(
    ("arguments", "dtype", "operator"),
    [
        ((), "float32", "LayerNormalization"),
        (("--dtype", "float16", "--embed-dim", "32", "--ff-dim", "64", "--intra-op-threads", "2"), "float16",
         "LayerNormalization"),
        (("--workload", "rmsnorm", "--dtype", "float16", "--embed-dim", "64"), "float16", "RMSNormalization"),
    ],
    ids=["decoder", "half", "rmsnorm"],
)  # fmt: skip
def test_report(arguments: tuple[str, ...], dtype: str, operator: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert main([*TINY, *arguments, "--output", str(path)]) == 0
    report = json.loads(path.read_text())
    assert {
        "options",
        "seeds",
        "tolerance",
        "versions",
        "cpu",
        "platform",
        "source_revision",
    } <= report.keys()
    assert {"python", "jax", "flax", "numpy", "onnx", "onnxruntime", "onnxproof"} <= report["versions"].keys()
    kinds = [(c["shapes"], c["normalization_mode"]) for c in report["cases"]]
    assert kinds == [(s, m) for s in ("static", "symbolic") for m in ("auto", "prefer_native")]
    for case in report["cases"]:
        assert case["matches_jax"]
        assert set(case["input_dtypes"] + case["output_dtypes"]) == {dtype}
        assert all(case[name] > 0 for name in TIMES)
        assert len(case["repeat_means_ms"]) == 2
        assert operator in case["exported_operators"]
        fused = any("SkipLayer" in name for name in case["optimized_operators"])
        assert not (fused and dtype == "float32"), "the fused kernel cancels in float32"
    assert [c["same_graph"] for c in report["comparison"]] == [True, True], (
        "the gate admits what is native here"
    )


@pytest.mark.parametrize(
    "arguments",
    [("--embed-dim", "10"), ("--iterations", "0"), ("--dtype", "float64"), ("--intra-op-threads", "-1")],
)
def test_bad_options(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err
