"""Flagfiles: what stands later wins, and what is no flagfile."""

from __future__ import annotations

import os

import pytest

from graphmp.cli import convert, run
from graphmp.cli.flagfiles import expanded
from graphmp.cli.parser import build_parser
from graphmp.errors import GraphmpError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two").write_text("# a comment\n\n--output=two\n--loss_scale=2\n")
    (tmp_path / "three").write_text("--flagfile=two\n// another\n  --output=three  \n")
    return tmp_path


@pytest.mark.parametrize(
    "given, output",
    [
        (["-o", "one", "--flagfile=two"], "two"),
        (["--flagfile=two", "-o", "one"], "one"),
        (["--flagfile=two", "--flagfile=three"], "three"),
        (["--flagfile=three", "--flagfile", "two"], "two"),
        (["-flagfile=three", "--output=one"], "one"),
    ],
)
def test_what_stands_later_wins(given, output):
    args = build_parser({"convert": convert}, "0").parse_args(["convert", "g.meta", *given])
    assert args.output == output
    assert convert.FLAGS["loss_scale"].value == "2"


def refusal(*arguments):
    with pytest.raises(GraphmpError) as caught:
        expanded(arguments)
    return str(caught.value)


def test_what_is_no_flagfile(folder):
    (folder / "self").write_text("--flagfile=self")
    (folder / "bytes").write_bytes(b"\xff")
    (folder / "null").write_bytes(b"a\0b")
    (folder / "many").write_text("-x\n" * 20000)
    os.symlink("/dev/zero", str(folder / "zero"))
    assert refusal("--flagfile").startswith("GMP001")
    assert "names itself" in refusal("--flagfile=self")
    assert "GMP003: --flagfile=gone" in refusal("--flagfile=gone")
    assert "is not UTF-8" in refusal("--flagfile=bytes")
    assert "it is no text" in refusal("--flagfile=null")
    assert "more than 10,000 lines" in refusal("--flagfile=many")
    assert "it is a device" in refusal("--flagfile=zero")


@pytest.mark.parametrize(
    "before",
    [
        [],
        ["--flagfile=four"],
        ["--flagfile", "four"],
        ["--on_error", "float32"],
        ["--on_e", "float32"],
        ["--report=two", "--tune", "--engine_strict"],
        ["--loss_scale", "4"],
    ],
)
@pytest.mark.parametrize("script", [["own.py"], ["-m", "own"], ["-mown"], ["--", "own.py"]])
def test_flagfiles_behind_a_script_are_the_scripts(folder, before, script):
    (folder / "four").write_text("--loss_scale=4\n")
    behind = ["--flagfile=own.flags", "--flagfile", "two"]
    args = build_parser({"run": run}, "0").parse_args(["run", *before, *script, *behind])
    own = ["own"] if script[0].startswith("-m") else script
    assert (args.module or args.script) == [*own, *behind]
    assert not (args.module and args.script)
    named = "four" in str(before) or "4" in before
    assert run.FLAGS["loss_scale"].value == ("4" if named else "")
