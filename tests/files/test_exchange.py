"""Folders whose entries are written to the disk."""

from __future__ import annotations

import os
import pathlib

import pytest

from graphmp.files.folder import write_files
from graphmp.files.single import write_atomic

pytestmark = pytest.mark.unit


@pytest.fixture
def unread(tmp_path, monkeypatch):
    """A folder that can be written and not be read."""
    opened = os.open

    def refusing(path, *args, **kwargs):
        if os.path.realpath(path) == os.path.realpath(tmp_path):
            raise PermissionError(13, os.strerror(13), str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    return tmp_path


def test_a_file_in_a_folder_that_cannot_be_read(unread):
    write_atomic(unread / "file", b"new")
    write_atomic(unread / "file", b"newer")
    assert (unread / "file").read_bytes() == b"newer"


@pytest.mark.parametrize("times", [1, 2])
def test_a_folder_in_one_that_cannot_be_read(unread, times):
    for number in range(times):
        write_files(pathlib.Path(unread / "out"), {"a": b"%d" % number})
    assert (unread / "out" / "a").read_bytes() == b"%d" % (times - 1)
