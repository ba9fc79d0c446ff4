"""Clusters of parameter servers and workers on this machine.

Each is a forked process that runs examples/ps_cluster.py or another script. Every process has a
deadline, set by an alarm, and none is left behind.
"""

from __future__ import annotations

import json
import pathlib
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Pattern, Sequence

from tests.support.forks import PATIENCE, Ended, Fork, Forks
from tests.support.places import EXAMPLES

# The checkpoint that the chief saves before training, if a cluster keeps checkpoints.
START = "state/model.ckpt-0"

# A worker that starts before the chief has made the variables retries after 30 seconds by default.
# Here it retries at once, but only after the chief has saved the variables, as it would train them
# before.
SOON = """
import os, runpy, sys, time
import tensorflow.compat.v1 as tf
made, waited = tf.train.SessionManager.__init__, tf.train.SessionManager.wait_for_session
def __init__(self, *args, **kwargs):
    made(self, *args, **dict(kwargs, recovery_wait_secs=0.2))
folders = [arg.partition("=")[2] for arg in sys.argv if arg.startswith("--checkpoint_dir=")]
def wait_for_session(self, *args, **kwargs):
    while folders and not os.path.exists(os.path.join(folders[-1], "checkpoint")):
        time.sleep(0.05)
    return waited(self, *args, **kwargs)
tf.train.SessionManager.__init__ = __init__
tf.train.SessionManager.wait_for_session = wait_for_session
sys.path.insert(0, {folder!r})
"""
SCRIPT = (
    SOON
    + """
runpy.run_path({path!r}, run_name="__main__")
"""
)


class Cluster:
    """The processes of a cluster; a context manager."""

    def __init__(
        self,
        forks: Forks,
        ps: int,
        workers: int,
        *argv: str,
        flags: Optional[Sequence[str]] = None,
        script: str = "ps_cluster.py",
    ):
        """A cluster that isn't running yet.

        Args:
            forks: the process that forks.
            ps: the number of servers.
            workers: the number of workers.
            *argv: flags of the example.
            flags: of `graphmp run` for the workers; None for plain Python.
            script: a file of the examples, or of the working folder.
        """
        sys.path.insert(0, str(EXAMPLES))
        try:
            import cluster  # the module of the examples
        finally:
            sys.path.remove(str(EXAMPLES))
        self.addresses = {
            "ps": cluster.free_addresses(ps),
            "worker": cluster.free_addresses(workers),
        }
        self._forks, self._flags = forks, flags
        self._argv = (
            [*argv, "--workers=%d" % workers, "--ps=%d" % ps]
            if script == "ps_cluster.py"
            else list(argv)
        )
        self.running: Dict[str, Fork] = {}
        self.ended: Dict[str, List[Ended]] = {}
        path = (
            EXAMPLES / script if (EXAMPLES / script).is_file() else pathlib.Path(script).resolve()
        )
        pathlib.Path("process.py").write_text(SCRIPT.format(folder=str(EXAMPLES), path=str(path)))

    def __enter__(self) -> Cluster:
        for task in range(len(self.addresses["ps"])):
            self.start("ps", task)
        return self

    def __exit__(self, *_: Any) -> None:
        for name in list(self.running):
            self.kill(name)

    def start(self, job: str, task: int) -> Fork:
        """Start one process; again, if it has died."""
        name = "%s%d" % (job, task)
        config = {"cluster": self.addresses, "task": {"type": job, "index": task}}
        flags = self._flags if job == "worker" else None
        self.running[name] = self._forks.start(
            "process.py", *self._argv, flags=flags, env={"TF_CONFIG": json.dumps(config)}
        )
        return self.running[name]

    def start_workers(self) -> None:
        for task in range(len(self.addresses["worker"])):
            self.start("worker", task)

    def kill(self, name: str) -> None:
        """Kill a process by SIGKILL."""
        self.ended.setdefault(name, []).append(self.running.pop(name).kill(signal.SIGKILL))

    def wait(self) -> List[Ended]:
        """Wait until all workers have ended; return their results by number."""
        names = sorted(name for name in self.running if name.startswith("worker"))
        for name in names:
            self.ended.setdefault(name, []).append(self.running.pop(name).end())
        return [self.ended[name][-1] for name in names]

    def until(self, name: str, text: str) -> None:
        """Wait until a process has written `text`."""
        self.running[name].until(text)

    def until_any(self, pattern: Pattern[str]) -> None:
        """Wait until any process has written a match of `pattern`."""
        end = time.time() + PATIENCE
        while not any(pattern.search(fork.out) for fork in self.running.values()):
            assert time.time() < end, [fork.err for fork in self.running.values()]
            time.sleep(0.02)
