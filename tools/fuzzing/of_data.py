"""Families of data and measurements: batches, costs, and files of expected flags."""

from __future__ import annotations

import functools
import io
import json
import os
import pathlib
import random
import zipfile
from typing import Any, Dict, List

import numpy as np

from fuzzing import damage, seeds
from fuzzing.of_graphs import converted
from fuzzing.of_texts import of_json
from fuzzing.runner import Case

_COSTS: Dict[str, Any] = {
    "schema": "graphmp.costs/1",
    "measurements": [],
    "casts": [],
    "nodes": {},
}


def of_data(rng: random.Random) -> Case:
    """Batches in a damaged or hostile .npz file, or from a function that misbehaves."""
    pathlib.Path("g.meta").write_bytes(seeds.graphs()[0])
    if rng.random() < 0.4:
        pathlib.Path("d.py").write_text(rng.choice(_FUNCTIONS))
        data = "d.py:" + rng.choice(["f", "f", "f", "gone", "", "x"])
    else:
        pathlib.Path("d.npz").write_bytes(_npz(rng))
        data = "d.npz"
        if rng.random() < 0.1:
            os.remove(data)
            rng.choice([lambda: os.mkfifo(data), lambda: os.mkdir(data)])()
    command = rng.choice(["audit"] * 3 + ["verify"])
    names = ["g.meta"] if command == "audit" else ["g.meta", "g.meta"]
    return Case([command, *names, "--data=" + data, "--steps=2", "--step_timeout=2"])


def of_measured(rng: random.Random) -> Case:
    """A file of costs or of expected flags that is none."""
    pathlib.Path("g.meta").write_bytes(seeds.graphs()[0])
    if rng.random() < 0.5:
        pathlib.Path("c.costs").write_bytes(of_json(rng, json.loads(json.dumps(_COSTS))))
        argv = ["convert", "g.meta", "-o", "out", "--costs=c.costs"]
        return Case(argv, lambda status: converted(status, "g.meta"))
    lines = [
        "--loss_scale=none",
        "--loss_scale=" + rng.choice(damage.NAMES),
        "--keep_float32=" + rng.choice(damage.NAMES),
        "--flagfile=expected",
        "--op_policy=gone",
        "--help",
        "--nonsense",
        "--",
        "x",
        "#",
        "--clip_norm=nan",
        "--loss_scale_initial=1e999",
    ]
    data = "\n".join(rng.choice(lines) for _ in range(rng.choice([1, 2, 6]))).encode("utf-8")
    pathlib.Path("expected").write_bytes(damage.damaged(rng, data) if rng.random() < 0.3 else data)
    return Case(["verify", "g.meta", "g.meta", "--expect=expected"])


def _npz(rng: random.Random) -> bytes:
    """A file of arrays, sound or not."""
    kind = rng.choice(["sound", "bytes", "bytes", "header", "bomb", "object", "values", "entries"])
    if kind == "sound":
        return _saved(x=np.ones([8, 4], np.float32))
    if kind == "bytes":
        return damage.damaged(rng, _saved(x=np.ones([8, 4], np.float32)))
    if kind == "header":
        header = rng.choice(
            [
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4), }",
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }",
                "{'descr': '|O', 'fortran_order': False, 'shape': (2, 4), }",
                "{'descr': 'x', 'fortran_order': 3, 'shape': 7}",
                "(" * 5000,
                "[" * 90 + "]" * 90,
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 4), }",
                "",
                "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "2," * 60 + "), }",
            ]
        )
        raw = header.encode().ljust(118) + b"\n"
        size = len(raw).to_bytes(2, "little")
        return _zipped({"x.npy": b"\x93NUMPY\x01\x00" + size + raw + b"\0" * 64})
    if kind == "bomb":
        return bomb()
    if kind == "object":
        return _saved(x=np.array([{}, [1], None, "a"], object))
    if kind == "entries":
        names = ["x.npy", "x.npy", "../x.npy", "x", "\x1b[31m.npy", "x:0.npy", ""]
        return _zipped(dict.fromkeys(rng.sample(names, 3), b""))
    value = rng.choice(
        [
            np.full([8, 4], np.nan, np.float32),
            np.full([8, 4], 1e39),
            np.ones([8, 4], "S3"),
            np.ones([8, 4], np.complex64),
            np.ones([0, 4], np.float32),
            np.ones([4], np.float32),
            np.ones([], np.float32),
            np.ones([8, 4], "M8[s]"),
            np.ones([8, 5], np.float32),
            np.ones([1, 1, 1, 4], np.int64),
            np.ones([8, 4], [("a", "f4")]),
        ]
    )
    return _saved(**{rng.choice(["x", "x:0", "y", "loss"]): value})


@functools.lru_cache(maxsize=None)
def bomb() -> bytes:
    """A quarter of a megabyte that declares 250 megabytes of zeros."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.zeros([15_625_000, 4], np.float32))
    return file.getvalue()


def _saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zipped(entries: Dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name or "none"), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


_X = "import numpy as np\nx = np.ones([2, 4], 'f')\n"
_FUNCTIONS: List[str] = [
    _X + "def f(): return {'x': x}\n",
    _X + "def f(step): return {'x': x[:step]}\n",
    _X + "def f(step): raise ValueError('\\x1b[31m\\nnew line')\n",
    _X + "def f(step): raise SystemExit(0)\n",
    _X + "def f(step): raise KeyboardInterrupt\n",
    _X + "def f(): return iter([])\n",
    _X + "def f():\n    yield {'x': x}\n    yield 3\n",
    _X + "def f(a, b): return {}\n",
    _X + "def f(step): return {'x': [[1, 2], [3]]}\n",
    _X + "def f(step): return {'x': object()}\n",
    _X + "def f(step): return {3: x}\n",
    _X + "def f(step): return f(step)\n",
    _X + "f = 3\n",
    "import sys\nsys.exit(0)\n",
    "raise SystemExit\n",
    "import nothing_of_this_name\n",
    "def f(:\n",
    "\0",
    "# coding: nonsense\n",
    _X + "def f():\n    while True:\n        yield {}\n",
    _X + "class f:\n    def __init__(self): raise ValueError\n",
    _X + "def f():\n    while True: pass\n",
    _X + "import time\ndef f(step):\n    time.sleep(1e6)\n",
    _X + "def f():\n    yield {'x': x}\n    input()\n    while True: pass\n",
    "while True:\n    try: open('/dev/zero').read(9)\n    except Exception: pass\n",
]
