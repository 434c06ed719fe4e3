"""A PyTorch module through PyTorch's own exporter, with the same evidence as an export of ours.

Run it with ``python -m examples.from_torch``; it needs ``pip install 'onnxproof[torch]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from onnxproof import verify
from onnxproof.contracts import Batch, Contract, IndependentRows, SumsToOne
from onnxproof.evidence import Record

CONTRACT = Contract("probabilities", (Batch(), IndependentRows(), SumsToOne("scores")))


class Classifier(torch.nn.Module):
    """Rows (B, 8) to probabilities (B, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.scores = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(torch.nn.functional.gelu(self.hidden(features)))
        return torch.softmax(self.scores(hidden), -1)


def proven(folder: Path) -> Record:
    """Export a module with PyTorch, run the file in two runtimes, and hold it to a contract."""
    torch.manual_seed(0)
    module = Classifier().eval()
    place = folder / "model.onnx"
    torch.onnx.export(
        module,
        (torch.zeros(2, 8),),
        place,
        input_names=["features"],
        output_names=["scores"],
        dynamic_shapes=({0: "B"},),
        dynamo=True,
        external_data=False,
    )
    cases = {f"batch-{n}": [torch.randn(n, 8)] for n in (1, 2, 7)}
    runtimes = ["onnxruntime", "onnx-reference"]
    return verify(
        module, place, cases, runtimes=runtimes, contracts=[CONTRACT], bundle_path=folder / "evidence"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record = proven(Path(folder))
    assert record.contracts is not None
    print(record.status, record.level, [c.status for c in record.contracts])


if __name__ == "__main__":
    main()
