"""Messages where a command is given a file of another kind."""

from __future__ import annotations

import pytest

from graphmp.conversion.source import read_tree
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph


@pytest.mark.parametrize(
    "text", ["print 'hello'\n", "def f(x):\n  print x\n", "exec 'x = 1'\n", "mode = 0644\n"]
)
def test_python_2_is_named_with_its_cure(tmp_path, text):
    path = tmp_path / "old.py"
    path.write_text(text)
    with pytest.raises(
        GraphmpError,
        match=r"^GMP005: .*old.py:\d+: .*; Python 2 code: `2to3 -w .*old.py` makes Python 3 of it",
    ):
        read_tree(path)


@pytest.mark.unit
@pytest.mark.parametrize("text", ["def f(:\n", "x = (1,\n", "for i in range(3) print(i)\n"])
def test_another_syntax_error_is_not_called_python_2(tmp_path, text):
    path = tmp_path / "new.py"
    path.write_text(text)
    with pytest.raises(GraphmpError) as caught:
        read_tree(path)
    assert "GMP005" in str(caught.value) and "Python 2" not in str(caught.value)


@pytest.mark.unit
def test_a_python_file_in_place_of_a_graph_is_named_with_its_cure(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("import tensorflow as tf\n")
    with pytest.raises(
        GraphmpError,
        match=(
            r"GMP008: .*model.py: found a Python file; accepted .*; `graphmp convert .*model.py`"
            r" writes the graph"
        ),
    ):
        read_graph(path)
