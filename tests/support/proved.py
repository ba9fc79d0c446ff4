"""Conversions and the results of their proofs."""

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.verify import verify
from tests.support.programs import running
from tests.support.programs.registry import built

HALF, FLOAT = tf.float16.as_datatype_enum, tf.float32.as_datatype_enum


def converted(original, **flags):
    """The rewrite's conversion of a graph."""
    found = rewrite(original, Config.make(**flags), Policy.default("float16")).meta_graph
    return found.parsed() if hasattr(found, "parsed") else found


def original_and_converted(model, **flags):
    """The graph of a model, which is built by a function, and the rewrite's conversion of it."""
    with tf.Graph().as_default():
        model()
        original = tf.train.export_meta_graph()
    return original, converted(original, **flags)


def open_claims(original, other, expected=None):
    """The claims about a conversion that failed or could not be proved, by name."""
    return {
        claim.name: claim.text
        for claim in verify(original, other, expected).claims
        if claim.verdict in ("failed", "not proved")
    }


def of_program(name, use_resource, *how):
    """A program's graph and its conversion in float16, with a loss scale and maybe a clip norm."""
    graphs = (
        built(name, use_resource, "").meta_graph,
        running.converted(name, use_resource, "float16", *how).meta_graph,
    )
    return [graph.parsed() if hasattr(graph, "parsed") else graph for graph in graphs]


def by_recipe(model, **options):
    """The graph of a model without the recipe and by it, given its decorated build function."""
    return tuple(
        _graph(model, decorate)
        for decorate in (lambda build: build, graphmp.mixed_precision(**options))
    )


def _graph(model, decorate):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        model(decorate)
        return tf.train.export_meta_graph()


class Planted:
    """A copy of a converted graph, to be spoilt."""

    def __init__(self, converted):
        self.meta_graph = tf.MetaGraphDef()
        self.meta_graph.CopyFrom(converted)
        self.nodes = {node.name: node for node in self.meta_graph.graph_def.node}

    def constant(self, name, value):
        """Adds a constant."""
        tensor = tf.make_tensor_proto(value)
        self.add(
            name,
            "Const",
            [],
            dtype=tf.AttrValue(type=tensor.dtype),
            value=tf.AttrValue(tensor=tensor),
        )

    def add(self, name, op, inputs, **attributes):
        """Adds a node."""
        self.nodes[name] = self.meta_graph.graph_def.node.add(name=name, op=op, input=inputs)
        for key, value in attributes.items():
            self.nodes[name].attr[key].CopyFrom(value)

    def replace(self, old, new):
        """Has all that reads one output read another."""
        for node in self.nodes.values():
            node.input[:] = [new if text == old else text for text in node.input]


def in_half(graph, name):
    """A copy of a graph in which a float32 node computes in half precision, between casts."""
    changed = tf.MetaGraphDef()
    changed.CopyFrom(graph)
    nodes = {node.name: node for node in changed.graph_def.node}
    assert nodes[name].attr["T"].type == FLOAT
    nodes[name].attr["T"].type = HALF
    for place, text in enumerate(nodes[name].input):
        if not text.startswith("^") and (nodes[name].op not in ("Mean", "Sum") or place == 0):
            nodes[name].input[place] = _cast(changed, "graphmp/down_%d" % place, text, FLOAT, HALF)
    for node in nodes.values():
        if node.name != name:
            node.input[:] = ["graphmp/up" if text == name else text for text in node.input]
    _cast(changed, "graphmp/up", name, HALF, FLOAT)
    return changed


def _cast(graph, name, of, source, target):
    types = {"SrcT": tf.AttrValue(type=source), "DstT": tf.AttrValue(type=target)}
    node = graph.graph_def.node.add(name=name, op="Cast", input=[of])
    for key, value in types.items():
        node.attr[key].CopyFrom(value)
    return name
