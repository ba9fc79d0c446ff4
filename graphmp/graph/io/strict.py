"""Parsing binary messages as strictly and as silently on protobuf 3.20 as on later ones."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import Any, Iterator

import google.protobuf
from google.protobuf.message import DecodeError

_STDERR = 2
_WRITES_TO_STDERR = int(google.protobuf.__version__.split(".")[0]) < 4
_silencing = threading.RLock()


def parse_strictly(data: bytes, message: Any) -> None:
    """Fill a message; protobuf 3.20 only warns that it stopped halfway.

    Raises:
        DecodeError: the bytes are something else.
    """
    with silent_stderr(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        message.ParseFromString(data)
    if any(issubclass(warning.category, RuntimeWarning) for warning in caught):
        raise DecodeError(str(caught[0].message))


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Suppress what protobuf 3.20 writes to file descriptor 2 about strings that aren't UTF-8.

    It raises an error as well.
    """
    if not _WRITES_TO_STDERR:
        yield
        return
    with _silencing:
        try:
            saved = os.dup(_STDERR)
        except OSError:  # closed: nothing can be written
            yield
            return
        try:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), _STDERR)
            yield
        finally:
            os.dup2(saved, _STDERR)
            os.close(saved)
