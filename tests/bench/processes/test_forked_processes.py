"""The processes of a bench are forked from one that has imported TensorFlow."""

from __future__ import annotations

import pytest

from graphmp.bench.bench import FLOAT32
from graphmp.bench.processes import processes
from graphmp.bench.processes.processes import Process, Starter, Trouble


@pytest.mark.slow
def test_processes_are_forked_from_one_that_imported_tensorflow(tmp_path):
    specification = processes.spec({}, 0, False)
    with Starter(tmp_path) as starter:
        with Process(specification, starter) as process:
            assert set(process.ask("accumulation", "float16")) == {"matmul", "convolution"}
            first = starter._child.pid
        with Process(specification, starter) as process:
            with pytest.raises(Trouble, match="float32"):
                process.ask("fit", FLOAT32, "gone", 1.0)
            assert process.ask("accumulation", "float16")  # it goes on
        assert starter._child.pid == first
        with Process(dict(specification, trainings=None), starter) as process, pytest.raises(
            Trouble, match=r"exited with status 1; .*printed last"
        ):
            process.ask("accumulation", "float16")
        assert starter._child.pid == first
    assert starter._child is None
