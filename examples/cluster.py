"""Processes of a cluster on this machine: started, restarted when they die, and ended together."""

import json
import os
import shlex
import socket
import subprocess
import sys
import time


def launch(jobs, restarts, prefix=""):
    """Start this program for each process of a cluster, and wait for all processes of the last job.

    Then end the others.

    Args:
        jobs: the number of processes of each job, by name; the last job does the work and ends.
        restarts: how often, in all, a process that dies is restarted.
        prefix: a prefix of the command of the last job's processes, such as "graphmp run".
    """
    cluster = {job: free_addresses(count) for job, count in jobs.items()}
    last = list(jobs)[-1]
    prefixes = {last: shlex.split(prefix)}
    running = {}
    try:
        for job in jobs:
            for task in range(jobs[job]):
                running[job, task] = start(cluster, job, task, prefixes)
        while any(job == last for job, _ in running):
            time.sleep(0.1)
            for role, process in list(running.items()):
                if process.poll() == 0:
                    del running[role]
                elif process.poll() is not None:
                    restarts -= 1
                    if restarts < 0:
                        raise SystemExit(
                            "%s: %s %d ended with status %d"
                            % (os.path.basename(sys.argv[0]), *role, process.returncode)
                        )
                    running[role] = start(cluster, *role, prefixes)
    finally:
        for process in running.values():
            process.kill()


def start(cluster, job, task, prefixes):
    """Start one process, with its role in TF_CONFIG."""
    config = json.dumps({"cluster": cluster, "task": {"type": job, "index": task}})
    command = [*(prefixes.get(job) or [sys.executable]), *sys.argv]
    try:
        process = subprocess.Popen(command, env=dict(os.environ, TF_CONFIG=config))
    except OSError as error:
        raise SystemExit(
            "%s: can't start %s: %s" % (os.path.basename(sys.argv[0]), command[0], error.strerror)
        ) from None
    print("%s %d  process %d" % (job, task, process.pid), flush=True)
    return process


def own_role():
    """The cluster, job and number of this process, from TF_CONFIG; None if it isn't set."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    return (config["cluster"], config["task"]["type"], config["task"]["index"]) if config else None


def free_addresses(count):
    """Unused addresses of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = ["localhost:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return addresses
