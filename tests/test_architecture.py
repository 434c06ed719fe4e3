"""The house rules that a program can check, over the source as it stands."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "onnxproof"
FILES = sorted(SOURCE.rglob("*.py"))
FRAMEWORKS = {"flax", "equinox", "haiku", "torch", "keras"}

# Where code that is not ours may raise anything, or a fault must end as a message. File → how many, why.
BROAD_EXCEPT = {
    "capture/foreign.py": (1, "another package's primitive runs under JAX's tracing"),
    "capture/trace.py": (1, "the user's callable runs under JAX's tracing"),
    "cli/target.py": (1, "the user's module and builder run"),
    "cli/console.py": (1, "the last place where a fault of ours can become one paragraph"),
    "evidence/localize.py": (1, "ONNX's reference evaluator raises what NumPy raises"),
    "evidence/references/jax.py": (
        3,
        "the user's callable runs under jit, on other dtypes, and as its traced program",
    ),
    "evidence/references/built.py": (1, "a module that a profile names is imported"),
    "evidence/runtimes/worker.py": (1, "a runtime loads and runs a model, and raises anything"),
    "evidence/runtimes/latency.py": (2, "ONNX Runtime loads and runs a model, and raises classes of its own"),
    "evidence/source.py": (1, "a broken package raises anything while it is imported"),
    "evidence/stages.py": (1, "an exporter and the user's model run"),
    "evidence/runtimes/ort.py": (2, "ONNX Runtime loads and runs a model, and raises classes of its own"),
}
# Longer than 450 lines, each with its reason.
LONG_FILES = {
    "capture/inline.py": "the one reader of jaxprs",
    "lowering/emit.py": "the whole of what rules are given",
}
MAX_LINES = 450


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, as a dotted name."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def attributes(path: Path) -> Iterator[str]:
    """Every dotted name that a file uses, such as ``jax.core.Tracer``."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_source_file(path: Path) -> None:
    name = name_of(path)
    used = {*imports(path), *attributes(path)}
    private = sorted(u for u in used if u.startswith(("jax._src", "jaxlib")))
    assert not private, f"{name} reaches into JAX's private code: {private}"
    if not name.startswith(("demo/", "evidence/references/")):
        frameworks = sorted({u.partition(".")[0] for u in imports(path)} & FRAMEWORKS)
        assert not frameworks, f"{name} imports {frameworks}"
    if not name.startswith("capture/"):
        jaxpr = sorted(u for u in used if u.startswith("jax.extend") or "make_jaxpr" in u or u == "jax.core")
        assert not jaxpr, f"{name} touches jaxprs, which only capture/ may: {jaxpr}"
    if not name.startswith(("demo/", "evidence/runtimes/")) and name != "precision/tools.py":
        runtimes = sorted(u for u in imports(path) if u.partition(".")[0] == "onnxruntime")
        assert not runtimes, (
            f"{name} imports a runtime, which only evidence/runtimes/ and precision/tools.py may"
        )
    environment = sorted(u for u in used if u in ("os.environ", "os.getenv"))
    assert not environment, f"{name} reads environment variables, which are no API"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_broad_except(path: Path) -> None:
    name = name_of(path)
    broad = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    allowed, _ = BROAD_EXCEPT.get(name, (0, ""))
    assert len(broad) <= allowed, f"{name} has broad excepts on lines {broad}; catch what can be raised"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_length(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    if name_of(path) not in LONG_FILES:
        assert lines <= MAX_LINES, f"{name_of(path)} has {lines} lines; part it by what it is about"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_docstrings(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{name_of(path)} has no docstring"
    assert inspect.cleandoc(ast.get_docstring(tree) or "").splitlines()[0], name_of(path)


def test_exceptions_to_the_rules_are_needed() -> None:
    names = {name_of(path) for path in FILES}
    assert set(BROAD_EXCEPT) <= names
    assert set(LONG_FILES) <= names


def test_nothing_mentions_this_machine() -> None:
    for path in [*FILES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text()
        for place in (str(ROOT), str(Path.home()), tempfile.gettempdir()):
            assert f"{place}/" not in text, f"{path.relative_to(ROOT)} mentions {place}"


def run_python(code: str) -> str:
    """What a fresh interpreter prints that runs ``code`` with the package on its path."""
    prelude = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n"
    done = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


HEAVY = {"jax", "jaxlib", "numpy", "onnx", "onnx_ir", "onnxruntime", "torch", "sympy", "ml_dtypes", "jinja2"}


def test_import_is_lazy() -> None:
    """``import onnxproof`` costs no import of what its commands need, nor of what the command line is made with."""
    code = f"import onnxproof\nprint(sorted({HEAVY | {'typer', 'rich', 'pydantic'}} & set(sys.modules)))"
    assert run_python(code) == "[]"


@pytest.mark.parametrize("command", ["", "export", "doctor", "inspect", "quantize"])
def test_help_is_lazy(command: str) -> None:
    """Options of all commands, and their help, need neither JAX nor ONNX nor NumPy."""
    code = (
        "import contextlib, io\n"
        "from onnxproof.cli import application\n"
        "with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        f"    application()({[command] if command else []} + ['--help'], standalone_mode=False)\n"
        "assert 'Usage' in out.getvalue()\n"
        f"print(sorted({HEAVY} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


def test_export_imports_no_framework_and_no_runtime() -> None:
    code = (
        "from onnxproof import to_onnx\n"
        "to_onnx(lambda x: x + 1, [('B', 3)])\n"
        "print(sorted({'flax', 'equinox', 'haiku', 'torch', 'sklearn', 'sympy'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


def test_onnx_ir_loads_sympy_when_it_needs_it() -> None:
    code = (
        "from onnxproof import to_onnx\n"
        "import onnx_ir as ir\n"
        "print(ir.SymbolicDim('max(B, 3) + 1') + 1)\n"
        "import sympy, sympy.abc\n"
        "print(ir.SymbolicDim(sympy.Symbol('B') * 2) * 2, sympy.__name__)"
    )
    assert run_python(code) == "Max(3, B) + 2\n4*B sympy"
