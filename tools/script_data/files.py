"""Files of the forms that public scripts read."""

from __future__ import annotations

import gzip
import pathlib
import struct
import zlib
from typing import Any, Dict, Iterable

import numpy as np


def compressed(path: pathlib.Path, data: bytes) -> None:
    """Write data in the form of gzip."""
    path.write_bytes(gzip.compress(data, 1))


def picture(path: pathlib.Path, image: Any) -> None:
    """Write an array of height, width and three colours, or of height and width in grey."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    height, width = image.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in image)
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if image.ndim == 3 else 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 1))
        + chunk(b"IEND", b"")
    )


def records(path: pathlib.Path, rows: Iterable[Dict[str, Any]]) -> None:
    """Write examples; bytes stay bytes, arrays of floats become floats, others integers."""
    import tensorflow.compat.v1 as tf  # only some kinds need it

    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = {}
            for name, value in row.items():
                features[name] = _feature(tf, value)
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _feature(tf: Any, value: Any) -> Any:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=array))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=array))


def rows(path: pathlib.Path, rows: Iterable[Iterable[Any]], separator: str = "\t") -> None:
    """Write a line for each row."""
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))


def sound(samples: bytes) -> bytes:
    """A WAV file of 16,000 samples a second, of 16 bits each."""
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16,
                       1, 1, 16000, 32000, 2, 16, b"data", len(samples)) + samples  # fmt: skip
