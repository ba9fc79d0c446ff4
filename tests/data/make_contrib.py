"""Writes contrib.json: the numbers of TensorFlow 1.15.5's own contrib. Run it with 1.15.5.

It also writes a checkpoint of a small translator.

python -m tests.data.make_contrib
"""

from __future__ import annotations

import importlib
import json
import operator
import pathlib
from typing import Any

import tensorflow.compat.v1 as tf

from tests.support import contrib_translator
from tests.support.contrib_cases import CASES

TRANSLATOR = pathlib.Path(__file__).with_name("translator.ckpt")


def main() -> None:
    """Run all cases."""
    found = {}
    for name, case in CASES.items():
        with tf.Graph().as_default():
            found[name] = case(_module(name.partition(":")[0]))
    seq2seq = _module("seq2seq")
    contrib_translator.write(seq2seq, str(TRANSLATOR))
    found["translator"] = contrib_translator.computed(seq2seq, str(TRANSLATOR))
    path = pathlib.Path(__file__).with_name("contrib.json")
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _module(name: str) -> Any:
    """A module of contrib, some of which can only be imported, and some only be read."""
    try:
        return operator.attrgetter(name)(importlib.import_module("tensorflow.contrib"))
    except AttributeError:
        return importlib.import_module("tensorflow.contrib." + name)


if __name__ == "__main__":
    main()
