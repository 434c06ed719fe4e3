"""An actor trained for seconds plays the same episodes from ONNX Runtime as in JAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples import rl_cartpole

pytestmark = pytest.mark.filterwarnings("ignore")  # of Gymnasium's own


def test_an_actor_that_still_falls_falls_alike(tmp_path: Path) -> None:
    """A little training: returns differ from seed to seed, and say where each episode ended."""
    returns = rl_cartpole.run(8_000, tmp_path)
    assert len(returns["JAX"]) >= 20
    assert len(set(returns["JAX"])) > 3, "returns that are all alike tell little"
    assert returns["ONNX Runtime"] == returns["JAX"]
    assert np.mean(returns["JAX"]) > 1.5 * np.mean(returns["random"])


def test_an_actor_that_learned_stands(tmp_path: Path) -> None:
    returns = rl_cartpole.run(30_000, tmp_path)
    assert returns["ONNX Runtime"] == returns["JAX"]
    assert np.mean(returns["JAX"]) > 5 * np.mean(returns["random"])
