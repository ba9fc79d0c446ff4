"""Processes of a cluster on this machine: started, started again when they die, ended together."""

import json
import os
import shlex
import socket
import subprocess
import sys
import time


def launch(jobs, restarts, prefix=""):
    """Starts this program anew for each process of a cluster, and waits until all of the last job's have ended; then it ends the others.

    Args:
        jobs: how many processes each job has, by its name; the last is the one that works and ends.
        restarts: how often, in all, a process that dies is started again.
        prefix: what stands before the command of the last job's processes, such as "graphmp run".
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
    """Starts one process; it learns from TF_CONFIG which one it is."""
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
    """The cluster, job and number of this process, by TF_CONFIG; None where it says nothing."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    return (config["cluster"], config["task"]["type"], config["task"]["index"]) if config else None


def free_addresses(count):
    """Addresses of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = ["localhost:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return addresses
