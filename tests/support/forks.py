"""Scripts in forks of a process that has imported TensorFlow, which saves the import time.

They run under `graphmp run`, from its start, or under plain Python. A fork runs the script as its
main program, so that uncaught exceptions, signals and exit hooks end it as they would end the real
one.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from graphmp.cli import run
from graphmp.cli.main import COMMANDS
from graphmp.cli.parser import build_parser
from tests.support.places import ROOT

PATIENCE = 100  # seconds; a script that hangs is ended by SIGALRM
EMULATED = 1800  # seconds; with half precision that the CPU emulates
NET = """
import sys, time
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior() if tf.__version__ > "2" else None
tf.logging.set_verbosity(tf.logging.ERROR)
X = np.random.RandomState(0).randn(16, 8).astype("f")
def build():
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [None, 8], "x")
    hidden = tf.layers.dense(x, 16, tf.nn.relu, name="hidden")
    out = tf.layers.dense(hidden, 1, name="out")
    loss = tf.reduce_mean(tf.square(out - x[:, :1] * 2), name="loss")
    step = tf.train.get_or_create_global_step()
    return x, loss, tf.train.AdamOptimizer(0.01).minimize(loss, step, name="train")
"""
NUMBER = re.compile(r"\d+\.\d+")
SERVER = """
import atexit, gc, json, os, signal, sys, threading
sys.path.append(sys.argv[1])
from graphmp.cli import launcher
launcher.tf.layers.dense  # imports Keras
gc.freeze()  # a fork that ends would look through all that was imported
job = None
while job is None:
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    order = json.loads(line)
    answer = os.waitpid(order["wait"], 0)[1] if "wait" in order else os.fork()
    if not answer and "wait" not in order:
        job = order
    else:
        print(answer, flush=True)
os.chdir(job["folder"])
os.environ.update(job["env"])
for number, path in enumerate(job["files"]):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY), number)
signal.alarm(job["patience"])
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background
if job["spec"]:
    launcher.start(job["spec"])
else:
    import runpy
    sys.argv = job["argv"]
    sys.path[0] = os.path.dirname(os.path.realpath(job["argv"][0]))
    runpy.run_path(job["argv"][0], run_name="__main__")
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush(), sys.stderr.flush()
os._exit(0)  # unloading modules is slower than most scripts; Python ends those that raise or exit
"""


class Ended(NamedTuple):
    """The end of a script: exit status as in `subprocess`, output, and graphmp's messages."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Its output, without decimal numbers."""
        return NUMBER.sub("_", self.out)

    @property
    def numbers(self) -> List[float]:
        """The decimal numbers in its output."""
        return [float(text) for text in NUMBER.findall(self.out)]

    @property
    def said(self) -> List[str]:
        """graphmp's own lines, without the beginnings of other threads' output."""
        return re.findall("graphmp: (.*)", self.err)


class Fork:
    """A running script."""

    def __init__(self, forks: Forks, pid: int, files: Sequence[str]):
        self._forks = forks
        self._files = files
        self.pid = pid

    @property
    def out(self) -> str:
        """Its output so far."""
        return _read(self._files[1])

    @property
    def err(self) -> str:
        """Its stderr so far."""
        return _read(self._files[2])

    def until(self, text: str) -> None:
        """Wait until it has written `text`."""
        end = time.time() + PATIENCE
        while text not in self.out:
            assert time.time() < end, self.err
            time.sleep(0.02)

    def kill(self, number: int) -> Ended:
        os.kill(self.pid, number)
        return self.end()

    def end(self) -> Ended:
        status = self._forks.ask(wait=self.pid)
        return Ended(
            -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
            _read(self._files[1]),
            _read(self._files[2]),
        )


class Forks:
    """The process that forks; a context manager."""

    def __enter__(self) -> Forks:
        env = dict(os.environ, PYTHONWARNINGS="ignore")
        command = [sys.executable, "-c", SERVER, str(ROOT)]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def ask(self, **order: Any) -> int:
        self._server.stdin.write(json.dumps(order).encode() + b"\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def start(
        self,
        script: str,
        *argv: str,
        flags: Optional[Sequence[str]] = (),
        stdin: str = "",
        env: Optional[Dict[str, str]] = None,
        folder: str = "",
        patience: int = PATIENCE,
    ) -> Fork:
        """Start a script of a folder, by default the working one.

        It runs under `graphmp run`, or under plain Python if `flags` is None, for `patience` seconds
        at most.
        """
        spec = None
        if flags is not None:
            spec = json.dumps(
                run._spec(build_parser(COMMANDS, "").parse_args(["run", *flags, script, *argv]))
            )
        own = tempfile.mkdtemp(dir=self._folder.name)
        files = [os.path.join(own, kind) for kind in ("stdin", "stdout", "stderr")]
        pathlib.Path(files[0]).write_text(stdin)
        for file in files[1:]:
            pathlib.Path(file).write_text("")
        folder = folder or os.getcwd()
        pid = self.ask(
            spec=spec,
            argv=[script, *argv],
            folder=folder,
            files=files,
            patience=patience,
            env=env or {},
        )
        return Fork(self, pid, files)

    def run(self, script: str, *argv: str, **options: Any) -> Ended:
        """The end of a script; the options are those of `start`."""
        return self.start(script, *argv, **options).end()


def builds_in_forks(forks: Forks, folder: pathlib.Path) -> Any:
    """A replacement for `subprocess` in `conversion/builds.py` that builds a script's graph in a
    fork.

    `folder` is for a temporary file.
    """
    script = folder / "build_in_fork.py"
    script.write_text("import sys\nfrom graphmp.conversion.child import main\nmain(sys.argv[1])\n")

    def run_build(
        command: Sequence[str], stdout: Any, **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        ended = forks.run(str(script), command[-1], flags=None)
        stdout.write((ended.out + ended.err).encode())
        return subprocess.CompletedProcess(command, ended.status)

    return types.SimpleNamespace(
        run=run_build, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT
    )


def _read(file: str) -> str:
    return pathlib.Path(file).read_text()
