"""Reading files that a user names: regular files and open pipes, of a limited size."""

from __future__ import annotations

import os
import select
import stat
from typing import List, Union

from graphmp.errors import GraphmpError

Path = Union[str, "os.PathLike[str]"]

TEXT_LIMIT = 4 << 20  # bytes of a policy, a flagfile or a file of flags
_PATIENCE = 5.0  # seconds without a byte from a pipe
_PIECE = 1 << 20
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def read_bytes(path: Path, limit: int, label: str = "") -> bytes:
    """The contents of a regular file or of a pipe, such as the shell's `<(command)`.

    Args:
        path: the file; links are followed.
        limit: the largest accepted size in bytes.
        label: the file in an error's words; its path by default.

    Raises:
        GraphmpError: GMP003 for a folder, device or socket, a pipe that stays empty, a file that is
            too large, and whatever the system refuses.
    """
    label = label or os.fspath(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise unreadable(label, error) from None
    try:
        return _contents(descriptor, limit, label)
    except OSError as error:
        raise unreadable(label, error) from None
    finally:
        os.close(descriptor)


def read_beginning(path: Path, size: int) -> bytes:
    """The first bytes of a regular file; none of anything else, such as a pipe.

    Raises:
        GraphmpError: GMP003 if it can't be read.
    """
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except (OSError, ValueError) as error:
        raise unreadable(os.fspath(path), error) from None


def read_text(path: Path, label: str = "", limit: int = TEXT_LIMIT) -> str:
    """The text of a file in UTF-8, without a byte order mark.

    Raises:
        GraphmpError: GMP003, as for `read_bytes`, and for bytes that are not UTF-8.
    """
    data = read_bytes(path, limit, label)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphmpError(
            "GMP003",
            "%s: cannot be read: byte %d is not UTF-8; accepted is text in UTF-8"
            % (label or os.fspath(path), error.start),
        ) from None


def unreadable(label: str, error: Exception) -> GraphmpError:
    """The error for a file that the system doesn't give."""
    why = getattr(error, "strerror", None) or error
    return GraphmpError("GMP003", "%s: cannot be read: %s" % (label, why))


def _contents(descriptor: int, limit: int, label: str) -> bytes:
    status = os.fstat(descriptor)
    for matches, kind in _KINDS:
        if matches(status.st_mode):
            raise GraphmpError(
                "GMP003", "%s: cannot be read: it is %s; accepted is a file" % (label, kind)
            )
    pieces: List[bytes] = []
    left = limit + 1
    if status.st_size > limit:
        raise _too_large(label, limit)
    while left > 0:
        if stat.S_ISFIFO(status.st_mode):
            _wait(descriptor, label)
        piece = os.read(descriptor, min(left, _PIECE))
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        left -= len(piece)
    raise _too_large(label, limit)


def _wait(descriptor: int, label: str) -> None:
    """Wait until a pipe has bytes, or its writers are gone."""
    if not select.select([descriptor], [], [], _PATIENCE)[0]:
        raise GraphmpError(
            "GMP003",
            "%s: cannot be read: a pipe that gave nothing for %d seconds" % (label, _PATIENCE),
        )


def _too_large(label: str, limit: int) -> GraphmpError:
    return GraphmpError(
        "GMP003",
        "%s: cannot be read: it is larger than %s bytes, the most that is accepted"
        % (label, format(limit, ",")),
    )
