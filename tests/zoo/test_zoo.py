"""Every program of the zoo whose packages are here: exported, run at several inputs, compared with JAX.

The lane of the zoo has all packages and says so with ``--whole-zoo``; elsewhere the programs of the packages that
the other tests need too are the sample, but for those that take long.
"""

from __future__ import annotations

import collections

import pytest

from onnxproof.errors import UnsupportedError
from tests.zoo.program import Program, programs
from tests.zoo.prove import installed, prove

pytestmark = pytest.mark.filterwarnings("ignore")  # packages warn of whatever they like

ROWS = programs()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole-zoo")
        rows = [p for p in ROWS if installed(p) and (whole or not p.slow)]
        metafunc.parametrize("program", rows, ids=lambda p: p.name)


def test_program(program: Program) -> None:
    if program.fails:
        with pytest.raises(UnsupportedError):  # by us, and what starts to pass has to lose its reason
            prove(program)
    else:
        prove(program)


def test_whole_zoo(request: pytest.FixtureRequest) -> None:
    """As many programs and packages as were promised, and in the lane of the zoo none is left out."""
    names = collections.Counter(p.name for p in ROWS)
    assert max(names.values()) == 1, names.most_common(1)
    assert len(ROWS) >= 60
    assert len({p.packages[0] for p in ROWS}) >= 25
    assert sum(not p.fails for p in ROWS) >= 57
    for program in ROWS:
        assert (program.rtol, program.atol) == (None, None) or program.why, program.name
    if request.config.getoption("--whole-zoo"):
        missing = sorted({m for p in ROWS if not installed(p) for m in p.packages})
        assert not missing, f"these packages, or some of them, are missing: {missing}"
