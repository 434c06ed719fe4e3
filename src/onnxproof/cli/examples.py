"""Examples of each command, for its help and for the page that documents the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "export": (
        "onnxproof export mypackage.search:scores -i query=B,64 -i keys=K,64 -o scores.onnx",
        "onnxproof export model.py:build -i image=B,28,28,1 --fix train=False --opset 21",
    ),
    "verify": (
        "onnxproof verify scores.evidence",
        "onnxproof verify scores.onnx --runtime onnxruntime --runtime openvino --bundle scores.evidence",
        "onnxproof verify scores.evidence --device-record scores.device.json",
    ),
    "explain": (
        "onnxproof explain mypackage.search:scores -i query=B,64 -i keys=K,64 --bundle scores.evidence",
    ),
    "report": ("onnxproof report scores.evidence -o report.html --junit report.xml",),
    "conform": ("onnxproof conform --list", "onnxproof conform --profile jax --executor processes"),
    "page": ("onnxproof page scores.evidence -o site",),
    "sign": ("onnxproof sign scores.evidence --key private.pem",),
    "demo": ("onnxproof demo -o demo-output",),
    "quantize": (
        "onnxproof quantize build.evidence --mode int8",
        "onnxproof quantize build.onnx --mode int8-static --calibrate cases.npz -o small.onnx",
    ),
    "convert": ("onnxproof convert scores.evidence --to float16",),
    "doctor": ("onnxproof doctor", "onnxproof doctor scores.evidence --json"),
    "inspect": (
        "onnxproof inspect scores.onnx --depth 3",
        "onnxproof inspect scores.onnx --node dot_general",
    ),
    "diff": (
        "onnxproof diff old.onnx new.onnx --run",
        "onnxproof diff old.onnx new.onnx --cases old.evidence",
    ),
    "bench": (
        "onnxproof bench scores.evidence --batch 1 --batch 32 --threads 1",
        "onnxproof bench scores.onnx --against mypackage.search:scores",
    ),
    "weights list": ("onnxproof weights list scores.onnx --json",),
    "weights swap": ("onnxproof weights swap scores.onnx step-9000.safetensors -o scores-9000.onnx",),
}


def examples(command: str) -> str:
    """The epilog of a command's help: each example on a line of its own."""
    lines = [f"[cyan]{line}[/cyan]" for line in EXAMPLES[command]]
    return "\n\n".join(["[bold]For example[/bold]", *lines])
