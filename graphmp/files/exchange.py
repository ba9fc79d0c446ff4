"""Renaming folders so that a process that ends at any moment leaves the old one or the new one."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any, Optional

_HERE = -100  # AT_FDCWD: relative paths start from the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE of <linux/fs.h>


@functools.lru_cache(maxsize=None)
def _renameat2() -> Optional[Any]:
    """The C library's renameat2: on Linux, in glibc since 2.28 and in musl since 1.2.6."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]
    return function


def exchange(one: pathlib.Path, other: pathlib.Path) -> None:
    """Give two existing folders of one file system each other's names, in one step.

    Raises:
        OSError: the system or the file system can't, or refuses; nothing has changed then.
    """
    function = _renameat2()
    if function is None:
        raise OSError(38, os.strerror(38))  # ENOSYS
    if function(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def sync(path: pathlib.Path) -> None:
    """Have a folder's entries written to the disk, where it can be read and its file system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != 22:  # EINVAL: some network file systems have no fsync of folders
            raise
    finally:
        os.close(descriptor)
