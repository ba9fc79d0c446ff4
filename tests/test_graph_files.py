"""Reading graphs in every form, refusing what is none, and writing whole files only."""

from __future__ import annotations

import os
import random

import pytest
import tensorflow.compat.v1 as tf
from google.protobuf import text_format

from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.graph import files
from graphmp.graph.files import read_graph, serialize, write_atomic
from tests.corpus import corpus_graphs
from tests.tiny import meta_graph

TINY = meta_graph("x Placeholder dtype=float32", "w VariableV2 dtype=float32", "y MatMul x w:0 T=float32", "z NoOp ^y")
TINY.collection_def["losses"].node_list.value.append("y:0")
FUNCTIONS = tf.MetaGraphDef()
FUNCTIONS.CopyFrom(TINY)
FUNCTIONS.graph_def.library.function.add().signature.name = "a_function"
FUNCTIONS.graph_def.library.function[0].node_def.add(name="body", op="Relu")
FUNCTIONS.graph_def.library.gradient.add(function_name="a_function", gradient_func="another")


def binary(message):
    return message.SerializeToString()


def text(message):
    return text_format.MessageToString(message).encode("utf-8")


def refusal(path):
    with pytest.raises(GraphmpError) as caught:
        read_graph(path)
    assert "\n" not in str(caught.value)
    assert str(path) in caught.value.message
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


def test_text_with_byte_order_mark_and_comment(tmp_path):
    (tmp_path / "g").write_bytes(b"\xef\xbb\xbf# a comment\n" + text(TINY))
    assert serialize(read_graph(tmp_path / "g")) == serialize(TINY)


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
        (b'node { name: "x" op: "NoOp" } node { name: "x" op: "NoOp" }', "two nodes have the name x"),
        (b'node { name: "x" op: "Relu" input: "gone:1" }', "node x has the input gone:1"),
        (b"\x89PNG\r\n\x1a\n\x00\x12\xff", "11 bytes"),
        (b"\x00" * 1000, "1,000 bytes"),
        (b"PK\x03\x04\x12", "5 bytes"),
        (b"\xff\xfe", "2 bytes"),
        (binary(TINY) + b"\x0c", "bytes, and not a graph"),  # protobuf 3.20 only warns
        (binary(TINY.graph_def) + b"\x0c", "bytes, and not a graph"),
        (b"node { attr { key: 'a' value { func { attr { " * 3000, "text"),
        (binary(tf.MetaGraphDef(graph_def=tf.GraphDef(versions={"producer": 22}))), "no nodes"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_graph(tmp_path, data, found):
    (tmp_path / "bad.meta").write_bytes(data)
    error = refusal(tmp_path / "bad.meta")
    assert error.code == "GMP008"
    assert found in error.message
    assert "accepted is a MetaGraphDef or a GraphDef, binary or text" in error.message


def test_folder_and_missing_file(tmp_path):
    assert refusal(tmp_path).code == "GMP008"
    assert "found a folder" in refusal(tmp_path).message
    assert refusal(tmp_path / "gone.meta").code == "GMP003"
    assert refusal(tmp_path / "null\0character").code == "GMP003"


@pytest.mark.parametrize("form", [binary, text])
@pytest.mark.parametrize("wrapped", [True, False])
def test_cut_short(tmp_path, form, wrapped):
    """A cut is refused unless what is left is a graph in its own right: whole nodes, and none of their inputs missing."""
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


def test_damage_raises_nothing_else(tmp_path):
    generator = random.Random(0)
    forms = [binary(FUNCTIONS), text(FUNCTIONS), binary(FUNCTIONS.graph_def), text(FUNCTIONS.graph_def)]
    refused = 0
    for index in range(1200):
        data = bytearray(forms[index % len(forms)])
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        (tmp_path / "g").write_bytes(bytes(data))
        try:
            assert read_graph(tmp_path / "g").graph_def.node
        except GraphmpError as error:
            assert error.code == "GMP008"
            refused += 1
    assert refused > 300


def test_corpus_in_every_form(tmp_path):
    for path in corpus_graphs():
        graph = read_graph(path)
        assert serialize(graph) == serialize(tf.MetaGraphDef.FromString(path.read_bytes())), path.name
        (tmp_path / "graph_def").write_bytes(binary(graph.graph_def))
        bare = read_graph(tmp_path / "graph_def")
        assert serialize(bare) == serialize(tf.MetaGraphDef(graph_def=graph.graph_def)), path.name
        if path.stat().st_size < 300000:  # the text form takes a while
            (tmp_path / "text").write_bytes(text(graph))
            assert [n.name for n in read_graph(tmp_path / "text").graph_def.node] == [n.name for n in graph.graph_def.node], path.name


def test_corpus_cut_short(tmp_path):
    for path in corpus_graphs():
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

    monkeypatch.setattr(files.os, "replace", fail)
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
    """A pipe stands for all devices here; /dev/null itself would be gone if this failed."""
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
