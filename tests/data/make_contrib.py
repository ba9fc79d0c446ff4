"""Writes contrib.json: the numbers of TensorFlow 1.15.5's own contrib. Run it with 1.15.5.

python -m tests.data.make_contrib
"""

from __future__ import annotations

import importlib
import json
import operator
import pathlib
from typing import Any

import tensorflow.compat.v1 as tf

from tests.support.contrib_cases import CASES


def main() -> None:
    """Run all cases."""
    found = {}
    for name, case in CASES.items():
        with tf.Graph().as_default():
            found[name] = case(_module(name.partition(":")[0]))
    path = pathlib.Path(__file__).with_name("contrib.json")
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _module(name: str) -> Any:
    """A module of contrib, some of which can only be imported, and some only be read."""
    try:
        return importlib.import_module("tensorflow.contrib." + name)
    except ImportError:
        return operator.attrgetter(name)(importlib.import_module("tensorflow.contrib"))


if __name__ == "__main__":
    main()
