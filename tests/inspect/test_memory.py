"""`graphmp inspect --memory`.

What is kept for the backward pass and the peak, against numbers worked out by hand and by brute
force.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.config import Config
from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import GraphView, Port
from graphmp.inspect.alike import grouped
from graphmp.inspect.memory.aliases import Aliases
from graphmp.inspect.memory.comparison import compare
from graphmp.inspect.memory.memory import memory
from graphmp.inspect.sizes import Sizes, recorded
from graphmp.inspect.training_step import find_training
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support import tiny
from tests.support.control_flow import control_flow
from tests.support.memory_of_steps import CONFIG, POLICY, built, dense

pytestmark = pytest.mark.unit

LOOP = 32  # iterations that a while loop counts as


def before_and_after(build):
    """The memory of a graph and of its conversion."""
    found = compare(built(build), CONFIG, POLICY).comparison
    assert found.error == "" and found.converted is not None
    return found.original, found.converted


def sizes_of(kept):
    """Bytes by tensor, those of unknown rank left out.

    OneDNN's and cuDNN's scratch of a fused batch norm.
    """
    return {
        tensor.tensor: tensor.bytes
        for tensor in kept.tensors
        if tensor.shape is not None or tensor.op != "FusedBatchNormV3"
    }


def test_a_dense_net():
    before, after = before_and_after(dense)
    assert sizes_of(before.activations) == {
        "h": 8 * 16 * 4,
        "off": 8 * 4,
    }  # what the relu reads is not kept
    assert sizes_of(before.feeds) == {"x": 8 * 12 * 4} and before.copies.bytes == 0
    assert sizes_of(after.activations) == {
        "h": 8 * 16 * 2,
        "x_graphmp_float16": 8 * 12 * 2,
        "off": 8 * 4,
    }
    assert after.feeds.bytes == 0
    assert sum(sizes_of(after.copies).values()) >= 16 * 1 * 2 and set(sizes_of(after.copies)) <= {
        "w/read_graphmp_float16",
        "u/read_graphmp_float16",
    }
    weights = (12 * 16 + 16) * 4
    for held in (before.held, after.held):
        assert (held.weights, held.slots, held.other_variables, held.feeds) == (
            weights,
            weights,
            8,
            8 * 13 * 4,
        )
    off = next(tensor for tensor in after.activations.tensors if tensor.tensor == "off")
    assert (off.dtype, off.shape, off.reader) == (
        "float32",
        [8, 1],
        "gradients/Square_grad/Mul",
    ) and off.reason.startswith("infer")
    assert all(
        tensor.reason == "" for tensor in after.activations.tensors if tensor.dtype == "float16"
    )


def test_a_converted_file_records_no_shapes_of_what_was_put_in():
    """They are inferred.

    A tensor of unknown rank counts as 4 kB, and these have a few numbers each.
    """
    meta_graph, scaled = built(dense), Config.make()
    converted = rewrite(meta_graph, scaled, POLICY).meta_graph
    sizes = Sizes(TypedGraph(converted.graph_def, OpDefs(converted)), recorded(converted.graph_def))
    own = [node.name for node in converted.graph_def.node if node.name.startswith("graphmp/")]
    assert own and all(
        sizes.dimensions(Port(name, 0)) is not None for name in own if sizes.dtype(Port(name, 0))
    )
    alone = memory(converted, find_training(converted, scaled), recorded(converted.graph_def))
    with_original = compare(meta_graph, scaled, POLICY).comparison.converted
    assert with_original is not None and alone.peak.bytes == with_original.peak.bytes


def test_a_convolution_and_batch_norm():
    def build():
        x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
        h = tf.nn.conv2d(x, tf.get_variable("k", [3, 3, 3, 4]), [1, 1, 1, 1], "SAME", name="conv")
        h = tf.nn.fused_batch_norm(
            h, tf.get_variable("g", [4]), tf.get_variable("b", [4]), name="norm"
        )[0]
        h = tf.reshape(tf.nn.relu(h, name="h"), [2, 256])
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_mean(tf.matmul(h, tf.get_variable("u", [256, 1])))
        )

    before, after = before_and_after(build)
    kept = sizes_of(before.activations)
    statistics = {name for name in kept if name.startswith("norm:")}
    assert {name: size for name, size in kept.items() if name not in statistics} == {
        "conv": 2048,
        "h": 2048,
    }  # the reshape is h
    assert len(statistics) == 2 and all(kept[name] == 16 for name in statistics)
    found = sizes_of(after.activations)
    assert {name: size for name, size in found.items() if name not in statistics} == {
        "conv": 1024,
        "h": 1024,
        "x_graphmp_float16": 768,
    }
    assert {found[name] for name in statistics} == {16}  # float32 still
    assert set(sizes_of(before.integers).values()) <= {16}  # shapes of the convolution


def recurrent():
    x, w = tf.placeholder(tf.float32, [8, 16], name="x"), tf.get_variable("w", [16, 16])
    _, h = tf.while_loop(
        lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x], name="loop"
    )
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(h))


def test_a_while_loop_saves_a_tensor_of_each_iteration_once():
    """The matmul's gradient needs what the iteration before left, the tanh's what this one
    computes: one tensor an iteration.
    """
    before, after = before_and_after(recurrent)
    assert sizes_of(before.activations) == {"loop/Tanh": 8 * 16 * 4 * 5}
    assert sizes_of(after.activations) == {"loop/Tanh": 8 * 16 * 2 * 5}
    assert sizes_of(after.copies) == {"w/read_graphmp_float16": 16 * 16 * 2}
    assert before.peak.bytes >= before.activations.bytes


def test_a_while_loop_of_functions_saves_as_much():
    with control_flow(functions=True):
        graph = built(recurrent)
    assert any(node.op in ("StatelessWhile", "While") for node in graph.graph_def.node)
    found = memory(
        graph, find_training(graph, CONFIG), recorded(graph.graph_def)
    ).activations.tensors
    lists = [tensor for tensor in found if tensor.op == "EmptyTensorList"]
    assert [(tensor.dtype, tensor.bytes) for tensor in lists] == [("float32", 8 * 16 * 4 * LOOP)]
    assert not any(
        tensor.op in ("StatelessWhile", "While") for tensor in found
    )  # the weight comes out as it went in


def test_a_tensor_array_is_as_large_as_what_is_written():
    def build():
        x, w = tf.placeholder(tf.float32, [6, 8, 16], name="x"), tf.get_variable("w", [16, 16])
        rows = tf.TensorArray(tf.float32, 6, element_shape=[8, 16], name="rows").unstack(x)
        made = tf.TensorArray(tf.float32, 6, element_shape=[8, 16], name="made")
        _, made = tf.while_loop(
            lambda i, a: i < 6,
            lambda i, a: (i + 1, a.write(i, tf.tanh(tf.matmul(rows.read(i), w)))),
            [0, made],
            name="loop",
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_sum(tf.square(made.stack(name="stacked")))
        )

    before, _ = before_and_after(build)
    kept = {name.partition("/")[0]: size for name, size in sizes_of(before.activations).items()}
    assert kept["rows"] == 6 * 8 * 16 * 4  # read in the loop, saved for the matmul's gradient
    assert kept["made"] == 8 * 16 * 4 * 6  # the tanh, saved too
    assert (
        set(kept) <= {"rows", "made", "stacked", "loop"} and kept.get("loop", 0) <= 4 * 6
    )  # the order of the reads, a number


ALIASES = (
    ("a Identity x", "x"),
    ("a Reshape x s Tshape=int32", "x"),
    ("a Squeeze x", "x"),
    ("a StopGradient x", "x"),
    ("a Relu x", "a"),
    ("a Shape x", "a"),
    ("a Cast x SrcT=float32 DstT=float16", "a"),
    ("a Switch x p;b Relu a:1;c Merge a b", "b"),  # what a branch computes
    ("a Switch x p;c Merge a a:1", "x"),  # both pass it through
    (
        "e Enter x;m Merge e n;w Switch m p;a Relu w:1;n NextIteration a;c Exit w",
        "a",
    ),  # what the last iteration left
    (
        "e Enter x;m Merge e n;w Switch m p;a Identity w:1;n NextIteration a;c Exit w",
        "x",
    ),  # no iteration changes it
    ("v VariableV2 dtype=float32;a Identity v", "v"),
    ("v VarHandleOp dtype=float32;a ReadVariableOp v dtype=float32", "v"),
    ("v VariableV2 dtype=float32;a Assign v x", "v"),
    ("k StackV2 elem_type=float32;a StackPushV2 k x;b StackPopV2 k elem_type=float32", "x"),
)


@pytest.mark.parametrize("lines, maker", ALIASES, ids=[lines for lines, _ in ALIASES])
def test_aliases(lines, maker):
    lines = [
        (
            line + " T=float32"
            if line.split()[1] not in ("VariableV2", "VarHandleOp", "StackV2")
            else line
        )
        for line in lines.split(";")
    ]
    graph_def = tiny.meta_graph(
        "x Placeholder dtype=float32",
        "s Placeholder dtype=int32",
        "p Placeholder dtype=bool",
        *lines,
    ).graph_def
    for node in graph_def.node:
        if node.op == "Merge":
            node.attr["N"].i = 2
    meta_graph = tf.MetaGraphDef(graph_def=graph_def)
    graph = TypedGraph(graph_def, OpDefs(meta_graph))
    last = lines[-1].split()[0]
    assert Aliases(graph, Sizes(graph, recorded(graph_def))).maker(Port(last, 0)).node == maker


def test_gradient_code_that_depends_on_no_gradient_runs_with_the_forward_pass():
    """The comparison of a Maximum's gradient is kept, a bool each, and not what it compares."""

    def build():
        x, w = tf.placeholder(tf.float32, [8, 16]), tf.get_variable("w", [16, 16])
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_mean(tf.maximum(tf.matmul(x, w, name="left"), tf.matmul(x, w, name="right")))
        )

    before, _ = before_and_after(build)
    assert not {"left", "right"} & set(sizes_of(before.activations))
    assert 8 * 16 in sizes_of(before.integers).values()


def test_a_conversion_keeps_both_where_gradients_read_both():
    """A square computes in float32 and a matmul in half: gradients want the tensor in both."""

    def build():
        x, w, u = (
            tf.placeholder(tf.float32, [8, 16]),
            tf.get_variable("w", [16, 16]),
            tf.get_variable("u", [16, 16]),
        )
        h = tf.nn.relu(tf.matmul(x, w), name="h")
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_mean(tf.matmul(h, u)) + tf.reduce_mean(tf.square(h))
        )

    before, after = before_and_after(build)
    assert sizes_of(before.activations) == {"h": 512}
    kept = {
        name: size for name, size in sizes_of(after.activations).items() if name.startswith("h")
    }
    assert kept == {"h": 256, "h_graphmp_float32": 512}
    wide = next(
        tensor for tensor in after.activations.tensors if tensor.tensor == "h_graphmp_float32"
    )
    assert wide.reason.startswith("a cast for a reader that is float32: ")


RANDOM_OPS = {"Relu": 1, "MatMul": 2, "Add": 2, "Identity": 1}  # op: how many tensors it reads


@st.composite
def computations(draw):
    """Lines of a graph and a size for each node: every node reads earlier ones."""
    lines, sizes = ["n0 Placeholder dtype=float32", "n1 Placeholder dtype=float32"], [7, 3]
    for number in range(2, draw(st.integers(3, 12))):
        op = draw(st.sampled_from(["Relu", "MatMul", "Add", "Identity"]))
        inputs = draw(
            st.lists(st.integers(0, number - 1), min_size=RANDOM_OPS[op], max_size=RANDOM_OPS[op])
        )
        after = ["^n%d" % draw(st.integers(0, number - 1))] if draw(st.booleans()) else []
        lines.append(
            " ".join(["n%d" % number, op, *("n%d" % each for each in inputs), *after, "T=float32"])
        )
        sizes.append(sizes[inputs[0]] if op == "Identity" else draw(st.sampled_from([1, 2, 3, 7])))
    return lines, sizes


def with_sizes(lines, sizes, order=None):
    graph = tiny.meta_graph(*lines, order=order)
    for node in graph.graph_def.node:
        node.attr["_output_shapes"].list.shape.add().dim.add(size=sizes[int(node.name[1:])])
    return graph


def simulated_peak(view, order, sizes):
    """Runs the nodes one after the other, with a count of who still needs each buffer."""
    buffer, needed_by = {}, {}
    for name in order:
        reads = [buffer[port.node] for port in view.inputs(name)]
        buffer[name] = reads[0] if view.nodes[name].op == "Identity" else name
        for each in {*reads, buffer[name]}:
            needed_by.setdefault(each, set()).add(name)
    alive, peak = set(), 0
    for name in order:
        op = view.nodes[name].op
        reads = [buffer[port.node] for port in view.inputs(name)]
        if op not in ("Identity", "Placeholder"):
            alive.add(name)
        if op in ("Relu", "Add"):
            ending = [
                each
                for each in reads
                if each in alive and needed_by[each] == {name} and sizes[each] == sizes[name]
            ]
            alive -= set(ending[:1])
        peak = max(peak, sum(sizes[each] for each in alive))
        for each in {*reads, buffer[name]}:
            needed_by[each].discard(name)
            if not needed_by[each]:
                alive.discard(each)
    return peak


@settings(max_examples=60)
@given(computations(), st.randoms(use_true_random=False))
def test_the_peak_is_that_of_a_simulation(computation, random):
    lines, sizes = computation
    graph = with_sizes(lines, sizes)
    view = GraphView(graph.graph_def)
    found = memory(graph, find_training(graph, CONFIG), recorded(graph.graph_def))
    order = in_order(view, view.nodes.keys())
    assert found.peak.bytes == simulated_peak(
        view, order, {"n%d" % number: 4 * size for number, size in enumerate(sizes)}
    )
    assert sum(tensor.bytes for tensor in found.peak.tensors) == found.peak.bytes
    places = {name: place for place, name in enumerate(order)}
    assert all(
        places[other] < places[name]
        for name in order
        for other in [*(p.node for p in view.inputs(name)), *view.controls(name)]
    )
    shuffled = random.sample(range(len(lines)), len(lines))
    assert (
        in_order(GraphView(with_sizes(lines, sizes, shuffled).graph_def), view.nodes.keys())
        == order
    )


def test_a_batch_size_is_followed_through_the_graph():
    """A dimension that TensorFlow works out from the batch size is not the batch size."""

    def build():
        x, w = tf.placeholder(tf.float32, [None, 7, 4], name="x"), tf.get_variable("w", [4, 4])
        h = tf.tanh(tf.matmul(tf.reshape(x, [-1, 4]), w), name="h")
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(h)))

    graph = built(build)
    sizes = [
        sizes_of(compare(graph, CONFIG, POLICY, batch_size).comparison.original.activations)["h"]
        for batch_size in (0, 10, 20)
    ]
    assert sizes == [32 * 4 * 4, 70 * 4 * 4, 140 * 4 * 4]


def test_tensors_alike_are_one_row():
    def build():
        x = tf.placeholder(tf.float32, [8, 16])
        for number in range(3):
            x = tf.nn.relu(
                tf.matmul(x, tf.get_variable("w%d" % number, [16, 16])), name="h%d" % number
            )
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(x))

    before, _ = before_and_after(build)
    (tensor, count), *_ = grouped(before.activations.tensors, "dtype", "shape", "reason")
    assert (tensor.tensor, tensor.bytes, count) == ("h0", 3 * 512, 3)
