"""How docstrings begin."""

from __future__ import annotations

import ast

import pytest

from tests.support.places import ROOT

MODULES = [path for room in ("graphmp", "tools") for path in sorted((ROOT / room).rglob("*.py"))]


def without_a_subject(source):
    """The docstrings that begin with `What`, not with their subject."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(n) for n in ast.walk(ast.parse(source)) if isinstance(n, nodes)]
    return [text for text in texts if text and text.startswith("What ")]


@pytest.mark.unit
def test_docstrings_begin_with_their_subject():
    found = {str(path): without_a_subject(path.read_text("utf-8")) for path in MODULES}
    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.unit
def test_a_docstring_without_a_subject_is_found():
    source = 'def f():\n    """What there is."""\n\ndef g():\n    """The rest."""'
    assert without_a_subject(source) == ["What there is."]
