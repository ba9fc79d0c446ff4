"""Checks of output files and folders, before any work."""

from __future__ import annotations

import pathlib

from graphmp.errors import GraphmpError


def check_writable(folder: pathlib.Path) -> None:
    """Check that files can be written into `folder`, before any work; leaves no trace.

    Raises:
        GraphmpError: GMP004.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    probe = existing / ".graphmp_probe"
    try:
        if not existing.is_dir():
            raise NotADirectoryError(20, "Not a directory", str(existing))
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise GraphmpError(
            "GMP004", "%s: cannot be written: %s" % (folder, error.strerror)
        ) from None


def check_writable_file(path: pathlib.Path) -> None:
    """Check that a file can be written, before any work.

    Raises:
        GraphmpError: GMP004.
    """
    if path.is_dir():
        raise GraphmpError("GMP004", "%s: cannot be written: it is a folder" % path)
    check_writable(path.parent)
