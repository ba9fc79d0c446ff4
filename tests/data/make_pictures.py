"""Writes pictures.json: the pixels that `scipy.misc` of SciPy 1.1 makes. Run it with SciPy 1.1.

python -m tests.data.make_pictures
"""

from __future__ import annotations

import json
import pathlib
import tempfile

import scipy.misc

from tests.support.picture_cases import made


def main() -> None:
    """Record all cases."""
    with tempfile.TemporaryDirectory() as folder:
        found = made(scipy.misc, pathlib.Path(folder))
    path = pathlib.Path(__file__).with_name("pictures.json")
    path.write_text(json.dumps(found, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
