"""Writing single files so that a kill at any moment leaves the old one or the new one."""

from __future__ import annotations

import fcntl
import os
import pathlib
import stat

from graphmp.files import staging
from graphmp.files.interrupts import deferred
from graphmp.files.reading import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file under a name that can't be guessed, in the same folder, and rename it.

    Links are followed. Devices and pipes are written to and not replaced: a rename would destroy
    /dev/null.

    Raises:
        GraphmpError: GMP004 if it can't be written; the old file is then unchanged.
    """
    target = pathlib.Path(os.path.realpath(path))
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            _write_to(target, data)
        else:
            _replace(target, data)
    except OSError as error:
        raise staging.not_written(path, error) from None


def _replace(target: pathlib.Path, data: bytes) -> None:
    for path in staging.leftovers(target, target.parent):
        staging.removed(path)
    stage = staging.staged(target, target.parent)
    try:
        staging.write_new(stage, data)
        with deferred():
            staging.moved_into_place(stage, target)
    finally:
        staging.removed(stage)


def _write_to(target: pathlib.Path, data: bytes) -> None:
    """Write to a device or pipe; to a pipe that nobody reads is an error, not a wait."""
    descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
