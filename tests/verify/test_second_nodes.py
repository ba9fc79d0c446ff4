"""Nodes that do what another one does, and what added nodes wait for or say."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.proved import Planted, open_claims, original_and_converted

SCALE = "graphmp/loss_scale/"


def model():
    """A matmul of a placeholder, noise, a sum, a Saver."""
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    rate = tf.placeholder_with_default(0.5, [], name="rate")
    noise = tf.random_normal([4, 8], name="noise")
    with tf.variable_scope("net"):
        kernel = tf.get_variable("kernel", [8, 8])
        other = tf.get_variable("other", [8, 8])
    hidden = tf.matmul(tf.matmul(x + noise * rate, kernel), other)
    y = tf.placeholder(tf.float32, [None, 8], name="y")
    loss = tf.reduce_mean(tf.square(tf.add_n([hidden + y, noise], name="added")))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train")
    tf.global_variables_initializer()
    tf.train.Saver()


@pytest.fixture(scope="module")
def graphs():
    return original_and_converted(model)


def failed(graphs, spoil):
    """The claims about a spoilt copy that don't hold."""
    graph = Planted(graphs[1])
    spoil(graph)
    return open_claims(graphs[0], graph.meta_graph)


def copied(graph, name, copy):
    """Adds a copy of a node."""
    node = graph.nodes[name]
    graph.add(copy, node.op, list(node.input), **dict(node.attr))


def reader(graph, name):
    """A node that reads another, and the place where it does."""
    return next(
        (node, place)
        for node in graph.nodes.values()
        for place, text in enumerate(node.input)
        if text == name
    )


@pytest.mark.unit
@pytest.mark.parametrize("name", ["x", "rate", "y"])
def test_a_second_placeholder(graphs, name):
    """Whoever feeds the first doesn't feed it."""

    def spoil(graph):
        node, place = reader(graph, name)
        copied(graph, name, "graphmp/copy")
        node.input[place] = "graphmp/copy"

    assert not open_claims(*graphs)
    assert "reads graphmp/copy in place" in failed(graphs, spoil)["same graph"] or (
        "graphmp/copy fits no template" in failed(graphs, spoil)["same graph"]
    )


@pytest.mark.unit
def test_noise_that_is_drawn_twice(graphs):
    name = "noise/RandomStandardNormal"

    def spoil(graph, both):
        node, place = reader(graph, name)
        for copy in ("graphmp/one", "graphmp/other"):
            copied(graph, name, copy)
        moved = graph.nodes[name]
        moved.Clear()
        moved.name, moved.op = name, "Identity"
        moved.input.append("graphmp/one")
        moved.attr["T"].type = tf.float32.as_datatype_enum
        if both:
            node.input[place] = "graphmp/other"

    assert "graphmp/other" in failed(graphs, lambda graph: spoil(graph, True))["same graph"]


def cast_of(graph, name):
    """The added cast of a tensor to half precision."""
    return next(
        node
        for node in graph.nodes.values()
        if node.op == "Cast" and node.input[0] == name and "graphmp" in node.name
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "waits, text",
    [
        ("y", "runs y, which it does not in the original"),
        (SCALE + "good_steps/Assign", "runs %sgood_steps/Assign" % SCALE),
    ],
)
def test_a_cast_that_waits_for_more(graphs, waits, text):
    """The model can no longer be run alone, or each run starts the count of steps anew."""
    found = failed(graphs, lambda g: cast_of(g, "net/kernel/read").input.append("^" + waits))
    assert text in found["same graph"]


@pytest.mark.unit
@pytest.mark.parametrize("name", ["", "net/other"])
def test_another_colocation(graphs, name):
    def spoil(graph):
        node = graph.nodes["net/kernel/read"]
        node.attr["_class"].list.s[:] = [b"loc:@" + name.encode()] if name else []

    found = failed(graphs, spoil)["same graph"]
    text = "net/kernel/read is colocated with %s, in the original with net/kernel"
    assert text % (name or "nothing") in found


@pytest.mark.unit
def test_a_saver_on_another_device(graphs):
    found = failed(graphs, lambda g: setattr(g.nodes["save/SaveV2"], "device", "/device:CPU:0"))
    assert "save/SaveV2 is on device '/device:CPU:0'" in found["same graph"]


@pytest.mark.unit
def test_an_attribute_that_an_op_does_not_have(graphs):
    def spoil(graph):
        cast_of(graph, "net/kernel/read").attr["_kernel"].s = b"other"

    assert "has an attribute _kernel, which a Cast does not" in failed(graphs, spoil)["same graph"]


@pytest.mark.unit
@pytest.mark.parametrize("name", ["added", "save/SaveV2"])
def test_another_kernel(graphs, name):
    def spoil(graph):
        graph.nodes[name].attr["_kernel"].s = b"other"

    assert "%s has an attribute _kernel" % name in failed(graphs, spoil)["same graph"]


@pytest.mark.unit
@pytest.mark.parametrize("size", [7, 4])
def test_a_recorded_shape_that_no_feed_fits(graphs, size):
    """TensorFlow takes it for the placeholder's shape, and refuses other batches."""

    def spoil(graph):
        graph.nodes["y"].attr["_output_shapes"].list.shape[0].dim[0].size = size

    assert failed(graphs, spoil)["same graph"] == (
        "y is said to have another shape than in the original"
    )


@pytest.mark.unit
def test_a_recorded_shape_that_says_less(graphs):
    def spoil(graph):
        graph.nodes["x"].attr["_output_shapes"].list.shape[0].dim[0].size = -1
        del graph.nodes["y"].attr["_output_shapes"]

    assert not failed(graphs, spoil)


def _version(graph):
    graph.meta_graph.meta_info_def.meta_graph_version = "other"


def _note(graph):
    graph.meta_graph.meta_info_def.any_info.value = b"other"


def _op(graph):
    op = graph.meta_graph.meta_info_def.stripped_op_list.op[0]
    op.is_stateful = not op.is_stateful


def _variables(graph):
    listed = graph.meta_graph.collection_def["variables"].bytes_list
    listed.value[:] = [data for data in listed.value if SCALE.encode() not in data]


@pytest.mark.unit
@pytest.mark.parametrize(
    "spoil, text",
    [
        (_version, "the version that the program gave the graph is not"),
        (_note, "what the program notes beside the graph is not"),
        (_op, "the definition of the op"),
        (_variables, "collection variables is not"),
    ],
)
def test_beside_the_nodes(graphs, spoil, text):
    assert text in failed(graphs, spoil)["same graph"]
