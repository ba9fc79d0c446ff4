"""Reading graphs of all formats, refusing other files, and writing files atomically."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.files.single import write_atomic
from graphmp.gate.reading import read_graph
from graphmp.graph.io import files, saved_model
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.cycles import find_cycle
from graphmp.graph.structure.view import GraphView
from graphmp.wording import printable
from tests.support.corpus import recorded
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

TINY = meta_graph(
    "x Placeholder dtype=float32",
    "w VariableV2 dtype=float32",
    "y MatMul x w:0 T=float32",
    "z NoOp ^y",
)
TINY.collection_def["losses"].node_list.value.append("y:0")
FUNCTIONS = tf.MetaGraphDef()
FUNCTIONS.CopyFrom(TINY)
FUNCTIONS.graph_def.library.function.add().signature.name = "a_function"
FUNCTIONS.graph_def.library.function[0].node_def.add(name="body", op="Relu")
FUNCTIONS.graph_def.library.gradient.add(function_name="a_function", gradient_func="another")
SAVED = saved_model.new()
SAVED.saved_model_schema_version = 1
SAVED.meta_graphs.add().CopyFrom(FUNCTIONS)
CLAIM = b"\x80\x80\x80\x80\x08"  # a length of 2 GiB


def binary(message):
    return message.SerializeToString()


def text(message):
    return text_format.MessageToString(message).encode("utf-8")


def field(number, content, length=None):
    """A field of bytes that claims the given length."""
    return (
        bytes([number << 3 | 2]) + (bytes([len(content)]) if length is None else length) + content
    )


def refusal(path, tag=""):
    with pytest.raises(GraphmpError) as caught:
        read_graph(path, tag)
    assert "\n" not in str(caught.value)
    assert printable(str(path)) in caught.value.message
    assert caught.value.exit_status == BAD_INPUT
    return caught.value


@pytest.mark.parametrize("graph", [TINY, FUNCTIONS], ids=["plain", "functions"])
@pytest.mark.parametrize("form", [binary, text])
@pytest.mark.parametrize("name", ["a.meta", "a.pb", "a.pbtxt", "noname"])
def test_content_decides_and_not_the_name(tmp_path, graph, form, name):
    path = tmp_path / name
    path.write_bytes(form(graph))
    assert serialize(read_graph(path)) == serialize(graph)
    path.write_bytes(form(graph.graph_def))
    wrapped = read_graph(str(path))
    assert serialize(wrapped) == serialize(tf.MetaGraphDef(graph_def=graph.graph_def))
    assert not wrapped.collection_def


@pytest.mark.parametrize("op", ["Const", "IdentityN", "Equal", "Placeholder", "PyFunc", "Pow"])
def test_graph_of_one_node(tmp_path, op):
    graph_def = meta_graph("n %s" % op).graph_def
    (tmp_path / "g").write_bytes(binary(graph_def))
    assert read_graph(tmp_path / "g").graph_def == graph_def


def test_meta_graph_with_a_version_is_no_graph_def(tmp_path):
    """Read as a GraphDef, its meta_info_def is a node with a name and an op."""
    graph = tf.MetaGraphDef(graph_def=tf.GraphDef(versions={"producer": 22}))
    graph.meta_info_def.meta_graph_version = "v"
    graph.meta_info_def.stripped_op_list.op.add(name="Relu")
    (tmp_path / "g").write_bytes(binary(graph))
    assert refusal(tmp_path / "g").code == "GMP008"
    graph.MergeFrom(TINY)
    (tmp_path / "g").write_bytes(binary(graph))
    assert serialize(read_graph(tmp_path / "g")) == serialize(graph)


@pytest.mark.parametrize("graph", [TINY, TINY.graph_def], ids=["MetaGraphDef", "GraphDef"])
def test_text_as_windows_writes_it(tmp_path, graph):
    (tmp_path / "g").write_bytes(
        b"\xef\xbb\xbf# a comment\r\n" + text(graph).replace(b"\n", b"\r\n")
    )
    assert serialize(read_graph(tmp_path / "g")) == serialize(
        TINY if graph is TINY else tf.MetaGraphDef(graph_def=graph)
    )


@pytest.mark.parametrize("form", [binary, text])
@pytest.mark.parametrize(
    "versions", [{}, {"version": 8}, {"versions": {"producer": 21, "min_consumer": 0}}], ids=str
)
def test_graph_of_an_old_tensorflow(tmp_path, form, versions):
    """No function library, attributes that have a default missing, the version in a field that
    is no longer used.
    """
    graph_def = tf.GraphDef(**versions)
    graph_def.node.extend(
        meta_graph(
            "x Placeholder dtype=float32", "y MatMul x:0 x T=float32", "z Mean y x"
        ).graph_def.node
    )
    (tmp_path / "old").write_bytes(form(graph_def))
    assert read_graph(tmp_path / "old").graph_def == graph_def
    (tmp_path / "old").write_bytes(form(tf.MetaGraphDef(graph_def=graph_def)))
    assert read_graph(tmp_path / "old").graph_def == graph_def


@pytest.mark.parametrize(
    "data, found",
    [
        (b"", "an empty file"),
        (b"\n\n", "no nodes"),
        (b"# nothing but a comment\n", "no nodes"),
        (b"hello world\n", "text, and not a graph (1:"),
        (b'node { name: "x" op: "NoOp" }\nnode { nome: "y" }', "(2:"),
        (b'node { name: "x" }', "no nodes"),
        (b'graph_def { node { op: "NoOp" } }', "no nodes"),
        (
            b'node { name: "x" op: "NoOp" } node { name: "x" op: "NoOp" }',
            "two nodes have the name x",
        ),
        (b'node { name: "x" op: "Relu" input: "gone:1" }', "node x has the input gone:1"),
        (b"\x89PNG\r\n\x1a\n\x00\x12\xff", "11 bytes"),
        (b"\x00" * 1000, "1,000 bytes"),
        (b"PK\x03\x04\x12", "5 bytes"),
        (b"\xff\xfe", "2 bytes"),
        (binary(TINY) + b"\x0c", "bytes, and not a graph"),  # protobuf 3.20 only warns
        (binary(TINY.graph_def) + b"\x0c", "bytes, and not a graph"),
        (b"node { attr { key: 'a' value { func { attr { " * 3000, "text"),
        (binary(tf.MetaGraphDef(graph_def=tf.GraphDef(versions={"producer": 22}))), "no nodes"),
        (
            b'node { name: "x" op: "NoOp" attr { key: "T" value { type: 99999999999 } } }',
            "99999999999",
        ),
        (b'node { name: "x" nome: "y" }', 'no field named "nome"'),
        (b"\x08\x01", "2 bytes, and not a graph (no nodes"),
        (b"saved_model_schema_version: 1 meta_graphs { }", "no nodes"),
        (
            b"saved_model_schema_version: 1 meta_graphs { graph_dof { } }",
            'no field named "graph_dof"',
        ),
        (
            b'node { name: "a" op: "NoOp" input: "^a" }',
            "a cycle outside while loops (node a depends on itself)",
        ),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_graph(tmp_path, data, found):
    (tmp_path / "bad.meta").write_bytes(data)
    error = refusal(tmp_path / "bad.meta")
    assert error.code == "GMP008"
    assert found in error.message
    assert (
        "accepted is a MetaGraphDef or a GraphDef, binary or text, or a SavedModel" in error.message
    )


@pytest.mark.parametrize(
    "graph", [TINY, TINY.graph_def, SAVED], ids=["MetaGraphDef", "GraphDef", "SavedModel"]
)
def test_a_string_that_is_no_utf8_is_refused_in_silence(tmp_path, capfd, graph):
    (tmp_path / "g").write_bytes(binary(graph).replace(b"Placeholder", b"Placeholde\xff"))
    assert refusal(tmp_path / "g").code == "GMP008"
    assert capfd.readouterr() == ("", "")
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


@pytest.mark.parametrize(
    "data",
    [
        CLAIM,
        b"\x0a" + CLAIM,
        b"\x0a\xff\xff\xff\xff\x07" + bytes(1000),
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x12" + CLAIM + bytes(1000),
        b"\x08\x01\x12" + CLAIM,
        b"\x08\x01" + field(2, field(2, field(1, field(1, b"x", CLAIM)))),
        field(1, field(1, b"x") + field(2, b"NoOp", CLAIM)),
        field(
            1,
            field(1, b"x")
            + field(2, b"Const")
            + field(5, field(1, b"value") + field(2, field(8, field(4, bytes(8), CLAIM)))),
        ),  # its content
        field(
            1,
            field(1, b"x")
            + field(2, b"Const")
            + field(5, field(1, b"value") + field(2, field(8, field(5, bytes(8), CLAIM)))),
        ),  # packed floats
        field(
            1,
            field(1, b"x")
            + field(2, b"Const")
            + field(5, field(1, b"value") + field(2, field(8, field(7, bytes(8), CLAIM)))),
        ),  # packed numbers
        binary(TINY) + b"\xf2\x7f" + CLAIM,
    ],
    ids=repr,
)
def test_a_claim_to_be_large_is_not_believed(tmp_path, data):
    (tmp_path / "g").write_bytes(data)
    before, start = memory_peak(), time.process_time()
    assert refusal(tmp_path / "g").code == "GMP008"
    assert time.process_time() - start < 10
    assert memory_peak() - before < 1 << 28


def memory_peak():
    """The largest address space used, in bytes, memory allocated but never touched included."""
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        pytest.skip("measured on Linux alone")
    return 1024 * int(status.read_text().split("VmPeak:")[1].split()[0])


@pytest.mark.parametrize("name", ["large.meta", "saved_model.pb"])
def test_a_file_beyond_protobuf_is_refused_by_its_size(tmp_path, monkeypatch, name):
    with open(str(tmp_path / name), "wb") as file:
        file.truncate(1 << 31)  # takes no space
    monkeypatch.setattr(files.pathlib.Path, "read_bytes", None)
    for path in [tmp_path / name] + [tmp_path] * (name == "saved_model.pb"):
        error = refusal(path)
        assert error.code == "GMP008"
        assert "found a file of 2,147,483,648 bytes; accepted is" in error.message
        assert "less than 2 GiB" in error.message


def test_folder_and_missing_file(tmp_path):
    assert refusal(tmp_path).code == "GMP008"
    assert (
        "found a folder without saved_model.pb or saved_model.pbtxt; accepted"
        in refusal(tmp_path).message
    )
    assert refusal(tmp_path / "gone.meta").code == "GMP003"
    assert refusal(tmp_path / "null\0character").code == "GMP003"
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert refusal(tmp_path / "circle").code == "GMP003"


def test_unreadable_file_and_folder(tmp_path, monkeypatch):
    """Root may read everything, so the refusal is simulated."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "g").write_bytes(binary(TINY))
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(files.saved_model.os, "listdir", refuse)
    for path in (tmp_path / "g", tmp_path):
        assert refusal(path).code == "GMP003"
        assert refusal(path).message.endswith(": Permission denied")


@pytest.mark.parametrize("form", [binary, text])
@pytest.mark.parametrize("wrapped", [True, False])
def test_cut_short(tmp_path, form, wrapped):
    """A truncated file is refused unless the rest is a graph of complete nodes and inputs."""
    whole = form(TINY if wrapped else TINY.graph_def)
    path, read = tmp_path / "g", 0
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            nodes = read_graph(path).graph_def.node
        except GraphmpError as error:
            assert error.code == "GMP008"
        else:
            read += 1
            assert list(nodes) == list(TINY.graph_def.node)[: len(nodes)]
    assert read < len(whole) / 10


FORMS = [
    form(graph) for graph in (FUNCTIONS, FUNCTIONS.graph_def, SAVED) for form in (binary, text)
]


@pytest.mark.parametrize("whole", FORMS, ids=lambda whole: repr(whole[:12]))
@settings(max_examples=200)
@given(
    flips=st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 4095),
    cuts=st.booleans(),
)
def test_damage_raises_nothing_else(whole, flips, cut, cuts):
    data = bytearray(whole)
    for place, value in flips:
        data[place % len(data)] = value
    if cuts:
        del data[cut % len(data) :]
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(data))
        file.flush()
        try:
            graph_def = read_graph(file.name).graph_def
        except GraphmpError as error:
            assert error.code == "GMP008"
            assert error.exit_status == BAD_INPUT
            return
    assert graph_def.node
    assert all(node.name and node.op for node in graph_def.node)
    assert find_cycle(GraphView(graph_def)) is None


CYCLES = [
    # (the first node that waits for itself, the graph)
    ("a", ["a AddN a"]),
    ("a", ["a NoOp ^a"]),
    ("a", ["a Relu b", "b Relu a"]),
    ("b", ["a Const", "b Add a d", "c Relu b", "d Relu b:0", "e Relu d"]),
    ("a", ["a NoOp ^b", "b Relu c ^a", "c Const"]),
    ("a", ["a Merge c b", "b Identity a", "c Const"]),
    (
        "a",
        ["a Merge c b", "b Identity n", "c Const", "n NextIteration a"],
    ),  # TensorFlow wants them side by side
    ("a", ["a Merge c ^n", "c Const", "n NextIteration a"]),
    ("a", ["a Identity n", "n NextIteration a"]),
    ("b", ["e Relu b", "b Relu a", "a Relu b", "d Identity c", "c Identity d"]),
    (None, ["a Merge c n", "c Const", "n NextIteration a"]),
    (None, ["a Merge c n:0 ^d", "c Const", "n NextIteration s:1 ^a ^s", "s Switch a d", "d Const"]),
    (None, ["a RefMerge c n", "c Const", "n RefNextIteration a"]),
    (
        None,
        [
            "a Merge e m",
            "e Enter c",
            "c Const",
            "b Merge f n",
            "f Enter a",
            "n NextIteration b",
            "x Exit b",
            "m NextIteration x",
        ],
    ),  # nested
    (None, ["c AddN a a:0 b ^a", "b AddN a a", "a Const"]),
    (None, ["a Const"]),
]


@pytest.mark.parametrize("cycle, lines", CYCLES, ids=lambda value: str(value)[:40])
def test_cycle(tmp_path, cycle, lines):
    graph = meta_graph(*lines)
    assert find_cycle(GraphView(graph.graph_def)) == cycle
    (tmp_path / "g").write_bytes(binary(graph))
    if cycle is None:
        assert read_graph(tmp_path / "g") == graph
        return
    error = refusal(tmp_path / "g")
    assert error.code == "GMP008"
    assert (
        "(the graph has a cycle outside while loops (node %s depends on itself)); accepted is"
        % cycle
        in error.message
    )


@settings(max_examples=200)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4), min_size=1, max_size=10
    )
)
def test_cycles_of_any_graph(edges):
    """Against the transitive closure. Edges are repeated too."""
    graph_def, reaches = tf.GraphDef(), np.zeros([len(edges)] * 2, bool)
    for node, inputs in enumerate(edges):
        before = [(place % len(edges), control) for place, control in inputs]
        graph_def.node.add(
            name="n%d" % node,
            op="AddN",
            input=["^" * control + "n%d" % place for place, control in before],
        )
        reaches[node, [place for place, _ in before]] = True
    for between in range(len(edges)):
        reaches |= np.outer(reaches[:, between], reaches[between])
    cyclic = ["n%d" % node for node in np.flatnonzero(reaches.diagonal())]
    assert find_cycle(GraphView(graph_def)) == next(iter(cyclic), None)


def test_tensorflow_refuses_the_same_cycles(tmp_path, graph):
    x = tf.placeholder(tf.float32, [2], "x")
    y = tf.while_loop(
        lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v) * x), (0, x), name="loop"
    )[1]
    tf.add_n([tf.gradients(y, x)[0], y], "sum")
    graph_def = graph.as_graph_def()
    (tmp_path / "g").write_bytes(binary(graph_def))
    assert read_graph(tmp_path / "g").graph_def == graph_def
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
    assert "NextIteration" in {node.op for node in graph_def.node}
    by_name = {node.name: node for node in graph_def.node}
    by_name["loop/Tanh"].input.append("^loop/mul")
    (tmp_path / "g").write_bytes(binary(graph_def))
    assert "node loop/Tanh depends on itself" in refusal(tmp_path / "g").message
    with tf.Graph().as_default(), pytest.raises(ValueError, match="cycle"):
        tf.import_graph_def(graph_def, name="")


def test_long_cycle_takes_no_stack_and_little_time():
    count = 20 * sys.getrecursionlimit()
    graph_def = tf.GraphDef()
    for index in range(count):
        graph_def.node.add(name="n%d" % index, op="Relu", input=["n%d" % ((index or count) - 1)])
    view, start = GraphView(graph_def), time.process_time()
    assert find_cycle(view) == "n0"
    assert time.process_time() - start < 2


@recorded(slice(1, None, 3), slow=slice(None))
def test_recorded_graphs_in_every_form(paths, tmp_path):
    for path in paths:
        graph = read_graph(path)
        assert serialize(graph) == serialize(tf.MetaGraphDef.FromString(path.read_bytes())), (
            path.name
        )
        (tmp_path / "graph_def").write_bytes(binary(graph.graph_def))
        bare = read_graph(tmp_path / "graph_def")
        assert serialize(bare) == serialize(tf.MetaGraphDef(graph_def=graph.graph_def)), path.name
        if path.stat().st_size < 300000:  # the text form takes a while
            (tmp_path / "text").write_bytes(text(graph))
            assert [n.name for n in read_graph(tmp_path / "text").graph_def.node] == [
                n.name for n in graph.graph_def.node
            ], path.name


@recorded()
def test_recorded_graphs_cut_short(paths, tmp_path):
    for path in paths:
        data = path.read_bytes()
        (tmp_path / "cut.meta").write_bytes(data[: len(data) // 3])
        assert refusal(tmp_path / "cut.meta").code == "GMP008", path.name


def test_write_atomic(tmp_path):
    path = tmp_path / "out.bin"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(str(tmp_path)) == ["out.bin"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, error):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")

    def fail(source, target):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((GraphmpError, KeyboardInterrupt)):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(str(tmp_path)) == ["out.bin"]


def test_unwritable_folder_names_the_file(tmp_path):
    path = tmp_path / "missing" / "out.bin"
    with pytest.raises(GraphmpError, match=r"out\.bin: cannot be written: No such file") as caught:
        write_atomic(path, b"")
    assert caught.value.code == "GMP004"
    with pytest.raises(GraphmpError, match="GMP004"):
        write_atomic(tmp_path, b"a folder")


def test_links_are_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    """A pipe represents all devices: a failure with /dev/null would delete it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(str(pipe))
    reader = os.open(str(pipe), os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, b"data")
        assert pipe.is_fifo()
        assert os.read(reader, 100) == b"data"
    finally:
        os.close(reader)


def test_serialize_is_deterministic():
    graph, reordered = tf.MetaGraphDef(), tf.MetaGraphDef()
    names = ["collection_%d" % i for i in range(50)]
    for name in names:
        graph.collection_def[name].node_list.value.append(name)
    for name in reversed(names):
        reordered.collection_def[name].node_list.value.append(name)
    assert serialize(graph) == serialize(reordered)
