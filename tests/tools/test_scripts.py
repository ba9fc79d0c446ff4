"""tools/scripts.py: a recipe's copy of a repository, runs of it, and the table."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.places import TOOLS


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import scripts

    return scripts


@pytest.fixture
def clone(tmp_path):
    """A repository with one commit, and its recipe."""
    folder = tmp_path / "clones" / "some" / "project"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("data = '/home/me/data'\n")

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=str(folder), stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode().strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return {"project": "some/project", "commit": git("rev-parse", "HEAD"), "kind": "images"}


def test_a_commit_is_copied_with_the_edits(scripts, clone, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    edits = [["train.py", "/home/me/data", "data"]]
    scripts.checked_out(dict(clone, edits=edits), tmp_path / "clones", copy)
    assert (copy / "train.py").read_text() == "data = 'data'\n"
    with pytest.raises(SystemExit, match="which is to be edited"):
        edits = [["train.py", "/elsewhere", "data"]]
        scripts.checked_out(dict(clone, edits=edits), tmp_path / "clones", copy)
    with pytest.raises(SystemExit, match=r"clone https://github\.com/other/project there"):
        scripts.checked_out(dict(clone, project="other/project"), tmp_path / "clones", copy)


def test_a_script_is_stopped_and_its_losses_are_read(scripts, tmp_path):
    text = "print('loss: 0.5\\nloss: 0.25', flush=True)\nwhile True: pass"
    ran = scripts.watched([sys.executable, "-c", text], tmp_path, {}, 0.5, "^loss: ([\\d.]+)")
    assert ran.stopped and ran.losses == [0.5, 0.25] and 0.5 <= ran.seconds < 20
    assert scripts._ended(ran) == ""
    text = "import time\ntime.sleep(600)"
    ran = scripts.watched([sys.executable, "-c", text], tmp_path, {}, 0.05, "")
    assert ran.stopped and ran.seconds < 20
    ran = scripts.watched([sys.executable, "-c", "raise ValueError('so')"], tmp_path, {}, 30, "")
    assert not ran.stopped and scripts._ended(ran) == "ValueError: so"


@pytest.mark.unit
def test_made_up_data(scripts, tmp_path):
    import script_data

    for kind, make in script_data.KINDS.items():
        (tmp_path / kind).mkdir()
        make(tmp_path / kind)
    assert len(list((tmp_path / "mnist").iterdir())) == 4
    assert (tmp_path / "pairs" / "0.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.unit
def test_recipes_for_each_tensorflow(scripts):
    new, old = (
        {recipe["project"]: recipe for recipe in scripts.the_recipes(version)}
        for version in ("2.21.0", "1.15.5")
    )
    assert set(old) == {name for name in new if not new[name].get("only_on_tensorflow_2")}
    differ = [name for name in old if new[name]["commit"] != old[name]["commit"]]
    assert differ == [name for name in old if "on_tensorflow_1" in new[name]] != []
    kinds = {kind for recipe in new.values() for kind, _ in recipe.get("data", ())}
    assert kinds <= set(scripts.script_data.KINDS)


@pytest.mark.unit
def test_the_table_counts_what_runs(scripts):
    row = {
        "float32": "", "float16": "", "converted": "6 of 6", "steps": 10, "skipped": 1,
        "losses": [[2.0, 1.0], [2.0, 1.01]], "seconds": [9.1, 11.0], "runs": True,
    }  # fmt: skip
    failed = dict(row, float16="ValueError: a | b", converted="", losses=[[], []], runs=False)
    rows = {"tkipf/gcn": row, "cbfinn/maml": failed}
    text = scripts.page([{"tensorflow": "2.21.0", "made": "2026-11-24", "rows": rows}])
    assert "- TensorFlow 2.21.0: 1 of 2 run." in text
    assert "| 6 of 6 | 10, 1 | 2 to 1 | 2 to 1.01 | 9.1, 11.0 | none |" in text
    assert "ValueError: a \\| b" in text


def test_code_of_python_2_is_converted_first(scripts, clone, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    folder = tmp_path / "clones" / "some" / "project"
    (folder / "old.py").write_text("print 'old', 1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["add", "."], ["commit", "-q", "-m", "second"]):
        subprocess.run(["git", *identity, *words], cwd=str(folder), check=True)
    recipe = dict(clone, commit="HEAD", python_2=["old.py"], edits=[["old.py", "'old'", "'new'"]])
    scripts.checked_out(recipe, tmp_path / "clones", copy)
    assert (copy / "old.py").read_text() == "print('new', 1)\n"


def test_every_kind_of_data_can_be_made(scripts, tmp_path):
    import script_data

    assert {"mnist", "bought", "spoken", "permuted"} <= set(script_data.KINDS)
    for kind in ("segmented", "written", "people", "bought", "visits", "voices", "articles",
                 "lines", "named", "architectures", "domains", "scenes", "turned",
                 "subwords"):  # fmt: skip
        folder = tmp_path / kind
        folder.mkdir()
        script_data.KINDS[kind](folder)
        script_data.KINDS[kind](folder)  # a recipe may name one folder twice
        assert list(folder.iterdir()), kind
