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


def mnist_whole(folder: pathlib.Path) -> None:
    """MNIST's four files in their size, compressed and not, for scripts that count on it."""
    random = np.random.RandomState(0)
    for name, count in (("train", 60000), ("t10k", 10000)):
        labels = random.randint(0, 10, count).astype(np.uint8)
        images = np.zeros((count, 28, 28), np.uint8)
        for digit in range(10):
            images[labels == digit, 2 * digit + 2 : 2 * digit + 8, 8:20] = 220
        for kind, head, data in (
            ("images-idx3", struct.pack(">IIII", 2051, count, 28, 28), images),
            ("labels-idx1", struct.pack(">II", 2049, count), labels),
        ):
            path = folder / ("%s-%s-ubyte" % (name, kind))
            path.write_bytes(head + data.tobytes())
            _gzip(path.with_name(path.name + ".gz"), head + data.tobytes())


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
    facts |= {(item, 1 + item % 3, int(random.randint(100))) for item in range(60)}
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
    random = np.random.RandomState(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    sizes.update(vocab_size=100, num_hidden_layers=2, max_position_embeddings=64)
    (folder / "config.json").write_text(json.dumps(sizes))
    rows = []
    for words in np.sort(random.randint(5, 100, (64, 32))):
        places = np.sort(random.permutation(32)[:5])
        row = {"input_ids": np.where(np.isin(np.arange(32), places), 3, words)}
        row.update(input_mask=np.ones(32, int), segment_ids=(np.arange(32) > 15).astype(int))
        row.update(masked_lm_positions=places, masked_lm_ids=words[places])
        row.update(masked_lm_weights=np.ones(5), next_sentence_labels=[int(words[0] > 7)])
        rows.append(row)
    _records(folder / "examples.tfrecord", rows)


def electra(folder: pathlib.Path) -> None:
    """Pre-training examples of 16 words of 100, and the words."""
    random = np.random.RandomState(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("word%d" % k for k in range(95))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "pretrain_tfrecords").mkdir(exist_ok=True)
    rows = np.sort(random.randint(5, 100, (64, 16)))
    rows[:, 0], rows[:, -1] = 2, 3
    same = {"input_mask": np.ones(16, int), "segment_ids": np.zeros(16, int)}
    _records(
        folder / "pretrain_tfrecords" / "pretrain_data.tfrecord-0",
        [dict(same, input_ids=row) for row in rows],
    )


def speech(folder: pathlib.Path) -> None:
    """A sound of three seconds whose pitch rises, and the sentence that it is said to be."""
    count = (93638 - 44) // 2
    time = np.arange(count) / 16000.0
    sound = (8000 * np.sin(2 * np.pi * (200 + 100 * time) * time)).astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(sound), b"WAVE", b"fmt ", 16,
                       1, 1, 16000, 32000, 2, 16, b"data", len(sound))  # fmt: skip
    (folder / "LDC93S1.wav").write_bytes(head + sound)
    text = "0 %d she had your dark suit in greasy wash water all year" % count
    (folder / "LDC93S1.txt").write_text(text.ljust(61)[:61] + "\n")


def clouds(folder: pathlib.Path) -> None:
    """Clouds of 64 points in files of h5py: ellipsoids of 40 kinds."""
    import h5py  # only this kind needs it

    random = np.random.RandomState(0)
    for name, count in (("train", 64), ("test", 16)):
        kinds = random.randint(0, 40, (count, 1))
        axes = 0.2 + np.stack([kinds % 5, kinds // 5 % 4, kinds // 20], -1) / 5.0
        with h5py.File(str(folder / ("%s.h5" % name)), "w") as file:
            file["data"] = (random.randn(count, 64, 3) * axes).astype(np.float32)
            file["label"] = kinds.astype(np.uint8)
        (folder / ("%s_files.txt" % name)).write_text("%s\n" % (folder / ("%s.h5" % name)))


def news(folder: pathlib.Path) -> None:
    """Texts of ten categories, each with characters of its own."""
    random = np.random.RandomState(0)
    names = ["体育", "财经", "房产", "家居", "教育", "科技", "时尚", "时政", "游戏", "娱乐"]
    for name, count in (("train", 640), ("val", 64), ("test", 64)):
        kinds = random.randint(0, 10, count)
        texts = [
            "".join(chr(0x4E00 + 20 * kind + each) for each in random.randint(0, 30, 50))
            for kind in kinds
        ]
        lines = ["%s\t%s\n" % (names[kind], text) for kind, text in zip(kinds, texts)]
        (folder / ("cnews.%s.txt" % name)).write_text("".join(lines), encoding="utf-8")


def parallel(folder: pathlib.Path) -> None:
    """Sentences of two languages; the second has the first's words in reverse order."""
    random = np.random.RandomState(0)
    for name, count in (("train", 400), ("dev", 40), ("test", 40)):
        rows = [random.randint(0, 40, random.randint(3, 8)) for _ in range(count)]
        for end, step in (("vi", 1), ("en", -1)):
            lines = [" ".join("%s%d" % (end, word) for word in row[::step]) for row in rows]
            (folder / ("%s.%s" % (name, end))).write_text("\n".join(lines) + "\n")
    for end in ("vi", "en"):
        words = ["<unk>", "<s>", "</s>", *("%s%d" % (end, word) for word in range(40))]
        (folder / ("vocab.%s" % end)).write_text("\n".join(words) + "\n")


def _records(path: pathlib.Path, rows: Iterable[Dict[str, Any]]) -> None:
    """Write examples; arrays of floats become floats, others integers."""
    import tensorflow.compat.v1 as tf  # only some kinds need it

    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = {}
            for name, value in row.items():
                array = np.asarray(value)
                features[name] = (
                    tf.train.Feature(float_list=tf.train.FloatList(value=array))
                    if array.dtype.kind == "f"
                    else tf.train.Feature(int64_list=tf.train.Int64List(value=array))
                )
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _rows(path: pathlib.Path, rows: Iterable[Iterable[Any]], separator: str = "\t") -> None:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))


KINDS: Dict[str, Callable[[pathlib.Path], None]] = {
    kind.__name__: kind
    for kind in (
        *(
            mnist,
            mnist_whole,
            pairs,
            empty,
            knowledge,
            sessions,
            chinese,
            stories,
            molecules,
            traffic,
        ),
        *(masked, electra, speech, clouds, news, parallel),
    )
}
