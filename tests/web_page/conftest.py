"""One browser for all tests, and the pages of a few bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from onnxproof.evidence import verify
from onnxproof.evidence.proof import Recorded
from onnxproof.evidence.runtimes.web import locate
from onnxproof.page.build import build
from onnxproof.page.ort_web import find

ROOT = Path(__file__).resolve().parent.parent.parent
GALLERY = ROOT / "examples" / "gallery" / "proofs"
SECONDS = 120

expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of the system; ``--enable-unsafe-webgpu`` lets it have a software adapter."""
    path, _ = locate.browser()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--enable-unsafe-webgpu"])
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    found.set_default_timeout(SECONDS * 1000)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page on which nothing may go wrong unseen: neither an error in a script nor a breach of the policy."""
    found = context.new_page()
    faults: list[str] = []
    found.on("pageerror", lambda err: faults.append(str(err)))
    found.on(
        "console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None
    )
    yield found
    assert not faults


@pytest.fixture(scope="session")
def make_site(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the page of a bundle, with the package of ``web/node_modules``."""

    def make(bundle: Path, *, webgpu: bool = False) -> Path:
        site = tmp_path_factory.mktemp("page") / "site"
        build(bundle, site, find(ROOT / "web"), webgpu=webgpu)
        return site

    return make


@pytest.fixture(scope="session")
def cnn(make_site: Callable[..., Path]) -> Path:
    """The page of a small network that takes images; it has both builds."""
    return make_site(GALLERY / "cnn-nnx", webgpu=True)


TYPES = "float32 float64 float16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers all over a type, its ends and what is not finite among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        array = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
        array.flat[:4] = [np.nan, np.inf, -np.inf, -0.0][: array.size]
        return array
    ends = np.iinfo(dtype)
    array = rng.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)
    array.flat[:2] = [ends.min, ends.max][: array.size]
    return array


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> bytes:
    made = helper.make_graph(nodes, "graph", inputs, outputs)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model.SerializeToString()


@pytest.fixture(scope="session")
def typed(make_site: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of one input and output of every type, and a size that two of them share."""
    codes = {
        t: getattr(TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}.get(t, t.upper())) for t in TYPES
    }
    model = graph(
        [helper.make_node("Identity", [f"x_{t}"], [f"y_{t}"]) for t in TYPES],
        [helper.make_tensor_value_info(f"x_{t}", c, ["N", 4]) for t, c in codes.items()],
        [helper.make_tensor_value_info(f"y_{t}", c, ["N", 4]) for t, c in codes.items()],
    )
    folder = tmp_path_factory.mktemp("typed") / "typed.evidence"
    arrays = [values(t, (3, 4)) for t in TYPES]
    verify(Recorded({"all": arrays}), model, {"all": arrays}, rtol=1e-5, atol=1e-5, bundle_path=folder)
    return folder


@pytest.fixture(scope="session")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a case whose expected outputs are not what the model computes, one of them by 2^64."""
    model = graph(
        [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Identity", ["n"], ["m"])],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("n", TensorProto.UINT64, ["N"]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("m", TensorProto.UINT64, ["N"]),
        ],
    )
    x, n = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2**64 - 1], np.uint64)
    off = 2 * x
    off[1, 2] += 0.5
    outputs = {"right": [2 * x, n], "off": [off, 0 * n]}
    folder = tmp_path_factory.mktemp("wrong") / "wrong.evidence"
    verify(Recorded(outputs), model, {"right": [x, n], "off": [x, n]}, bundle_path=folder)
    return folder


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose model has 25 MB."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2500, 2500)).astype(np.float32)
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2500])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2500])],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = rng.normal(size=(1, 2500)).astype(np.float32)
    folder = tmp_path_factory.mktemp("large") / "large.evidence"
    verify(Recorded({"one": [x @ weight]}), model, {"one": [x]}, rtol=1e-4, atol=1e-3, bundle_path=folder)
    return folder
