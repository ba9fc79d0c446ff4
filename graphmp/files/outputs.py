"""Checks of output files and folders before any work; nothing stays of them."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import stat
from typing import Iterable, Sequence

from graphmp.errors import GraphmpError
from graphmp.files import folder as folders
from graphmp.files import staging

_LONGEST_NAME = 255  # bytes, on nearly all file systems
_LONG = "x" * 32  # longer than the name of any file that is written into a folder
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISREG, ""),
)


def check_folder(
    folder: pathlib.Path, names: Sequence[str] = (), inputs: Iterable[str] = ()
) -> None:
    """Check that these files can be written into a folder, which may be missing.

    A set that a kill left half replaced is completed first, since an input may be in it.

    Args:
        folder: the output folder; may be a link to one.
        names: the files that are written into it.
        inputs: paths of files that are read; none may be among those written.

    Raises:
        GraphmpError: GMP004 if it can't be written, if one of its files is a link or no file, and
            if an input would be replaced.
    """
    target = _writable(folder)
    for name in names:
        kind = _kind(target / name)
        if kind:
            raise GraphmpError(
                "GMP004",
                "%s: cannot be written: it is %s; remove it, or choose another folder with -o"
                % (folder / name, kind),
            )
        refuse_inputs(folder / name, inputs)
    try:
        if target.is_dir() and folders.is_half_replaced(target):
            folders.clean(target, names)
    except OSError as error:
        raise staging.not_written(folder, error) from None


def check_file(path: pathlib.Path, inputs: Iterable[str] = ()) -> None:
    """Check that a file can be written.

    Args:
        path: the file; links are followed.
        inputs: paths of files that are read, or written too: none may be this one.

    Raises:
        GraphmpError: GMP004.
    """
    if os.path.isdir(path):  # False, too, for a name that is too long
        raise GraphmpError("GMP004", "%s: cannot be written: it is a folder" % path)
    refuse_inputs(path, inputs)
    target = pathlib.Path(os.path.realpath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        return  # a device or a pipe
    _writable(target.parent, str(path.parent))
    if not os.path.isdir(target.parent):
        raise GraphmpError(
            "GMP004", "%s: cannot be written: there is no folder %s" % (path, path.parent)
        )


def check_kept(path: pathlib.Path, inputs: Iterable[str] = ()) -> None:
    """Check a file that is read, if it is there, which need not be writable, and else written.

    Args:
        path: the file; links are followed.
        inputs: paths of other files that are read: none may be this one.

    Raises:
        GraphmpError: GMP004.
    """
    if os.path.isfile(path):
        refuse_inputs(path, inputs)
    else:
        check_file(path, inputs)


def refuse_inputs(output: pathlib.Path, inputs: Iterable[str]) -> None:
    """Raise GMP004 if an output would replace a file that is read."""
    for name in inputs:
        if name and os.path.realpath(name) == os.path.realpath(output):
            raise GraphmpError(
                "GMP004",
                "%s: would be replaced, and it is read or written for %s too; choose another place"
                % (output, name),
            )


def _writable(folder: pathlib.Path, label: str = "") -> pathlib.Path:
    """The folder that a path leads to, if it can be written or made."""
    try:
        target = pathlib.Path(os.path.realpath(folder))
        existing = target
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise OSError(errno.ENOTDIR, "%s is not a folder" % existing)
        staged = staging.staged(target, target.parent)
        if max(len(os.fsencode(part)) for part in staged.parts) > _LONGEST_NAME:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        with contextlib.suppress(FileNotFoundError, PermissionError):
            os.lstat(staged / _LONG)  # raises OSError if the whole path is too long
        if not os.access(existing, os.W_OK | os.X_OK):
            read_only = os.statvfs(existing).f_flag & os.ST_RDONLY
            raise PermissionError(0, os.strerror(errno.EROFS if read_only else errno.EACCES))
        with staging.new_folder(target, existing):
            pass  # root may write everywhere, and /proc takes no folder all the same
    except (OSError, ValueError) as error:
        raise staging.not_written(label or folder, error) from None
    return target


def _kind(path: pathlib.Path) -> str:
    """A file that can't be replaced, in words; empty for a regular or missing one."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise staging.not_written(path, error) from None
    return next((kind for matches, kind in _KINDS if matches(mode)), "no regular file")
