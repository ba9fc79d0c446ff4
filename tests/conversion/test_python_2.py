"""Python 2 code is named as that, in one line."""

from __future__ import annotations

import pytest

from graphmp.conversion import python_2, source
from graphmp.errors import GraphmpError

OLD = {
    "print": 'print "a"',
    "except": "try:\n    pass\nexcept ValueError, error:\n    pass",
    "raise": 'raise ValueError, "text"',
    "octal": "x = 0777",
    "not equal": "x = 5 <> 3",
    "repr": "x = `3`",
    "exec": 'exec "x = 3" in {}',
    "tabs": "if 1:\n\tx = 1\n        y = 2",
}
NEW = {"bracket": "x = (1\ny = 2", "indent": "def f():\nx = 1", "keyword": "def = 3"}


@pytest.mark.unit
@pytest.mark.parametrize("name", OLD)
def test_its_syntax(tmp_path, name):
    (tmp_path / "old.py").write_text(OLD[name] + "\n")
    with pytest.raises(GraphmpError, match=r"GMP005: .*old.py:.*Python 2 code: `2to3 -w .*old.py`"):
        source.read_tree(tmp_path / "old.py")


@pytest.mark.unit
@pytest.mark.parametrize("name", NEW)
def test_a_wrong_file_is_not_called_old(tmp_path, name):
    (tmp_path / "new.py").write_text(NEW[name] + "\n")
    with pytest.raises(GraphmpError) as caught:
        source.read_tree(tmp_path / "new.py")
    assert caught.value.code == "GMP005" and "Python 2" not in caught.value.message


ENDINGS = {
    "builtin": "xrange(3)",
    "module": "import cPickle",
    "method": "{}.iteritems()",
    "function": "from itertools import izip",
    "print": "import sys\nprint >>sys.stderr",
}


@pytest.mark.unit
@pytest.mark.parametrize("name", ENDINGS)
def test_an_error_at_run_time(name):
    with pytest.raises(Exception) as caught:
        exec(ENDINGS[name], {})
    assert "`2to3 -w old.py`" in python_2.hint(caught.value, "old.py")


@pytest.mark.unit
@pytest.mark.parametrize("text", ["import nothing_here", "nothing", "[].iteritems()", "1 >> 'a'"])
def test_another_error_at_run_time(text):
    with pytest.raises(Exception) as caught:
        exec(text, {})
    assert python_2.hint(caught.value, "old.py") == ""


@pytest.mark.parametrize("code, said", [(OLD["except"], True), ("xrange(3)", False)])
def test_an_imported_module_of_python_2(forks, tmp_path, monkeypatch, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text(code + "\n")
    ended = forks.run("train.py")
    assert ended.status == 1
    (line,) = [line for line in ended.said if "`2to3 -w " in line and "helper.py`" in line]
    assert line.startswith("error GMP005") is said
    assert ("Traceback" in ended.err) is not said
