"""The folder that a conversion is written to."""

from __future__ import annotations

import pathlib

from graphmp.errors import GraphmpError


def check_writable(folder: pathlib.Path) -> None:
    """Makes sure, before any work, that files can be written into `folder`; leaves no trace.

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
        raise GraphmpError("GMP004", "%s: cannot be written: %s" % (folder, error.strerror)) from None
