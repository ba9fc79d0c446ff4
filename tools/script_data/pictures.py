"""Small made-up pictures."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import numpy as np

from script_data import files

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
        files.compressed(folder / ("%s-images-idx3-ubyte.gz" % name), head + images.tobytes())
        head = struct.pack(">II", 2049, count)
        files.compressed(folder / ("%s-labels-idx1-ubyte.gz" % name), head + labels.tobytes())


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
            files.compressed(path.with_name(path.name + ".gz"), head + data.tobytes())


def pairs(folder: pathlib.Path) -> None:
    """Four pictures of 512 by 256: a gradient, and its mirror image beside it."""
    for number in range(4):
        rows = np.linspace(0, 200, 256)[:, None] + np.linspace(0, 50, 256) * (number + 1) / 4
        left = np.stack([rows, rows[::-1], rows.T], -1).astype(np.uint8)
        files.picture(folder / ("%d.png" % number), np.concatenate([left, left[:, ::-1]], 1))


def _gradient(height: int, width: int, number: int) -> Any:
    """A picture whose colours run across it, other ones for each number."""
    rows = np.linspace(0, 200, height)[:, None] + np.linspace(0, 50, width) * (number % 7 + 1) / 7
    return np.stack([rows, rows[::-1], rows[:, ::-1]], -1).astype(np.uint8)


def segmented(folder: pathlib.Path) -> None:
    """Pictures of 48 by 64, the classes of their pixels, and a list of the files."""
    lines = []
    for number in range(8):
        mask = np.zeros((48, 64), np.uint8)
        mask[number : number + 24, 8:40] = 1 + number % 2
        files.picture(
            folder / ("%d.png" % number), _gradient(48, 64, number) + 20 * mask[..., None]
        )
        files.picture(folder / ("%d_mask.png" % number), mask)
        lines.append("/%d.png /%d_mask.png\n" % (number, number))
    (folder / "list.txt").write_text("".join(lines))


def written(folder: pathlib.Path) -> None:
    """Pictures of 96 by 96, and a file with the corners of the word in each."""
    for number in range(8):
        image = _gradient(96, 96, number)
        image[30:60, 20:80] = 255
        files.picture(folder / ("%d.png" % number), image)
        (folder / ("%d.txt" % number)).write_text("20,30,80,30,80,60,20,60,word\n")


def alphabets(folder: pathlib.Path) -> None:
    """Folders of characters in the form of Omniglot: 12 alphabets of 110, two pictures each."""
    random = np.random.RandomState(0)
    for alphabet in range(12):
        for character in range(110):
            place = folder / ("alphabet%d" % alphabet) / ("character%d" % character)
            place.mkdir(parents=True, exist_ok=True)
            strokes = (random.randint(0, 2, (28, 28)) * 255).astype(np.uint8)
            for number in range(2):
                files.picture(place / ("%d.png" % number), np.roll(strokes, number, 0))


def people(folder: pathlib.Path) -> None:
    """Eight pictures of each of four people, 72 by 72."""
    for person in range(4):
        place = folder / ("person%d" % person)
        place.mkdir(exist_ok=True)
        for number in range(8):
            image = np.roll(_gradient(72, 72, person), number, 1)
            files.picture(place / ("person%d_%04d.png" % (person, number)), image)


def domains(folder: pathlib.Path) -> None:
    """Pictures of 64 by 64 of two kinds, one upside down, to train and to test on."""
    for name, flip in (("A", 1), ("B", -1)):
        for part, count in (("train", 6), ("test", 2)):
            place = folder / (part + name)
            place.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                picture = _gradient(64, 64, number)[::flip].copy()
                files.picture(place / ("%d.png" % number), picture)


def scenes(folder: pathlib.Path) -> None:
    """Pictures of 64 by 64 in a folder, and the classes of their pixels in another."""
    for name in ("images", "classes"):
        (folder / name).mkdir(exist_ok=True)
    for number in range(8):
        mask = np.zeros((64, 64), np.uint8)
        mask[number : number + 32, 8:48] = 1 + number % 2
        shown = _gradient(64, 64, number) + 20 * mask[..., None]
        files.picture(folder / "images" / ("%d.png" % number), shown)
        files.picture(folder / "classes" / ("%d.png" % number), np.stack([mask] * 3, -1))
