"""The batches of a bench, made once from the original graph, stored, and fed to all variants."""

from __future__ import annotations

import collections
import pathlib
import pickle
import time
from typing import Any, Counter, Dict, Iterator, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.bench.processes.timed_session import TimedSession
from graphmp.errors import GraphmpError
from graphmp.feeds.attempts import first_that_runs, shape_attempts
from graphmp.feeds.batches import Batch, Batches, from_function, from_npz, random_batches
from graphmp.feeds.shapes import OTHER_DIMENSION, Guess
from graphmp.feeds.wanted import Wanted, wanted_tensors

BATCHES = 4  # different ones, fed in turn


class BatchFile(NamedTuple):
    """The batches for one size.

    Attributes:
        asked: the requested size.
        batch_size: the actual one; None if no fed tensor has a dimension.
        path: the file with them.
        seconds: to make a batch of given data; else None.
        sizes: those of its batches, where they differ.
    """

    asked: int
    batch_size: Optional[int]
    path: str
    seconds: Optional[float]
    sizes: Sequence[int] = ()

    @property
    def in_words(self) -> str:
        """A line on batches of several sizes; empty for batches of one."""
        text = "the batches of --data have sizes %s: times are of all of them, not of %d alone"
        return text % (", ".join(map(str, self.sizes)), self.sizes[0]) if self.sizes else ""


def make(
    original: TimedSession, data: str, sizes: Sequence[int], seed: int, folder: pathlib.Path
) -> List[BatchFile]:
    """Make the batches of all sizes; only one if graph or data have a batch size of their own.

    Args:
        original: the original graph.
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        sizes: of dimensions that the graph leaves open, in ascending order.
        seed: of made-up batches.
        folder: to write to.

    Raises:
        GraphmpError: GMP002, GMP003, GMP005 for data that doesn't fit or can't be read, GMP024 if
            no made-up batch runs.
    """
    with original.graph.as_default():
        wanted = wanted_tensors(original.graph, original.view, _names(original))
        made = [
            _write(source, wanted, size, bool(data), folder)
            for size, source in _sources(original, wanted, data, sizes, seed)
        ]
    return list({each.batch_size: each for each in reversed(made)}.values())[::-1]


def read(path: str, count: int = BATCHES) -> List[Batch]:
    """The first batches of a file; only these are in memory."""
    with open(path, "rb") as file:
        return [pickle.load(file) for _ in range(count)]


def _sources(
    original: TimedSession, wanted: List[Wanted], data: str, sizes: Sequence[int], seed: int
) -> Iterator[Any]:
    """Each size with its Batches."""
    if data.endswith(".npz"):
        yield from ((size, from_npz(data, wanted, size)) for size in sizes)
    elif data:
        yield sizes[0], from_function(data, wanted)
    else:
        guess = _guess(original, wanted, sizes[0], seed)
        for size in sizes:
            guessed = _resized(guess, sizes[0], size)
            yield (
                size,
                random_batches(
                    original.graph, original.view, _names(original), size, seed, guessed
                ),
            )


def _guess(original: TimedSession, wanted: List[Wanted], size: int, seed: int) -> Guess:
    """The first guess of the open dimensions that the step runs with, or that exceeds memory."""
    tried: List[Guess] = []

    def attempts() -> Iterator[Batches]:
        for guess in shape_attempts(original.graph, original.view, wanted, size):
            tried.append(guess)
            yield random_batches(original.graph, original.view, _names(original), size, seed, guess)

    try:
        first_that_runs(original.session, original.targets, attempts())
    except GraphmpError as error:
        if not isinstance(error.__cause__, tf.errors.ResourceExhaustedError):
            raise
    return tried[-1]


def _resized(guess: Guess, before: int, size: int) -> Guess:
    """A guess for another batch size; other sizes are constants of the graph."""
    other = size if guess.other == before != OTHER_DIMENSION else guess.other
    return guess._replace(first=size if guess.first == before else guess.first, other=other)


def _write(
    source: Batches, wanted: List[Wanted], asked: int, given: bool, folder: pathlib.Path
) -> BatchFile:
    path, seconds, sizes = folder / ("batches_%d.pickle" % asked), [], []
    with path.open("wb") as file:
        for step in range(BATCHES):
            start = time.perf_counter()
            batch = source(step)
            seconds.append(time.perf_counter() - start)
            pickle.dump(batch, file, protocol=4)
            sizes.append(_batch_size(batch, wanted, asked))
    return BatchFile(
        asked,
        sizes[0],
        str(path),
        sorted(seconds)[BATCHES // 2] if given else None,
        [size or 0 for size in sizes] if len(set(sizes)) > 1 else [],
    )


def _batch_size(batch: Batch, wanted: List[Wanted], asked: int) -> Optional[int]:
    """The first dimension: the requested one if an open one has it; else the most frequent."""
    first = [(tensor, batch[tensor.name].shape[0]) for tensor in wanted if batch[tensor.name].ndim]
    if any(
        size == asked for tensor, size in first if tensor.shape is None or tensor.shape[0] is None
    ):
        return asked
    counted: Counter[int] = collections.Counter(size for _, size in first)
    return counted.most_common(1)[0][0] if counted else None


def _names(original: TimedSession) -> List[str]:
    return [op.name for op in original.targets]


def without(batch: Batch, names: Sequence[str]) -> Dict[str, Any]:
    """A batch without some tensors."""
    return {name: value for name, value in batch.items() if name not in names}
