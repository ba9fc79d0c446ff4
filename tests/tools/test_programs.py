"""The programs of tools/ start from a checkout."""

from __future__ import annotations

import re

import pytest

from tests.support.places import TOOLS

PROGRAMS = [path for path in sorted(TOOLS.glob("*.py")) if "__main__" in path.read_text("utf-8")]


@pytest.mark.unit
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_finds_what_it_imports_in_a_checkout(path):
    """Python's path has its folder; the folder above only once the program puts it there."""
    before = path.read_text(encoding="utf-8").partition("\nsys.path")[0]
    assert re.findall(r"^(?:from|import) (?:graphmp|tools)\b.*", before, re.MULTILINE) == []
