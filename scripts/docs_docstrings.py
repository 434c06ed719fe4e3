"""An extension of griffe: what docstrings write as reStructuredText becomes Markdown.

mkdocs.yml names this file; it is loaded by ``make docs`` only.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|mod|meth|data|exc):`~?([^`]+)`")


class Plain(griffe.Extension):
    """``:func:`name``` becomes code; ``a, b: text`` in Args becomes an entry for each name; overloads are left out."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in pkg.modules.values():
            for function in module.functions.values():
                function.overloads = None  # they repeat the signature that follows

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = ROLE.sub(r"`\1`", obj.docstring.value).replace("``", "`")
        obj.docstring.value = re.sub(r"^( {4})([\w*]+(?:, [\w*]+)+): (.*)$", _apart, text, flags=re.MULTILINE)


def _apart(found: re.Match[str]) -> str:
    """The entry under the first name; the others refer to it."""
    indent, names, text = found.groups()
    first, *others = names.split(", ")
    return "\n".join(
        [
            *(f"{indent}{name}: as `{others[-1]}`." for name in [first, *others[:-1]]),
            f"{indent}{others[-1]}: {text}",
        ]
    )
