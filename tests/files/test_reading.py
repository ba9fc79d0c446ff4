"""Reading what a user names: kinds of files, limits, text."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from graphmp.errors import GraphmpError
from graphmp.files import reading
from graphmp.files.reading import read_bytes, read_text

pytestmark = pytest.mark.unit


def refusal(path, limit=100, read=read_bytes):
    with pytest.raises(GraphmpError) as caught:
        read(path, limit=limit)
    assert caught.value.code == "GMP003" and "cannot be read" in caught.value.message
    return caught.value.message


def test_a_file_and_its_limit(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    assert read_bytes(path, 100) == b"x" * 100
    assert "larger than 99 bytes" in refusal(path, 99)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_devices_are_not_read(device, tmp_path):
    (tmp_path / "link").symlink_to(device)
    assert "it is a device" in refusal(device)
    assert "it is a device" in refusal(tmp_path / "link")


def test_what_is_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PATIENCE", 0.05)
    assert "it is a folder" in refusal(tmp_path)
    os.mkfifo(str(tmp_path / "fifo"))
    assert "gave nothing for" in refusal(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        refusal(tmp_path / "s")
    (tmp_path / "loop").symlink_to("loop")
    refusal(tmp_path / "loop")
    refusal(tmp_path / ("x" * 300))
    refusal("null\0character")
    refusal("\udcff")


def test_a_pipe_with_a_writer_is_read(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(str(path))
    writer = threading.Thread(target=path.write_bytes, args=(b"x" * 90000,))
    writer.start()
    assert read_bytes(path, 90000) == b"x" * 90000
    writer.join()


def test_text(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert read_text(path) == "one\n"
    path.write_bytes(b"one\xff")
    assert "byte 3 is not UTF-8" in refusal(path, read=read_text)
