"""The error for a part of `tf.contrib` without replacement; it names the user's line."""

from __future__ import annotations

import os
import sys
import types
from typing import Optional

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.legacy import internals

_LAST_WITH_CONTRIB = "1.15.5"
# Advice beside another TensorFlow, by package.
_ADVICE = {
    "quantize": (
        "it rewrites the graph to train for 8-bit inference, which is independent of mixed"
        " precision: without its call the script trains"
    ),
}


class MissingContribAttribute(GraphmpError, AttributeError):
    """GMP018 for an attribute.

    Also an AttributeError, for `hasattr` and a script's own fallback.
    """


class MissingContribImport(GraphmpError, ImportError):
    """GMP018 for an import statement; also an ImportError, for `try: ... except ImportError:`."""


def attribute(symbol: str, needs: Optional[str] = None) -> MissingContribAttribute:
    """The error for a lookup of `tf.contrib.<symbol>`; `needs` is a package that would serve it."""
    return MissingContribAttribute("GMP018", _message(symbol, needs))


def module(symbol: str) -> MissingContribImport:
    """The error for an import of `tensorflow.contrib.<symbol>`."""
    return MissingContribImport("GMP018", _message(symbol, None))


def _message(symbol: str, needs: Optional[str]) -> str:
    if needs:
        text = (
            "%s: tf.contrib.%s needs %s on TensorFlow %s: pip install %s; TensorFlow %s has it"
            " built in"
        )
        return text % (_users_line(), symbol, needs, tf.VERSION, needs, _LAST_WITH_CONTRIB)
    text = "%s: tf.contrib.%s has no successor in TensorFlow %s; the last with tf.contrib is %s" % (
        _users_line(),
        symbol,
        tf.VERSION,
        _LAST_WITH_CONTRIB,
    )
    advice = _ADVICE.get(symbol.partition(".")[0])
    return text + "; " + advice if advice else text


def users_frame() -> types.FrameType:
    """The innermost frame outside of all libraries."""
    libraries = tuple(folder + os.sep for folder in internals.library_folders())
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        libraries + ("<frozen ",)
    ):
        frame = frame.f_back
    return frame


def _users_line() -> str:
    frame = users_frame()
    return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)
