"""What goes wrong with contracts, as one class."""

from __future__ import annotations

from onnxproof.errors import ConformanceError


class ContractError(ConformanceError, ValueError):
    """A contract is broken, or is not one that can be checked."""
