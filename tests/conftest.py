"""Shared by all tests: TensorFlow 1 behaviour, a fresh graph, and the slow ones on demand."""

import gc
import importlib
import os
import subprocess

import pytest

from tests.support.corpus import VARIABLE, corpus_graphs
from tests.support.drawn import draw
from tests.support.forks import NET, Forks, builds_in_forks
from tests.support.slow import mark_slow

NO_CORPUS = "no corpus: set %s to the folder with corpus/meta" % VARIABLE
left_out = {}  # how many slow tests, as a worker counted them


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests that take long")


def pytest_configure(config):
    """Starts TensorFlow, but for the process that hands out tests to workers.

    These can begin at once.
    """
    draw(config.getoption("hypothesis_seed"))
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):
        importlib.import_module("tests.support.started")


def pytest_collection_modifyitems(config, items):
    mark_slow(items)
    if not config.getoption("--slow"):
        leave_out_slow(config, items)
    if not corpus_graphs():
        skip(items, "corpus", NO_CORPUS)


def pytest_collection_finish():
    """Keeps what is imported by now out of garbage collections.

    Each would look through all of TensorFlow.
    """
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """The same for what the tests of a file leave in caches, once garbage is gone.

    Benches collect before each timing.
    """
    if nextitem is None or nextitem.fspath != item.fspath:
        gc.collect()
        gc.freeze()


def leave_out_slow(config, items):
    """Deselects the slow tests: skipping thousands, one by one, would take as long as many tests."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
    getattr(config, "workeroutput", left_out)["slow"] = len(slow)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Takes over what a worker left out: each collects all tests."""
    left_out.update(slow=getattr(node, "workeroutput", {}).get("slow", 0))


def skip(items, mark, reason):
    """Skips the tests that have a mark."""
    for item in items:
        if item.get_closest_marker(mark):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Holds unit tests and their fixtures to what they are."""
    import tensorflow.compat.v1 as tf

    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("unit"):
            for owner, name in (
                (tf.Session.__base__, "__init__"),
                (subprocess.Popen, "__init__"),
                (os, "fork"),
            ):
                patch.setattr(owner, name, refuse)
            patch.setattr("graphmp.glass.CAN_FORK", False)
        yield


def refuse(*_, **__):
    raise AssertionError("a unit test opens no session and starts no process")


def pytest_terminal_summary(terminalreporter):
    """Says once what was left out or skipped for want of the corpus, and how to have it run."""
    if left_out.get("slow"):
        terminalreporter.write_line(
            "slow tests left out: %d; --slow runs them too" % left_out["slow"]
        )
    count = sum(
        NO_CORPUS in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())
    )
    if count:
        text = (
            "skipped %d tests on recorded graphs of others, beside those of tests/data: to run"
            " them, set %s to the folder with corpus/meta"
        )
        terminalreporter.write_line(text % (count, VARIABLE))


@pytest.fixture
def graph():
    """A fresh graph with a seed, the default one for the test."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as fresh:
        tf.set_random_seed(1)
        yield fresh


@pytest.fixture(scope="session")
def forks():
    """The process that runs scripts by forking."""
    with Forks() as forks:
        yield forks


@pytest.fixture
def built_in_forks(forks, tmp_path_factory, monkeypatch):
    """Has `graphmp convert` build a script's graphs in forks.

    TensorFlow is imported once, not by each process.
    """
    monkeypatch.setattr(
        "graphmp.conversion.builds.subprocess",
        builds_in_forks(forks, tmp_path_factory.mktemp("builds")),
    )


@pytest.fixture
def net_folder(tmp_path, monkeypatch):
    """The working folder, with the module `net` in it that forked scripts import."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    return tmp_path
