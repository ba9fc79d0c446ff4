#!/usr/bin/env python3
"""Peak memory of a Python process above that of one that only imports TensorFlow and graphmp.

usage: peak_memory.py of ARGUMENT...    run `python ARGUMENT...` and print its peak memory in bytes
       peak_memory.py imports           the baseline that is subtracted
       peak_memory.py rewrite GRAPH     the process measured for the rewrite alone

    python tools/peak_memory.py of -m graphmp convert train.meta
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import List, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes


def above_imports(arguments: Sequence[str]) -> int:
    """The peak memory of `python ARGUMENTS` above that of the imports, in bytes.

    Raises:
        subprocess.CalledProcessError: the process fails.
    """
    return _peak(arguments) - _peak([__file__, "imports"])


def _peak(arguments: Sequence[str]) -> int:
    """The peak memory of a child, in bytes.

    It is measured from a small process, as a child's count starts at its parent's memory.
    """
    run = [sys.executable, __file__, "of", *arguments]
    return int(
        subprocess.run(
            run,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ, PYTHONPATH=str(ROOT)),
        ).stdout
    )


def _measure(arguments: List[str]) -> int:
    """Run Python and print its peak memory; return its exit status."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    print(usage.ru_maxrss * _UNIT)
    return int(status != 0)


def _rewrite(paths: List[str]) -> int:
    """Import all that a conversion needs, and rewrite graphs."""
    from graphmp.config import Config
    from graphmp.conversion import convert
    from graphmp.gate.reading import read_graph
    from graphmp.graph.io.stored import stored
    from graphmp.policy import policy
    from graphmp.rewrite import pipeline

    assert convert
    config = Config.make()
    for path in paths:
        pipeline.rewrite(stored(read_graph(path)), config, policy.load(config.compute_dtype, ""))
    return 0


if __name__ == "__main__":
    sys.exit(_measure(sys.argv[2:]) if sys.argv[1] == "of" else _rewrite(sys.argv[2:]))
