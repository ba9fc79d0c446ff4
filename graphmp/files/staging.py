"""New files and folders before they take the place of old ones, and what a kill left of them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import secrets
import stat
from typing import Iterator, List

from graphmp.errors import GraphmpError
from graphmp.files.exchange import sync
from graphmp.files.interrupts import deferred

_NAME = ".graphmp-%s-%s"  # a name that can't be guessed, and the name of the target, hashed
_TRIES = 10


def staged(target: pathlib.Path, parent: pathlib.Path) -> pathlib.Path:
    """A new name in `parent` for what shall become `target`."""
    return parent / (_NAME % (secrets.token_hex(16), _hashed(target)))


def _hashed(target: pathlib.Path) -> str:
    return hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]


@contextlib.contextmanager
def new_folder(target: pathlib.Path, parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new folder in `parent`, locked; what has its name at the end is removed.

    The lock tells the clean-up of other processes that its maker lives.
    """
    path, descriptor = staged(target, parent), -1
    try:
        for _ in range(_TRIES):
            os.mkdir(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            lock(descriptor)
            with contextlib.suppress(FileNotFoundError):  # cleaned up before it was locked
                if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                    break
            os.close(descriptor)
            descriptor = -1
        yield path
    finally:
        try:
            with deferred():
                removed(path)
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def write_new(path: pathlib.Path, data: bytes) -> None:
    """Write a file that doesn't exist yet, and have it on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _no_follow(), 0o666)
    try:
        lock(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _no_follow() -> int:
    return getattr(os, "O_NOFOLLOW", 0)


def lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed. Returns False if another process has it.

    Where the file system has no locks it does nothing.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def leftovers(target: pathlib.Path, parent: pathlib.Path) -> List[pathlib.Path]:
    """Files that killed processes of this user left in `parent` on their way to `target`."""
    if not os.access(parent, os.R_OK):
        return []
    name = re.compile(re.escape(_NAME) % ("[0-9a-f]{32}", _hashed(target)))
    with os.scandir(parent) as entries:
        found = [parent / entry.name for entry in entries if name.fullmatch(entry.name)]
    return [path for path in sorted(found) if _is_abandoned(path)]


def _is_abandoned(path: pathlib.Path) -> bool:
    """Whether it is this user's own, no link, and locked by nobody."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _no_follow())
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
        if not kind or status.st_uid != os.geteuid():
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def removed(path: pathlib.Path) -> None:
    """Remove a file, or a folder with all that is in it, as far as that is possible."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            removed(path / name)
        os.rmdir(path)


def moved_into_place(stage: pathlib.Path, target: pathlib.Path) -> None:
    """Give a file its final name, and have that on the disk."""
    os.replace(stage, target)
    sync(target.parent)


def not_written(path: object, error: Exception) -> GraphmpError:
    """The error of an output that can't be written."""
    why = getattr(error, "strerror", None) or error
    return GraphmpError("GMP004", "%s: cannot be written: %s" % (path, why))
