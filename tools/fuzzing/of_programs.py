"""The families of Python files that misbehave, for the commands that run them."""

from __future__ import annotations

import functools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import List

from fuzzing import damage
from fuzzing.of_graphs import OUT
from fuzzing.runner import Case

_REFUSED = 2  # a file that isn't Python, in one line
_SECONDS = 40  # TensorFlow is imported by each process that builds
_NET = """
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [2, 4], "x")
loss = tf.reduce_mean(tf.matmul(x, tf.get_variable("w", [4, 4])), name="loss")
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
def go():
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [[1.0] * 4] * 2})
"""
_BEFORE = [
    "import sys; sys.exit(0)",
    "import sys; sys.exit('\\x1b[31m')",
    "import os; os._exit(0)",
    "import os; os._exit(7)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import sys; sys.stdout.write('x' * 100000); sys.stderr.write('y' * 100000)",
    "print('graphmp: error GMP001: not mine')",
    "import os, shutil; shutil.rmtree(os.getcwd())",
    "import os; os.chdir('/')",
    "import os; os.close(1); os.close(2)",
    "import sys; sys.stdout = sys.stderr = None",
    "def f(): return f()\nf()",
    "import sys; sys.setrecursionlimit(10**6)\ndef f(): return f()\nf()",
    "x = [0] * 10**12",
    "raise KeyboardInterrupt",
    "raise SystemExit",
    "class E(BaseException):\n    def __str__(self): raise ValueError\nraise E()",
    "import os\nif os.fork() == 0:\n    import time; time.sleep(3); os._exit(0)",
    "import os; os.environ.clear()",
    "import atexit, os; atexit.register(os._exit, 9)",
    "import threading, time; threading.Thread(target=time.sleep, args=(3,)).start()",
]
# These break the interpreter, which graphmp shares under `graphmp run`.
_BREAKS = [
    "import builtins; builtins.open = None",
    "import json; json.dumps = None",
    "import sys; sys.modules.clear()",
    "import sys; sys.argv = None",
]
_TEXTS: List[bytes] = [
    b"",
    b"def f(:\n",
    b"\0\0\0",
    b"# coding: nonsense\n",
    b"# -*- coding: utf-16 -*-\nx = 1\n",
    b"\xff\xfe",
    b"x = '\xff'\n",
    b"x = " + b"9" * 100000 + b"\n",
    b"x = " + b"(" * 5000 + b")" * 5000 + b"\n",
    b"x = " + b"-" * 50000 + b"1\n",
    b"x = " + b"1 + " * 20000 + b"1\n",
    b"if 1:\n" + b"".join(b" " * n + b"if 1:\n" for n in range(1, 120)) + b" " * 120 + b"pass\n",
    b"print 'python 2'\n",
    b"from __future__ import nothing\n",
    b"\xef\xbb\xbfx = 1\n",
    b"x = f'{" + b"{" * 300 + b"}'\n",
    b"import evil\n",
    b"async def f(): await 3\n",
    b"return 3\n",
    b"x: int = yield\n",
    b"\x1b[31m\n",
    b"x = 'a' 'b'\r\ny = 3\r",
    b"pass\n" * 300000,
]


def of_programs(rng: random.Random) -> Case:
    """A Python file that ends, kills or breaks its process, or is hardly Python."""
    _write(rng, [*_BEFORE, *_BREAKS])
    command = rng.choice(["convert", "convert", "inspect", "build", "audit", "explain"])
    if command == "audit":
        return Case(["audit", "p.py", "--random_data", "--steps=2"], _nothing_left, True, _SECONDS)
    if command in ("inspect", "explain"):
        return Case(
            [command, "p.py", *(["loss"] if command == "explain" else [])], processor=_SECONDS
        )
    source = (
        "p.py:" + rng.choice(["f", "go", "gone", "x", "a.b", ""]) if command == "build" else "p.py"
    )
    return Case(["convert", source, "-o", OUT], _nothing_left, True, _SECONDS)


def of_scripts(rng: random.Random) -> Case:
    """The same under `graphmp run`: it ends as it does under Python, in its own words."""
    data, place = _write(rng, _BEFORE), pathlib.Path.cwd().parent
    flags = rng.choice([[], ["--compute_dtype=bfloat16"], ["--on_error=stop"], ["--report=r.json"]])
    judge = functools.partial(_as_by_python, data, place)
    return Case(["run", *flags, "p.py"], judge, False, _SECONDS, apart=True, traces=True)


def _write(rng: random.Random, lines: List[str]) -> bytes:
    """Write the file, with one of the lines in it or hardly Python; its text."""
    if rng.random() < 0.5:
        data = rng.choice(_TEXTS)
        if rng.random() < 0.2:
            data = damage.damaged(rng, _NET.encode() + b"go()\n")
    else:
        before = rng.choice(lines).encode()
        data = before + b"\n" + _NET.encode() + b"go()\n"
        if rng.random() < 0.5:
            data = _NET.encode() + before + b"\ngo()\n"
    pathlib.Path("p.py").write_bytes(data)
    return data


def _as_by_python(data: bytes, place: pathlib.Path, status: int) -> str:
    """The fault in how a script ended; it is run without graphmp in a new folder."""
    folder = tempfile.mkdtemp(dir=str(place))
    pathlib.Path(folder, "p.py").write_bytes(data)
    ended = subprocess.run([sys.executable, "p.py"], cwd=folder, stdin=subprocess.DEVNULL)
    expected = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    no_python = expected or b"\0" in data  # 3.7 reads up to the first NUL
    if status == expected or (status == _REFUSED and no_python):
        return ""
    return "wrong success: exit status %d, and %d without graphmp" % (status, expected)


def _nothing_left(status: int) -> str:
    return "left behind: %s" % OUT if status and os.path.exists(OUT) else ""
