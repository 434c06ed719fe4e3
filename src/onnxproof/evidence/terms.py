"""The words that records and profiles are made of: texts, counts and numbers within bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Seconds = Annotated[FiniteFloat, Field(ge=0)]
Error = Annotated[FiniteFloat, Field(ge=0)] | Literal["inf"]
Value = FiniteFloat | Literal["inf", "-inf", "nan"] | bool
Dim = Count | Annotated[str, Field(max_length=256)]
Scalar = bool | int | FiniteFloat | Text | None
Options = dict[Name, Scalar | Annotated[list[Scalar], Field(max_length=1024)]]
Status = Literal["passed", "failed", "not_run"]


class Strict(BaseModel):
    """Base of every part: exact types, no unknown keys, no change after it is made."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
