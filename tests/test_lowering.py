"""Every row of every table in ``tests/cases``: export, check, load, run, compare with JAX."""

from __future__ import annotations

import importlib
import pkgutil

import jax
import onnx
import pytest

from onnxproof import to_onnx
from tests import cases
from tests.cases.case import Case
from tests.running import assert_same, run, session


def _rows() -> list[object]:
    rows = []
    for module in pkgutil.iter_modules(cases.__path__):
        table = getattr(importlib.import_module(f"tests.cases.{module.name}"), "CASES", [])
        rows += [pytest.param(case, id=f"{module.name}-{case.name}") for case in table]
    return rows


@pytest.mark.parametrize("case", _rows())
def test_case(case: Case) -> None:
    with jax.enable_x64(case.x64):
        spec = case.args if case.spec is None else case.spec
        model = to_onnx(case.fn, list(spec), enable_double_precision=case.x64, **case.options)
        onnx.checker.check_model(model, full_check=True)
        found = {node.op_type for node in model.graph.node}
        for op in case.ops:
            assert (op.lstrip("!") in found) != op.startswith("!"), f"{op}: the graph has {found}"
        sess = session(model)
        for args in (case.args, *case.also):
            want = jax.tree_util.tree_leaves(jax.jit(case.fn)(*args))
            got = run(sess, args)
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                assert_same(g, w, case.rtol, case.atol)
