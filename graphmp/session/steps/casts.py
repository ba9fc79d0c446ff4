"""The time of casts by size, measured alone: in traces of a session that does nothing else."""

from __future__ import annotations

import time
from typing import Any, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.session.steps.as_written import one_by_one
from graphmp.session.steps.step_stats import runs_by_node

_RUNS = 9  # of each size, at most
_CHAIN, _TINY = 200, 1  # casts, and elements of each
_NAMES = {"half": "down", "float32": "up"}


def measure(dtype: str, sizes: Sequence[int], seconds: float) -> List[Any]:
    """Nanoseconds to start an op, and of casts.

    Args:
        dtype: the half precision.
        sizes: elements of the tensors.
        seconds: to spend, about.

    Returns:
        The start of an op; and for each cast what it makes ("half" or "float32"), its elements, its
        samples.
    """
    half = tf.as_dtype(dtype)
    with tf.Graph().as_default():
        given = tf.placeholder(tf.float32, [None])
        down = tf.cast(tf.identity(given), half, name=_NAMES["half"])
        with tf.control_dependencies([tf.cast(down, tf.float32, name=_NAMES["float32"])]):
            target = tf.no_op()
        config = one_by_one()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            ends = time.monotonic() + seconds
            found: List[List[Any]] = []
            for place, size in enumerate(sizes):
                share = (ends - time.monotonic()) / (len(sizes) - place)
                found += _of_size(session, target, given, size, share)
            start = _start_of_an_op(session, given, half)
            return [start, found]


def _start_of_an_op(session: Any, given: Any, half: Any) -> float:
    """Nanoseconds that an op takes besides its kernel: a long chain of tiny casts against one."""
    ends = []
    value = given
    for place in range(_CHAIN):
        value = tf.cast(value, half if place % 2 == 0 else tf.float32)
        ends += [value.op] if place in (0, _CHAIN - 1) else []
    few: List[float] = []
    many: List[float] = []
    tiny = {given: np.zeros(_TINY, np.float32)}
    for _ in range(_RUNS):
        for op, times in zip(ends, (few, many)):
            began = time.perf_counter()
            session.run(op, tiny)
            times.append(time.perf_counter() - began)
    return max(0.0, 1e9 * (min(many) - min(few)) / (_CHAIN - 1))


def _of_size(session: Any, target: Any, given: Any, size: int, seconds: float) -> List[List[Any]]:
    """The two casts of one size."""
    values = np.linspace(-1.0, 1.0, size, dtype=np.float32)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    ends = time.monotonic() + seconds
    session.run(target, {given: values})
    samples: List[List[float]] = [[], []]
    while not samples[0] or (len(samples[0]) < _RUNS and time.monotonic() < ends):
        metadata = tf.RunMetadata()
        session.run(target, {given: values}, options, metadata)
        runs = runs_by_node(metadata)
        for place, name in enumerate(_NAMES.values()):
            samples[place].append(1e9 * runs[name].seconds)
    return [[to, size, times] for to, times in zip(_NAMES, samples)]
