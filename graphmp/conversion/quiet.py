"""Silencing file descriptor 2 while TensorFlow starts."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import Iterator

STDERR = 2


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Suppress what is written to file descriptor 2; if the body fails, it is written after all.

    TensorFlow 2.21 writes to the descriptor, not to `sys.stderr`, before it reads
    TF_CPP_MIN_LOG_LEVEL. The descriptor belongs to the whole process, so that other threads are
    silenced too: use this for an import, not for a training loop.
    """
    try:
        saved = os.dup(STDERR)
    except OSError:  # closed: nothing can be silenced
        yield
        return
    with tempfile.TemporaryFile() as kept:
        _flush()
        os.dup2(kept.fileno(), STDERR)
        try:
            try:
                yield
            finally:
                _restore(saved)
                os.close(saved)
        except Exception:
            kept.seek(0)
            os.write(STDERR, kept.read())
            raise


def _restore(saved: int) -> None:
    _flush()
    os.dup2(saved, STDERR)


def _flush() -> None:
    if sys.stderr is not None:  # as under pythonw
        sys.stderr.flush()
