"""Output folders: the new files or the old ones, whatever happens, and the files of others."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import stat

import pytest

from graphmp.errors import GraphmpError
from graphmp.files import exchange as exchanges
from graphmp.files import folder as folders
from graphmp.files import staging
from graphmp.files.folder import PENDING, refuse_half_replaced, write_files
from graphmp.files.outputs import check_folder
from tests.support.interrupted import acting_at, entries, fails, interrupts

OLD = {"a.txt": b"old a", "b.txt": b"old b"}
NEW = {"a.txt": b"new a", "b.txt": b"new b"}
MINE = {"notes.txt": b"mine", "sub/deep/more.txt": b"mine too"}
CALLS = 60  # more than a write makes


@pytest.fixture(params=["exchange", "inside", "no_exchange"])
def target(request, tmp_path, monkeypatch):
    """A folder with an old set and a user's files, each way to replace it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # slow; it is called all the same
    path = tmp_path / "out"
    for name, data in {**OLD, **MINE}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    if request.param == "inside":
        monkeypatch.chdir(path)
    elif request.param == "no_exchange":
        monkeypatch.setattr(exchanges, "_renameat2", lambda: None)
    return path


def own(path):
    return {name: (path / name).read_bytes() for name in NEW if (path / name).exists()}


def users(path):
    return {name: (path / name).read_bytes() for name in MINE if (path / name).exists()}


@pytest.mark.unit
def test_files_are_replaced_and_others_stay(target):
    write_files(target, NEW)
    assert own(target) == NEW and users(target) == MINE
    assert entries(target.parent) == ["out"]
    assert entries(target) == ["a.txt", "b.txt", "notes.txt", "sub"]


@pytest.mark.unit
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_at_any_call_leaves_the_old_or_the_new(target, number):
    for call in range(CALLS):
        done = False
        try:
            with acting_at(call, fails(number)) as count:
                write_files(target, NEW)
            done = True
        except GraphmpError as error:
            assert error.code == "GMP004"
        if not folders.is_half_replaced(target):
            assert own(target) == NEW if done else own(target) in (OLD, NEW)
        assert users(target) == MINE
        write_files(target, OLD)
        assert own(target) == OLD and users(target) == MINE
        assert entries(target.parent) == ["out"] and PENDING not in entries(target)
        if count[0] <= call:
            return
    raise AssertionError("a write makes more calls than were tried")


@pytest.mark.unit
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_call_leaves_nothing_behind(target, after):
    for call in range(CALLS):
        write_files(target, OLD)
        try:
            with acting_at(call, interrupts, after) as count:
                write_files(target, NEW)
        except KeyboardInterrupt:
            assert own(target) in (OLD, NEW)
        assert users(target) == MINE and entries(target.parent) == ["out"]
        assert [name for name in entries(target) if name.startswith(".")] == []
        if count[0] <= call:
            return


def killed(target, call, after):
    """Write in a fork that is killed at a call. Returns whether it was."""
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    try:
        with acting_at(call, lambda *_: os.kill(os.getpid(), signal.SIGKILL), after):
            write_files(target, NEW)
    finally:
        os._exit(0)


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_call_leaves_the_old_or_the_new(target, after):
    call, was_killed = 0, True
    while was_killed:
        was_killed = killed(target, call, after)
        if folders.is_half_replaced(target):
            with pytest.raises(GraphmpError, match=r"GMP003.*holds old and new files"):
                refuse_half_replaced(target / "a.txt")
        else:
            assert own(target) in (OLD, NEW)
        write_files(target, OLD)  # the next run cleans up
        assert own(target) == OLD and users(target) == MINE, call
        assert entries(target.parent) == ["out"] and PENDING not in entries(target)
        call += 1
    assert call > 10


def test_a_writer_that_is_not_whole_is_found_out(tmp_path, monkeypatch):
    """The test above would see a mixed set."""

    def one_by_one(target, contents):
        for name, data in contents.items():
            staging.write_new(target / ("." + name), data)
            os.replace(target / ("." + name), target / name)

    (tmp_path / "out").mkdir()
    for name, data in OLD.items():
        (tmp_path / "out" / name).write_bytes(data)
    monkeypatch.setitem(globals(), "write_files", one_by_one)
    found = []
    for call in range(20):
        for name in NEW:
            staging.removed(tmp_path / "out" / ("." + name))
        killed(tmp_path / "out", call, True)
        found.append(own(tmp_path / "out"))
    assert any(each not in (OLD, NEW) for each in found)


@pytest.mark.unit
def test_all_is_synced_before_it_takes_a_place(tmp_path, monkeypatch):
    said = []
    exchange, fsync = folders.exchange, os.fsync

    def noted(descriptor):
        said.append(os.readlink("/proc/self/fd/%d" % descriptor).split("/")[-1])
        fsync(descriptor)

    def exchanged(one, other):
        said.append("exchange")
        exchange(one, other)

    write_files(tmp_path / "out", OLD)
    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(folders, "exchange", exchanged)
    write_files(tmp_path / "out", NEW)
    stage = said[2]
    assert said == ["a.txt", "b.txt", stage, stage, "exchange", tmp_path.name]


@pytest.mark.unit
def test_what_a_user_adds_meanwhile_stays(tmp_path, monkeypatch):
    target = tmp_path / "out"
    write_files(target, OLD)
    (target / "changed.txt").write_bytes(b"before")
    exchange = folders.exchange

    def later(one, other):
        (target / "added.txt").write_bytes(b"added")
        (target / "changed.new").write_bytes(b"after")
        os.replace(target / "changed.new", target / "changed.txt")
        exchange(one, other)

    monkeypatch.setattr(folders, "exchange", later)
    write_files(target, NEW)
    assert own(target) == NEW
    assert (target / "added.txt").read_bytes() == b"added"
    assert (target / "changed.txt").read_bytes() == b"after"


@pytest.mark.unit
def test_modes_are_those_of_the_umask_and_a_folder_keeps_its_own(tmp_path):
    before = os.umask(0o027)
    try:
        write_files(tmp_path / "new" / "out", NEW)
        assert stat.S_IMODE((tmp_path / "new" / "out").stat().st_mode) == 0o750
        assert stat.S_IMODE((tmp_path / "new" / "out" / "a.txt").stat().st_mode) == 0o640
        (tmp_path / "new" / "out").chmod(0o700)
        write_files(tmp_path / "new" / "out", OLD)
        assert stat.S_IMODE((tmp_path / "new" / "out").stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.unit
def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_files(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink() and own(tmp_path / "real") == NEW


@pytest.mark.unit
def test_links_of_a_user_are_kept_and_not_followed(tmp_path):
    (tmp_path / "precious").write_bytes(b"precious")
    write_files(tmp_path / "out", OLD)
    (tmp_path / "out" / "link").symlink_to("../precious")
    write_files(tmp_path / "out", NEW)
    assert (tmp_path / "out" / "link").is_symlink()
    assert (tmp_path / "precious").read_bytes() == b"precious"


@pytest.mark.unit
def test_parents_that_were_made_are_removed_after_an_error(tmp_path):
    with pytest.raises(GraphmpError, match="No space left"), acting_at(6, fails(errno.ENOSPC)):
        write_files(tmp_path / "a" / "b" / "out", NEW)
    assert entries(tmp_path) == []


@pytest.mark.unit
def test_what_others_work_on_is_left_alone(tmp_path):
    """A staging folder with a lock, one of another target, and a link of such a name."""
    target = tmp_path / "out"
    write_files(target, OLD)
    with staging.new_folder(target, tmp_path) as stage:
        other = staging.staged(tmp_path / "another", tmp_path)
        other.mkdir()
        link = staging.staged(target, tmp_path)
        link.symlink_to(tmp_path)
        write_files(target, NEW)
        assert stage.is_dir() and other.is_dir() and link.is_symlink()
    assert not stage.exists()


@pytest.mark.unit
def test_a_killed_exchange_gives_back_what_only_the_old_folder_has(tmp_path):
    target = tmp_path / "out"
    write_files(target, NEW)
    old = staging.staged(target, tmp_path)
    old.mkdir()
    (old / "a.txt").write_bytes(b"old a")
    (old / "late.txt").write_bytes(b"mine")
    write_files(target, NEW)
    assert (target / "late.txt").read_bytes() == b"mine"
    assert own(target) == NEW and entries(tmp_path) == ["out"]


@pytest.mark.unit
def test_a_half_replaced_set_is_completed_before_an_input_is_read(tmp_path):
    target = tmp_path / "out"
    write_files(target, {"a.txt": b"new a", "b.txt": b"old b"})
    (target / PENDING).mkdir()
    (target / PENDING / "b.txt").write_bytes(b"new b")
    (target / PENDING / "of_another.txt").write_bytes(b"?")
    check_folder(target, list(NEW))
    assert own(target) == NEW and entries(target) == ["a.txt", "b.txt"]


@pytest.mark.unit
def test_another_writer_is_waited_out_by_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(exchanges, "_renameat2", lambda: None)
    target = tmp_path / "out"
    write_files(target, OLD)
    descriptor = os.open(str(target), os.O_RDONLY)
    try:
        assert staging.lock(descriptor)
        with pytest.raises(GraphmpError, match=r"GMP004.*another graphmp writes there"):
            write_files(target, NEW)
    finally:
        os.close(descriptor)
    assert own(target) == OLD


@pytest.mark.unit
def test_many_entries_are_not_linked(tmp_path, monkeypatch):
    monkeypatch.setattr("graphmp.files.carrying.MOST", 1)
    target = tmp_path / "out"
    write_files(target, OLD)
    for name in ("x", "y", "z"):
        (target / name).write_bytes(b"")
    before = target.stat().st_ino
    write_files(target, NEW)
    assert target.stat().st_ino == before and own(target) == NEW
    assert entries(pathlib.Path(target)) == ["a.txt", "b.txt", "x", "y", "z"]
