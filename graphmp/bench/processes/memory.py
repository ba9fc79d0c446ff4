"""The memory of this process, by a GPU's allocator and the system."""

from __future__ import annotations

import importlib
import pathlib
import resource
import sys
from typing import Optional

import tensorflow.compat.v1 as tf

from graphmp.bench.bench import ProcessMemory

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
_SCORE = pathlib.Path("/proc/self/oom_score_adj")


def measured(in_trace: int) -> ProcessMemory:
    """The peaks since the process began; of tensors by the GPU's allocator, else as given.

    The given number is from the trace of a step.
    """
    peak = allocator_peak()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    return ProcessMemory(
        in_trace if peak is None else peak, "run metadata" if peak is None else "allocator", rss
    )


def allocator_peak() -> Optional[int]:
    """The peak of the first GPU's allocator, in bytes; None without a GPU."""
    if not tf.config.experimental.list_physical_devices("GPU"):
        return None
    if tf.__version__ > "2":
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        peak = importlib.import_module("tensorflow.contrib.memory_stats").MaxBytesInUse()
        with tf.Session() as session:
            return int(session.run(peak))


def be_killed_first() -> None:
    """Make Linux end this process first if memory runs out."""
    try:
        _SCORE.write_text("1000")
    except OSError:  # another system, or not allowed
        return


def limit(size: int) -> None:
    """Limit the memory of this process, including code and stacks of the libraries."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(
        resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard)
    )
