"""Steps that read their batch from the device's memory."""

import json
import pathlib

import numpy as np
import pytest

import graphmp
from graphmp.bench import graphs
from graphmp.bench.processes import feeds, processes, resident
from graphmp.bench.processes.child import Child
from graphmp.bench.processes.timed_session import TimedSession
from tests.support.classifiers import classifier


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainings")
    conversion = graphmp.convert(classifier(), compute_dtype="float16")
    return graphs.make(conversion, folder).trainings


@pytest.fixture
def batches(trainings, tmp_path):
    with TimedSession(trainings["float32"]) as session:
        return feeds.make(session, "", [8], 0, tmp_path)[0]


def test_steps_are_those_of_a_fed_batch(trainings, batches, monkeypatch):
    batch = feeds.read(batches.path, 1)[0]
    monkeypatch.setattr(resident, "LARGE", 1)
    for training in trainings.values():
        found = []
        session, fed = resident.opened(training, batch)
        with session, TimedSession(training) as plain:
            assert set(batch) - set(fed) == {"x:0"}
            for each, given in ((session, fed), (plain, batch)):
                assert "x" in each.view.nodes
                found.append(each.session.run("x:0", given))
                each.step(given)
        np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("sizes", [(8, 4, 6), (8,)])
def test_batches_of_several_sizes_are_said(trainings, tmp_path, monkeypatch, sizes):
    monkeypatch.chdir(tmp_path)
    with TimedSession(trainings["float32"]) as session:
        shapes = {
            tensor.name: (tensor.shape[1:], tensor.dtype.as_numpy_dtype)
            for tensor in feeds.wanted_tensors(session.graph, session.view, feeds._names(session))
        }
        pathlib.Path("f.py").write_text(
            "import numpy as np\nSHAPES = %r\ndef f(step):\n"
            "    size = %r[step %% %d]\n    return {name: np.ones((size, *shape), dtype)\n"
            "            for name, (shape, dtype) in SHAPES.items()}\n"
            % ({n: (s, np.dtype(d).name) for n, (s, d) in shapes.items()}, sizes, len(sizes))
        )
        (made,) = feeds.make(session, "f.py:f", [8], 0, tmp_path)
    assert made.batch_size == 8 and feeds.BatchFile(*json.loads(json.dumps(made))) == made
    said = "the batches of --data have sizes 8, 4, 6, 8: times are of all of them, not of 8 alone"
    assert made.in_words == (said if len(sizes) > 1 else "")


def test_small_tensors_and_integers_are_fed(trainings, batches, monkeypatch):
    batch = feeds.read(batches.path, 1)[0]
    session, fed = resident.opened(trainings["float32"], batch)
    with session:
        assert fed == batch  # x has less than a megabyte
    monkeypatch.setattr(resident, "LARGE", 1)
    session, fed = resident.opened(trainings["float32"], batch)
    with session:
        assert {value.dtype for value in fed.values()} == {np.dtype(np.int32)}


@pytest.mark.parametrize("kept", [False, True])
def test_a_process_times_them(trainings, batches, monkeypatch, kept):
    monkeypatch.setattr(resident, "LARGE", 1)
    specification = json.loads(json.dumps(processes.spec(trainings, 0, False, kept)))
    child = Child(specification)
    for name in ("float32", "graphmp"):
        written = pathlib.Path(trainings[name].path + resident.SUFFIX)
        if written.exists():
            written.unlink()
        child.open(name, batches.path, 2)
        assert len(child.steps(name, batches.path, 3)) == 3
        assert written.exists() == kept
        child.close(name)
