"""Checks of outputs before any work: places, links, inputs."""

from __future__ import annotations

import os

import pytest

from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_file, check_folder, check_kept
from tests.support.interrupted import entries

pytestmark = pytest.mark.unit


def refusal(check, *args):
    with pytest.raises(GraphmpError) as caught:
        check(*args)
    assert (caught.value.code, caught.value.exit_status) == ("GMP004", 2)
    return caught.value.message


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_a_check_writes_nothing(place):
    (place / ".graphmp_probe").symlink_to("file")
    check_folder(place / "new" / "out", ["a"])
    check_folder(place / "out", ["a"])
    check_file(place / "new.json")
    assert entries(place) == [".graphmp_probe", "file", "out"]
    assert (place / "file").read_bytes() == b"precious"


@pytest.mark.parametrize(
    "name, why",
    [
        ("file", "is not a folder"),
        ("file/out", "is not a folder"),
        ("x" * 300, "File name too long"),
        ("d/" * 2500, "File name too long"),
        ("null\0character", "null"),
    ],
)
def test_a_place_that_is_none(place, name, why):
    assert why in refusal(check_folder, place / name, ["a"])


def test_a_loop_of_links(place):
    (place / "loop").symlink_to("loop")
    assert "is not a folder" in refusal(check_folder, place / "loop", ["a"])


def test_a_folder_that_is_read_only(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "Permission denied" in refusal(check_folder, place / "out", ["a"])


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_stands_in_the_place_of_a_file(place, kind):
    if kind == "link":
        (place / "out" / "a").symlink_to("../file")
    elif kind == "folder":
        (place / "out" / "a").mkdir()
    else:
        os.mkfifo(str(place / "out" / "a"))
    assert "it is " in refusal(check_folder, place / "out", ["a"])
    check_folder(place / "out", ["b"])


def test_inputs_are_not_replaced(place):
    (place / "out" / "a").write_bytes(b"")
    (place / "link").symlink_to("out/a")
    for name in ("out/a", str(place / "out" / "a"), "link", "out/../out/a"):
        assert "would be replaced" in refusal(check_folder, place / "out", ["a"], ["", name])
        assert "would be replaced" in refusal(check_file, place / "out" / "a", [name])
    check_folder(place / "out", ["b"], ["out/a"])


def test_a_file_needs_its_folder(place):
    assert "there is no folder" in refusal(check_file, place / "gone" / "f")
    assert "it is a folder" in refusal(check_file, place / "out")
    check_file(place / "out" / "f")


def test_a_file_that_is_kept_is_written_only_where_there_is_none(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    check_kept(place / "file")
    assert "would be replaced" in refusal(check_kept, place / "file", ["file"])
    assert "Permission denied" in refusal(check_kept, place / "new")
    assert "it is a folder" in refusal(check_kept, place / "out")
