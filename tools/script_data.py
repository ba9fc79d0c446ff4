"""Small made-up data for public scripts, each kind into a folder."""

from __future__ import annotations

import gzip
import pathlib
import struct
import zlib
from typing import Any, Callable, Dict

import numpy as np

_TRAIN, _TEST = 5400, 600  # readers of MNIST set 5,000 apart


def mnist(folder: pathlib.Path) -> None:
    """MNIST's four files: a bright square whose place is the digit."""
    random = np.random.RandomState(0)
    for name, count in (("train", _TRAIN), ("t10k", _TEST)):
        labels = random.randint(0, 10, count).astype(np.uint8)
        images = random.randint(0, 30, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels):
            image[2 * label + 2 : 2 * label + 8, 8:20] = 220
        head = struct.pack(">IIII", 2051, count, 28, 28)
        _gzip(folder / ("%s-images-idx3-ubyte.gz" % name), head + images.tobytes())
        head = struct.pack(">II", 2049, count)
        _gzip(folder / ("%s-labels-idx1-ubyte.gz" % name), head + labels.tobytes())


def pairs(folder: pathlib.Path) -> None:
    """Four pictures of 512 by 256: a gradient, and its mirror image beside it."""
    for number in range(4):
        rows = np.linspace(0, 200, 256)[:, None] + np.linspace(0, 50, 256) * (number + 1) / 4
        left = np.stack([rows, rows[::-1], rows.T], -1).astype(np.uint8)
        _png(folder / ("%d.png" % number), np.concatenate([left, left[:, ::-1]], 1))


def _gzip(path: pathlib.Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 1))


def _png(path: pathlib.Path, image: Any) -> None:
    """Write an array of height, width and three colours."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    height, width, _ = image.shape
    lines = b"".join(b"\0" + row.tobytes() for row in image)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 1))
        + chunk(b"IEND", b"")
    )


KINDS: Dict[str, Callable[[pathlib.Path], None]] = {"mnist": mnist, "pairs": pairs}
