"""A supervised command: a crash is one line, signals reach it, and its status is passed on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from graphmp.cli import supervised
from graphmp.time_limit import ALARM
from tests.support.places import ROOT

BEGINS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from graphmp.cli.supervised import supervise
parent = os.getpid()
assert supervise("graphmp audit") and os.getppid() == parent
"""


def started(body):
    return subprocess.Popen(
        [sys.executable, "-c", BEGINS + body],
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )


def ended(body):
    process = started(body)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_output_and_status_are_the_childs():
    assert ended("print('x'); sys.exit(7)") == (7, "x\n", "")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE"])
def test_a_crash_is_one_line(name):
    status, out, err = ended("os.kill(os.getpid(), signal.%s)" % name)
    assert (status, out) == (2, "")
    assert err == (
        "graphmp: error GMP028: graphmp audit: TensorFlow crashed (%s) on what it was given; try"
        " another version, or other data\n" % name
    )


def test_a_kill_and_the_alarm_clock_are_one_line():
    assert "GMP028: graphmp audit: its process was killed" in ended("os.kill(os.getpid(), 9)")[2]
    clock = """
from graphmp.time_limit import alarmed, limited_runs
import graphmp.time_limit
graphmp.time_limit._GRACE = 0.1
with limited_runs(0.1, ends_process=True), alarmed():
    time.sleep(60)
"""
    status, _, err = ended(clock)
    assert status == 2 and "GMP030: a run of the graph did not end in time" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_reaches_the_child_once(name):
    process = started(
        """
got = []
signal.signal(signal.%s, lambda *_: got.append(1))
print("ready", flush=True)
while not got: time.sleep(0.01)
time.sleep(0.2)
sys.exit(40 + len(got))
"""
        % name
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=60)
    assert process.returncode == 41


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends it")
def test_a_killed_parent_takes_the_child_with_it():
    process = started("print(os.getpid(), flush=True); time.sleep(60)")
    child = int(process.stdout.readline())
    process.kill()
    process.wait(timeout=60)
    until = time.monotonic() + 10
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(process):
    """Whether a process is there and no zombie."""
    try:
        with open("/proc/%d/stat" % process) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_ends_as_told_without_a_line():
    assert ended("signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), 15)") == (
        128 + 15,
        "",
        "",
    )


@pytest.mark.unit
def test_nothing_is_forked_beside_threads(monkeypatch):
    monkeypatch.setattr(supervised.threading, "active_count", lambda: 2)
    pid = os.getpid()
    assert not supervised.supervise("graphmp audit") and os.getpid() == pid
    assert ALARM == signal.SIGALRM
