"""Small made-up data for public scripts, each kind into a folder."""

from __future__ import annotations

import gzip
import json
import pathlib
import pickle
import struct
import zlib
from typing import Any, Callable, Dict, Iterable

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


def empty(folder: pathlib.Path) -> None:
    """Nothing but the folder, which the script expects."""


def knowledge(folder: pathlib.Path) -> None:
    """Ratings of 40 users and 60 items, 0 or 1, and a graph of facts over 100 entities."""
    random = np.random.RandomState(0)
    pairs = [(user, item) for user in range(40) for item in range(60)]
    rated = [(user, item, int((user + item) % 3 == 0)) for user, item in pairs]
    random.shuffle(rated)
    _rows(folder / "ratings_final.txt", rated[:1500])
    facts = {(item, 0, 60 + item % 40) for item in range(60)}
    facts |= {(item, 1 + item % 3, int(random.randint(100))) for item in range(100)}
    _rows(folder / "kg_final.txt", sorted(facts))


def sessions(folder: pathlib.Path) -> None:
    """Pickled lists of sessions of items, and of the item that follows each, for 310 items."""
    random = np.random.RandomState(0)
    for name, count in (("train", 300), ("test", 60)):
        starts, lengths = random.randint(1, 290, count), random.randint(2, 7, count)
        clicks = [[int(start + 2 * k) for k in range(n)] for start, n in zip(starts, lengths)]
        following = [session[-1] + 2 for session in clicks]
        (folder / ("%s.txt" % name)).write_bytes(pickle.dumps((clicks, following), 2))


def chinese(folder: pathlib.Path) -> None:
    """Sentences of 12 characters with tags of persons and places, and the characters' numbers."""
    random = np.random.RandomState(0)
    characters = [chr(0x4E00 + number) for number in range(60)]
    tags = {0: "B-PER", 1: "I-PER", 2: "B-LOC", 3: "I-LOC"}
    for name, count in (("train_data", 200), ("test_data", 40)):
        sentences = random.randint(0, 60, (count, 12))
        lines = [
            "".join("%s\t%s\n" % (characters[each], tags.get(each % 8, "O")) for each in sentence)
            for sentence in sentences
        ]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    numbers = {"<PAD>": 0, **{each: 1 + number for number, each in enumerate(characters)}}
    numbers["<UNK>"] = len(numbers)
    (folder / "word2id.pkl").write_bytes(pickle.dumps(numbers, 2))


def stories(folder: pathlib.Path) -> None:
    """Two files of questions about where a person went, in the form of the bAbI tasks."""
    random = np.random.RandomState(0)
    people, places = ("Mary", "John", "Daniel", "Sandra"), ("garden", "office", "kitchen", "hall")
    for name, count in (("train", 200), ("test", 60)):
        lines = []
        for _ in range(count):
            went = [(people[random.randint(4)], places[random.randint(4)]) for _ in range(2)]
            lines += ["%d %s went to the %s." % (n + 1, *each) for n, each in enumerate(went)]
            lines.append("3 Where is %s?\t%s\t2" % went[-1])
        (folder / ("qa1_single-supporting-fact_%s.txt" % name)).write_text("\n".join(lines) + "\n")


def molecules(folder: pathlib.Path) -> None:
    """Graphs of six to nine nodes in a ring, with five features, whose target is their size."""
    random = np.random.RandomState(0)
    for name, count in (("train", 60), ("valid", 20)):
        made = []
        for size in random.randint(6, 10, count):
            ring = [[k, 1 + k % 4, (k + 1) % int(size)] for k in range(size)]
            features = np.eye(5)[random.randint(0, 5, size)].tolist()
            target = [[float(size - 7.5)]]
            made.append({"graph": ring, "node_features": features, "targets": target})
        (folder / ("molecules_%s.json" % name)).write_text(json.dumps(made))


def traffic(folder: pathlib.Path) -> None:
    """Speeds on 20 roads at 400 times, in waves, and which roads meet."""
    times = np.arange(400)[:, None]
    speeds = 50 + 10 * np.sin(times / 12.0 + np.arange(20))
    roads = [str(number) for number in range(20)]
    meets = np.eye(20, k=1) + np.eye(20, k=-1)
    for place in ("los", "sz"):
        _rows(folder / ("%s_speed.csv" % place), [roads, *speeds.tolist()], ",")
        _rows(folder / ("%s_adj.csv" % place), meets.tolist(), ",")


def masked(folder: pathlib.Path) -> None:
    """Pre-training examples of BERT, of 32 words of 100, and a small model's configuration."""
    import tensorflow.compat.v1 as tf  # only this kind needs it

    random = np.random.RandomState(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    sizes.update(vocab_size=100, num_hidden_layers=2, max_position_embeddings=64)
    (folder / "config.json").write_text(json.dumps(sizes))
    with tf.python_io.TFRecordWriter(str(folder / "examples.tfrecord")) as writer:
        for _ in range(64):
            words = np.sort(random.randint(5, 100, 32))
            places = np.sort(random.permutation(32)[:5])
            values = {
                "input_ids": np.where(np.isin(np.arange(32), places), 3, words),
                "input_mask": np.ones(32, int),
                "segment_ids": (np.arange(32) > 15).astype(int),
                "masked_lm_positions": places,
                "masked_lm_ids": words[places],
                "next_sentence_labels": [int(words[0] > 7)],
            }
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for name, value in values.items()
            }
            features["masked_lm_weights"] = tf.train.Feature(
                float_list=tf.train.FloatList(value=[1.0] * 5)
            )
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _rows(path: pathlib.Path, rows: Iterable[Iterable[Any]], separator: str = "\t") -> None:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))


KINDS: Dict[str, Callable[[pathlib.Path], None]] = {
    kind.__name__: kind
    for kind in (
        mnist,
        pairs,
        empty,
        knowledge,
        sessions,
        chinese,
        stories,
        molecules,
        traffic,
        masked,
    )
}
