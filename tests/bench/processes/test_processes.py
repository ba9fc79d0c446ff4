"""The processes of a bench: orders, answers, how they die."""

from __future__ import annotations

import signal

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.bench import graphs
from graphmp.bench.bench import FAILED, FLOAT32, OUT_OF_MEMORY, ProcessMemory
from graphmp.bench.kernels.shares import Shares
from graphmp.bench.processes import memory, processes
from graphmp.bench.processes.child import Child
from graphmp.bench.processes.processes import Process, Starter, Trouble, death
from graphmp.errors import GraphmpError
from tests.support.classifiers import classifier


@pytest.mark.parametrize(
    "returncode, log, limited, status, words",
    [
        (-signal.SIGKILL, "", False, OUT_OF_MEMORY, "ended by SIGKILL"),
        (
            -signal.SIGABRT,
            "terminate called after\n  what():  std::bad_alloc",
            False,
            OUT_OF_MEMORY,
            "ended by SIGABRT",
        ),
        (-signal.SIGSEGV, "", True, OUT_OF_MEMORY, "ended by SIGSEGV"),
        (
            -signal.SIGSEGV,
            "Fatal: check failed\n\n",
            False,
            FAILED,
            "ended by SIGSEGV; it printed last: Fatal: check failed",
        ),
        (3, "", True, FAILED, "exited with status 3; it printed last: nothing"),
    ],
)
def test_what_a_process_died_of(returncode, log, limited, status, words):
    trouble = death(returncode, log, limited)
    assert trouble.status == status and words in trouble.message


@pytest.mark.unit
def test_answers_of_a_child(conversion, tmp_path, monkeypatch):
    child = Child(processes.spec(graphs.make(conversion, tmp_path).trainings, 0, False))

    def answer(error):
        def raises(dtype):
            raise error

        monkeypatch.setattr(child, "accumulation", raises)
        return child.answer({"order": "accumulation", "arguments": ["float16"]})

    assert answer(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")) == {
        "trouble": [OUT_OF_MEMORY, "OOM when allocating"]
    }
    primitive = tf.errors.AbortedError(
        None,
        None,
        "Operation received an exception:Status: 1, message: could not create a primitive, in file"
        " mkl_conv_ops.cc",
    )
    assert answer(primitive)["trouble"][0] == OUT_OF_MEMORY  # oneDNN's
    assert answer(MemoryError("no room")) == {"trouble": [OUT_OF_MEMORY, "no room"]}
    assert answer(ValueError("what?")) == {"trouble": [FAILED, "what?"]}
    assert answer(GraphmpError("GMP002", "bad")) == {"error": ["GMP002", "bad", 2]}
    with pytest.raises(GraphmpError, match="GMP002: bad"):
        processes.value_of(answer(GraphmpError("GMP002", "bad")))


@pytest.mark.slow
def test_a_process_out_of_memory_is_an_answer_and_the_next_one_starts_anew(tmp_path):
    conversion = graphmp.convert(classifier(units=1024))
    trainings = graphs.make(conversion, tmp_path).trainings
    with Starter(tmp_path) as starter:
        with Process(processes.spec(trainings, 0, False), starter) as process:
            (small, large), _ = process.ask("make_batches", "", [8, 100000], 0, str(tmp_path))
        limit = (
            700 * 10**6
        )  # TensorFlow itself takes 200 or 370 MB, the large batch 410 for one layer
        with Process(processes.spec(trainings, limit, False), starter) as process:
            with pytest.raises(Trouble) as caught:
                process.ask("fit", FLOAT32, large[2], 1.0)
            assert caught.value.status == OUT_OF_MEMORY
            found, parts, ops, seconds = process.ask("fit", FLOAT32, small[2], 1.0)
            assert (
                ProcessMemory(*found).peak > 0
                and ProcessMemory(*found).rss > 10**8
                and Shares(*parts).products > 0
                and sum(ops.values()) < Shares(*parts).total
                and min(ops.values()) >= 0
                and 0 < seconds < 10
            )


@pytest.mark.unit
def test_an_allocators_peak_is_taken_where_there_is_one(monkeypatch):
    assert (
        memory.allocator_peak() is None
        and memory.measured(7).peak == 7
        and memory.measured(7).source == "run metadata"
    )
    monkeypatch.setattr(memory, "allocator_peak", lambda: 9)
    assert memory.measured(7)[:2] == (9, "allocator")


@pytest.mark.unit
def test_the_process_asks_to_be_killed_first(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_SCORE", tmp_path / "score")
    memory.be_killed_first()
    assert (tmp_path / "score").read_text() == "1000"
    monkeypatch.setattr(memory, "_SCORE", tmp_path / "gone" / "score")
    memory.be_killed_first()


def test_a_process_that_gives_no_answer_in_time_is_ended(tmp_path, monkeypatch):
    """A step of float16 that a CPU emulates may take minutes."""
    monkeypatch.setattr(processes, "_CHILD", "import time; time.sleep(60)")
    with processes.Starter(tmp_path) as starter:
        process = processes.Process(processes.spec({}, 0, False), starter)
        process._begun = True
        with pytest.raises(
            processes.Trouble,
            match=(
                "too slow: three steps take more than 0 s; give smaller --batch_sizes or more"
                " --seconds"
            ),
        ):
            process.ask("fit", "graphmp", "batch", 1.0, limit=0.1)
        assert starter._child is None and not process._begun
