"""The gate: hostile graphs are refused in one line, and what TensorFlow takes is taken."""

import time

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.conversion.convert import convert
from graphmp.errors import GraphmpError
from graphmp.gate.functions import recursion
from graphmp.gate.gate import check
from graphmp.gate.reading import read_graph
from graphmp.graph.io.files import parse_graph
from graphmp.verify import verify
from tests.support import hostile_graphs as hostile
from tests.support.corpus import recorded

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", hostile.REFUSED)
def test_refused(name):
    case = hostile.REFUSED[name]
    with pytest.raises(GraphmpError) as error:
        check(hostile.made(case))
    assert error.value.code == "GMP008"
    assert case.said in error.value.message
    assert "\n" not in error.value.message and len(error.value.message) < 400


@pytest.mark.parametrize("name", sorted(hostile.TOLERATED))
def test_tolerated(name):
    check(hostile.made(hostile.TOLERATED[name]))


@recorded()
def test_recorded_graphs_pass(paths):
    for path in paths:
        meta_graph = parse_graph(path)[1]
        before = meta_graph.SerializeToString(deterministic=True)
        check(meta_graph)
        assert meta_graph.SerializeToString(deterministic=True) == before


def test_a_file_is_refused_by_name(tmp_path):
    path = tmp_path / "bad.meta"
    path.write_bytes(hostile.made(hostile.REFUSED["device"]).SerializeToString())
    with pytest.raises(GraphmpError, match=r"bad.meta: found a damaged graph .*gpu:zero"):
        read_graph(path)


def test_python_graphs_pass_the_gate_too():
    with pytest.raises(GraphmpError, match="F -> G -> H -> F"):
        convert(hostile.made(hostile.REFUSED["functions that call each other"]))


def given(name):
    return hostile.made({**hostile.REFUSED, **hostile.TOLERATED}[name])


@pytest.mark.parametrize("name", hostile.REFUSED)
def test_diff_refuses_in_python(name):
    for graphs in ((given(name), hostile.base()), (hostile.base(), given(name))):
        with pytest.raises(GraphmpError) as error:
            graphmp.diff(*graphs)
        assert error.value.code == "GMP008"
    with pytest.raises(GraphmpError, match="GMP008"):
        graphmp.diff(hostile.base(), hostile.base()).apply(given(name))


@pytest.mark.parametrize("name", hostile.REFUSED)
def test_no_proof_of_what_is_refused(name):
    proof = verify(hostile.base(), given(name))
    assert proof.is_broken and not proof.ok
    assert hostile.REFUSED[name].said in proof.claims[0].text


@pytest.mark.parametrize("name", hostile.TOLERATED)
def test_diff_takes_what_is_tolerated(name):
    diff = graphmp.diff(hostile.base(), given(name))
    assert graphmp.diff(given(name), diff.apply(hostile.base())).identical


def test_a_bare_graph_is_given():
    bare = hostile.base().graph_def
    before = bare.SerializeToString(deterministic=True)
    diff = graphmp.diff(bare, hostile.base())
    assert (
        diff.identical
        and diff.apply(bare).graph_def.SerializeToString(deterministic=True) == before
    )
    assert verify(bare, bare).ok == verify(hostile.base(), hostile.base()).ok


@pytest.mark.parametrize("thing", [None, b"", 3, "graph.meta", tf.NodeDef()])
def test_what_is_no_graph(thing):
    for call in (graphmp.diff, verify):
        with pytest.raises(GraphmpError, match=r"GMP002: .*accepted is a MetaGraphDef"):
            call(hostile.base(), thing)


@pytest.mark.parametrize("report", [{"changes": [3]}, {"changes": 3}, {"changes": [{}]}, [], "x"])
def test_a_report_that_is_none(report):
    with pytest.raises(GraphmpError, match="GMP002: diff: the report: "):
        graphmp.diff(hostile.base(), hostile.base(), report)


def test_changes_of_another_graph():
    other = hostile.base()
    hostile.node(other, "out").name = "end"
    diff = graphmp.diff(other, hostile.made(hostile.TOLERATED["unknown op"]))
    with pytest.raises(GraphmpError, match=r"GMP002: Diff.apply: found another graph"):
        diff.apply(hostile.base())


@pytest.mark.parametrize(
    "calls, chain",
    [
        ({"a": ["b", "c"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"a": ["a"]}, ["a", "a"]),
        ({str(n): [str(n + 1)] * 2 for n in range(5000)}, None),
    ],
)
def test_recursion(calls, chain):
    if chain is None:
        calls["5000"], chain = [], []
    assert recursion(calls) == chain


def seconds(graph):
    start = time.process_time()
    check(graph)
    return time.process_time() - start


@pytest.mark.parametrize(
    "make, size", [(hostile.chain, 4000), (hostile.many_controls, 8000)], ids=["chain", "controls"]
)
def test_time_is_linear(make, size):
    check(make(10))
    short, long = make(size), make(4 * size)
    assert min(seconds(long) for _ in range(3)) < 10 * min(seconds(short) for _ in range(3))


def test_many_functions():
    check(hostile.many_functions(2000))
