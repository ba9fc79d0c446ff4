"""The memory of this process: what a GPU's allocator and the system say of it."""

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
    """The peaks since the process began; of TensorFlow's tensors on a GPU, else as given, from the trace of a step."""
    peak = allocator_peak()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    return ProcessMemory(
        in_trace if peak is None else peak, "run metadata" if peak is None else "allocator", rss
    )


def allocator_peak() -> Optional[int]:
    """The most bytes that the first GPU's allocator had given out; None without a GPU."""
    if not tf.config.experimental.list_physical_devices("GPU"):
        return None
    if tf.__version__ > "2":
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        peak = importlib.import_module("tensorflow.contrib.memory_stats").MaxBytesInUse()
        with tf.Session() as session:
            return int(session.run(peak))


def be_killed_first() -> None:
    """Where memory runs out, Linux is to end this process and no other."""
    try:
        _SCORE.write_text("1000")
    except OSError:  # another system, or not allowed
        return


def limit(size: int) -> None:
    """Has the system refuse this process more memory than that, code and stacks of the libraries included."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(
        resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard)
    )
