"""Writing the files of one output folder so that a kill at any moment leaves the old or the new.

1. A new folder beside the old one gets the new files, and hard links to what else is in the old
   one. All is synced. The two exchange their names in one system call; the old one is removed.
2. Where that can't be (a mount, the working folder, another's folder, a parent that can't be
   written, a file system without the call) the new files are synced in a new folder inside. Renamed
   to `PENDING` they are the new set; then each is renamed into its place. As long as there is a
   `PENDING`, readers refuse the folder, and the next writer moves the rest into place first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import stat
from typing import Container, Iterator, List, Mapping

from graphmp.errors import GraphmpError
from graphmp.files import staging
from graphmp.files.carrying import NotLinked, linked, rescued
from graphmp.files.exchange import exchange, sync
from graphmp.files.interrupts import deferred

PENDING = ".graphmp-pending"


def write_files(folder: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is created if missing: all are new, or all are the old ones.

    Other files in the folder stay.

    Raises:
        GraphmpError: GMP004 if the folder can't be written; it is unchanged then.
    """
    target = pathlib.Path(os.path.realpath(folder))
    try:
        with _parents(target.parent):
            clean(target, contents)
            if not _may_be_replaced(target) or not _write_beside(target, contents):
                _write_inside(target, contents)
    except OSError as error:
        raise staging.not_written(folder, error) from None


def is_half_replaced(folder: pathlib.Path) -> bool:
    """Whether a process was killed while it moved new files into this folder."""
    return os.path.lexists(folder / PENDING)


def refuse_half_replaced(path: pathlib.Path) -> None:
    """Raise GMP003 if the file at `path` may be of another set than the files beside it."""
    if is_half_replaced(path.parent):
        raise GraphmpError(
            "GMP003",
            "%s: its folder holds old and new files: a graphmp was killed while it wrote them; run"
            " that command again, which completes the new ones first" % path,
        )


def clean(target: pathlib.Path, own: Container[str]) -> None:
    """Complete what was half replaced in a folder, and remove what kills left in and beside it.

    Args:
        target: the folder, which may be missing; no link.
        own: names of the files that are written into it; others are somebody else's.
    """
    exists = target.is_dir()
    if exists and is_half_replaced(target) and os.access(target, os.W_OK):
        with _locked(target), deferred():
            _complete(target, own)
    for parent in [target.parent] + [target] * exists:
        for path in staging.leftovers(target, parent):
            with deferred():
                if exists and path.is_dir() and parent != target:
                    rescued(path, target, own, wins=False)
                staging.removed(path)


@contextlib.contextmanager
def _parents(folder: pathlib.Path) -> Iterator[None]:
    """Make the missing folders up to `folder`; removed again if the block fails."""
    made: List[pathlib.Path] = []
    try:
        for path in [*reversed(folder.parents), folder]:
            if not path.is_dir():
                made.append(path)
                os.mkdir(path)
        yield
    except BaseException:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        raise


def _may_be_replaced(target: pathlib.Path) -> bool:
    """Whether a new folder may take the place of this one without harm to others' use of it."""
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return True
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not os.path.ismount(target)
        and not _is_used(target)
    )


def _is_used(target: pathlib.Path) -> bool:
    """Whether this process works in the folder, or in one below it."""
    try:
        here = pathlib.Path.cwd()
    except FileNotFoundError:
        return False
    return target == here or target in here.parents


def _write_beside(target: pathlib.Path, contents: Mapping[str, bytes]) -> bool:
    """Write by exchange; False, with nothing changed, if that can't be done here."""
    exists = target.is_dir()
    with staging.new_folder(target, target.parent) as stage:
        if exists:
            shutil.copystat(target, stage)
            with contextlib.suppress(OSError):  # refused below if it matters
                os.chown(stage, -1, os.stat(target).st_gid)
            if os.stat(stage).st_gid != os.stat(target).st_gid:
                return False
        _write_all(stage, contents)
        with deferred():
            try:
                if exists:
                    linked(target, stage, contents)
                    sync(stage)
                    exchange(stage, target)
                else:
                    os.rename(stage, target)
            except (OSError, NotLinked):
                return False
            sync(target.parent)
            if exists:
                _keep_new_entries(stage, target, contents)
    return True


def _keep_new_entries(
    old: pathlib.Path, target: pathlib.Path, contents: Mapping[str, bytes]
) -> None:
    """Move what came into the old folder since its entries were linked; if that fails, go back."""
    try:
        rescued(old, target, contents, wins=True)
    except OSError:
        exchange(old, target)
        raise
    staging.removed(old)


def _write_inside(target: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    if not target.is_dir():
        os.mkdir(target)
    with _locked(target), staging.new_folder(target, target) as stage:
        _write_all(stage, contents)
        with deferred():
            os.rename(stage, target / PENDING)
            sync(target)
            _complete(target, contents)


def _write_all(stage: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        staging.write_new(stage / name, data)
    sync(stage)


def _complete(target: pathlib.Path, own: Container[str]) -> None:
    """Move the files of `PENDING` into their places."""
    pending = target / PENDING
    if stat.S_ISDIR(os.lstat(pending).st_mode):
        for name in sorted(os.listdir(pending)):
            if name in own:
                os.replace(pending / name, target / name)
        sync(target)
    staging.removed(pending)


@contextlib.contextmanager
def _locked(target: pathlib.Path) -> Iterator[None]:
    """Keep other processes from changing the same folder.

    Raises:
        OSError: one does at this moment.
    """
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not staging.lock(descriptor):
            raise OSError(errno.EBUSY, "another graphmp writes there at this moment")
        yield
    finally:
        os.close(descriptor)
