"""The proof itself: what passes, what is refused, what fails, and the record that is saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from playwright.sync_api import BrowserContext, Page, expect
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.evidence import verify
from onnxproof.evidence.proof import Recorded
from onnxproof.evidence.validate import InvalidRecord
from tests.web_page.conftest import GALLERY, graph
from tests.web_page.driving import judged, open_page, outcomes, run, saved, verdict
from tests.web_page.serving import Host

CNN = GALLERY / "cnn-nnx"
Make = Callable[..., Path]


def test_good_bundle_passes_on_both_providers(page: Page, cnn: Path, tmp_path: Path) -> None:
    with Host(cnn) as host:
        assert run(page, host, webgpu=True) == "passed", page.locator("main").inner_text()
    expect(page.locator("#because")).to_have_text(
        "7 of 7 on WebAssembly (1 thread), 7 of 7 on WebGPU (software adapter)."
    )
    for provider in ("wasm", "webgpu"):
        found = outcomes(page, provider)
        assert set(found.values()) == {"match", "rejected"}
        assert found["batch-7"] == "match"
    assert page.locator("#errors svg path.webgpu").count() >= 4
    assert page.locator("#latency svg path.wasm").count() >= 4

    place = saved(page, tmp_path / "device.json")
    wasm, webgpu = judged(place, CNN)
    assert (wasm.status, wasm.level, wasm.runtime.name) == ("passed", "executed", "ort-web-browser-wasm")
    assert (webgpu.status, webgpu.level, webgpu.runtime.name) == (
        "passed",
        "executed",
        "ort-web-browser-webgpu",
    )
    assert webgpu.runtime.session["software_adapter"] is True
    placement = webgpu.execution.placement
    assert placement is not None
    assert {p.provider for p in placement} >= {"WebGpuExecutionProvider"}

    arguments = ["verify", str(CNN), "--device-record", str(place)]
    done = CliRunner().invoke(application(), arguments)
    assert done.exit_code == 0, done.output
    assert "software adapter google swiftshader" in done.output
    doctored = json.loads(place.read_text())
    doctored["runs"][0]["cases"][0]["outputs"][0]["max_abs_error"] = 0.0
    place.write_text(json.dumps(doctored))
    done = CliRunner().invoke(application(), arguments)
    assert done.exit_code == 1
    with pytest.raises(InvalidRecord, match=r"max_abs_error: is 0\.0, but the outputs give"):
        judged(place, CNN)


def test_every_type_of_tensor(page: Page, make_site: Make, typed: Path, tmp_path: Path) -> None:
    with Host(make_site(typed)) as host:
        assert run(page, host) == "passed", page.locator("#because").inner_text()
    found = outcomes(page)
    assert found["all"] == "match"
    # Names of dimensions are compared by no ONNX Runtime: what is known is said, and is no failure.
    assert found["constraint-N"] == "accepted"
    expect(page.locator('tr[data-case="constraint-N"]')).to_contain_text("known limit")
    (record,) = judged(saved(page, tmp_path / "device.json"), typed)
    assert record.status == "passed"
    case = record.input_cases[0]
    assert [o.got.dtype for o in case.outputs if o.got] == [o.want.dtype for o in case.outputs if o.want]
    assert {o.max_abs_error for o in case.outputs} == {0.0}


def test_threads_need_isolation(page: Page, context: BrowserContext, cnn: Path, tmp_path: Path) -> None:
    with Host(cnn, isolated=True) as host:
        open_page(page, host)
        page.locator("#use-webgpu").uncheck()
        page.locator("#threads").select_option("2")
        page.locator("#run").click()
        assert verdict(page) == "passed"
        expect(page.locator("#because")).to_contain_text("2 threads")
        (record,) = judged(saved(page, tmp_path / "device.json"), CNN)
        assert record.runtime.session["threads"] == 2
    with Host(cnn) as host:
        open_page(page, host)
        expect(page.locator("#threads")).not_to_be_visible()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("bundle/model.onnx", "The model's bytes are not those of the record: their SHA-256 is"),
        ("bundle/cases/batch-2/output_0.pb", "The bytes of cases/batch-2/output_0.pb are not those"),
        ("bundle/record.json", "The bytes of record.json are not those"),
    ],
)
def test_flipped_bit_is_refused_before_anything_is_loaded(
    page: Page, cnn: Path, path: str, said: str
) -> None:
    with Host(cnn) as host:
        host.changed(path)
        assert run(page, host) == "failed"
        expect(page.locator("#verdict")).to_have_text("Refused before anything was loaded")
        expect(page.locator("#because")).to_contain_text(said)
        assert not [asked for asked in host.asked if asked.startswith("ort/")]
    expect(page.locator("#save")).not_to_be_visible()
    expect(page.locator("#own")).not_to_be_visible()
    assert set(outcomes(page).values()) == {"None"}


def test_files_that_are_too_short_too_long_or_missing(page: Page, cnn: Path) -> None:
    model = (cnn / "bundle" / "model.onnx").read_bytes()
    for content, said in (
        (model[:-1], f"{len(model) - 1} came, not {len(model)}"),
        (model + b"\0", f"more than {len(model)} came"),
        (None, "the model did not come: the host answers 404"),
    ):
        with Host(cnn) as host:
            host.instead["bundle/model.onnx"] = content
            assert run(page, host) == "failed"
            expect(page.locator("#because")).to_contain_text(said)


def test_runtime_that_was_changed_is_refused(page: Page, cnn: Path) -> None:
    with Host(cnn) as host:
        host.changed("ort/ort.wasm.min.js")
        assert run(page, host) == "failed"
        expect(page.locator("#because")).to_contain_text("The bytes of ort.wasm.min.js are not those")


def test_list_of_files_is_that_of_the_record(page: Page, cnn: Path) -> None:
    """Who changes a file and its hash in data.json still has the record against him."""
    data = json.loads((cnn / "data.json").read_text())
    data["files"] = [f for f in data["files"] if f["path"] != "cases/batch-1/oracle_0.pb"]
    with Host(cnn) as host:
        host.instead["data.json"] = json.dumps(data).encode()
        assert run(page, host) == "failed"
        expect(page.locator("#because")).to_have_text(
            "The page's own list of files is not that of the record."
        )


def test_wrong_expected_output_fails_and_is_named(
    page: Page, make_site: Make, wrong: Path, tmp_path: Path
) -> None:
    with Host(make_site(wrong)) as host:
        assert run(page, host) == "failed"
    expect(page.locator("#because")).to_have_text(
        "WebAssembly, case off: The output “y” differs by up to 0.50: at [1, 2] it is 10, not 10.5."
    )
    found = outcomes(page)
    assert (found["right"], found["off"]) == ("match", "mismatch")
    place = saved(page, tmp_path / "device.json")
    (record,) = judged(place, wrong)
    assert (record.status, record.failure) == ("failed", "mismatch")
    assert record.input_cases[1].outputs[1].max_abs_error == 2.0**64
    done = CliRunner().invoke(application(), ["verify", str(wrong), "--device-record", str(place)])
    assert done.exit_code == 16


def test_weights_in_a_file_of_their_own(page: Page, make_site: Make, tmp_path: Path) -> None:
    x, weight = np.ones((2, 64), np.float32), np.arange(4096, dtype=np.float32).reshape(64, 64) / 4096
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 64])],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="a weight #1.bin")
    bundle = tmp_path / "m.evidence"
    verify(Recorded({"one": [x @ weight]}), tmp_path / "m.onnx", {"one": [x]}, bundle_path=bundle)
    with Host(make_site(bundle)) as host:
        assert run(page, host) == "passed", page.locator("#because").inner_text()
        assert "bundle/a weight #1.bin" in host.asked
        host.changed("bundle/a weight #1.bin")
        assert run(page, host) == "failed"
        expect(page.locator("#because")).to_contain_text(
            "The bytes of a weight #1.bin are not those of the record"
        )


def test_names_are_text(page: Page, make_site: Make, tmp_path: Path) -> None:
    """Whatever a model calls its parts, the page shows it, and runs none of it."""
    x = np.ones((2,), np.float32)
    bad = """<img src=x onerror="document.title='run'">'&amp;"""
    model = graph(
        [helper.make_node("Neg", [bad], [f"{bad}2"])],
        [helper.make_tensor_value_info(bad, TensorProto.FLOAT, [bad])],
        [helper.make_tensor_value_info(f"{bad}2", TensorProto.FLOAT, [bad])],
    )
    bundle = tmp_path / "m.evidence"
    verify(Recorded({"one": [x]}), model, {"one": [x]}, bundle_path=bundle)
    with Host(make_site(bundle)) as host:
        assert run(page, host) == "failed"
        page.locator("#own-run").click()
        expect(page.locator(".output h3")).to_contain_text(f"{bad}2")
    expect(page.locator("#because")).to_contain_text(f"“{bad}2”")
    assert page.locator("img").count() == 0
    assert page.title() == "m · onnxproof"


def test_hang_is_an_outcome(page: Page, cnn: Path, tmp_path: Path) -> None:
    """A worker that never answers for one case is ended, and the next case has a new one."""
    data = json.loads((cnn / "data.json").read_text())
    data["seconds"]["case"] = 3
    worker = (cnn / "js" / "worker.js").read_text()
    act = "  async run({ inputs, again }) {\n"
    assert act in worker
    hang = "    if (inputs[0].shape[0] === 2) await new Promise(() => {});\n"
    with Host(cnn) as host:
        host.instead["data.json"] = json.dumps(data).encode()
        host.instead["js/worker.js"] = worker.replace(act, act + hang).encode()
        assert run(page, host) == "failed"
    found = outcomes(page)
    assert (found["batch-1"], found["batch-2"], found["batch-3"]) == ("match", "timeout", "match")
    expect(page.locator("#because")).to_contain_text("case batch-2: There was no answer within 3 s.")
    (record,) = judged(saved(page, tmp_path / "device.json"), CNN)
    assert record.failure == "runtime-error"


def test_adapter_that_never_comes(page: Page, cnn: Path) -> None:
    page.add_init_script("navigator.gpu.requestAdapter = () => new Promise(() => {})")
    with Host(cnn) as host:
        assert run(page, host) == "passed"
    expect(page.locator("#note")).to_contain_text("No WebGPU: WebGPU gives no answer.")
    expect(page.locator("#use-webgpu")).to_be_disabled()


def test_no_adapter(page: Page, cnn: Path) -> None:
    page.add_init_script("navigator.gpu.requestAdapter = async () => null")
    with Host(cnn) as host:
        assert run(page, host) == "passed"
    expect(page.locator("#note")).to_contain_text("No WebGPU: this browser gives no WebGPU adapter.")
