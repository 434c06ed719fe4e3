"""Write the JSON Schemas of records, reports, profiles and devices' records to ``schemas/``.

Usage: ``python scripts/write_schemas.py``. A test fails when they are not current.
"""

from __future__ import annotations

import json
from pathlib import Path

from onnxproof.evidence.profile import Profile
from onnxproof.evidence.record import Record, Report, Strict
from onnxproof.page.device import DeviceRecord

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
MODELS: dict[str, type[Strict]] = {
    "record-1": Record,
    "report-1": Report,
    "profile-1": Profile,
    "device-1": DeviceRecord,
}


def text_of(name: str) -> str:
    """The schema of one format, as its file holds it."""
    schema = MODELS[name].model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"onnxproof.{name}"}
    return json.dumps({**head, **schema}, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        (FOLDER / f"{name}.json").write_text(text_of(name))


if __name__ == "__main__":
    main()
