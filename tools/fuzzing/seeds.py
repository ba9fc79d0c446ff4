"""Healthy graphs and conversions, made once, that the families damage."""

from __future__ import annotations

import functools
import pathlib
from typing import Dict, List

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.io.messages import serialize

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@functools.lru_cache(maxsize=None)
def graphs() -> List[bytes]:
    """Serialized MetaGraphDefs: dense layers, a while loop, a conditional, a function."""
    return [serialize(graph) for graph in (_dense(), _loop(), _branch(), _called())]


@functools.lru_cache(maxsize=None)
def trainings() -> List[bytes]:
    """Graphs that train: those of `graphs`, and with Adam, a Saver and recorded shapes."""
    return [*graphs(), *(serialize(graph) for graph in (_adam(False), _adam(True)))]


@functools.lru_cache(maxsize=None)
def conversions() -> Dict[str, Dict[str, bytes]]:
    """The files of two conversions of the first graph, by the name of their loss scale."""
    meta_graph = tf.MetaGraphDef.FromString(graphs()[0])
    return {
        scale: graphmp.convert(meta_graph, loss_scale=scale).files() for scale in ("none", "128")
    }


def _finished(graph: tf.Graph, loss: tf.Tensor) -> tf.MetaGraphDef:
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    return tf.train.export_meta_graph(graph=graph)


def _dense() -> tf.MetaGraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], "x")
        weights = tf.get_variable("weights", [4, 3])
        loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, weights)), name="loss")
        return _finished(graph, loss)


def _adam(use_resource: bool) -> tf.MetaGraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], "x")
        rate = tf.placeholder_with_default(0.1, [], "rate")
        weights = tf.get_variable("weights", [4, 4], use_resource=use_resource)
        step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
        hidden = tf.nn.softmax(tf.matmul(x, weights))
        moving = tf.get_variable("moving", [4], trainable=False, use_resource=use_resource)
        update = tf.assign(moving, 0.9 * moving + 0.1 * tf.reduce_mean(hidden, 0))
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, weights) - x), name="loss")
        tf.add_to_collection(tf.GraphKeys.LOSSES, loss)
        with tf.control_dependencies([update]):
            train = tf.train.AdamOptimizer(rate).minimize(loss, step, name="train")
        tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train)
        saver = tf.train.Saver().as_saver_def()
        return tf.train.export_meta_graph(graph=graph, saver_def=saver)


def _loop() -> tf.MetaGraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], "x")
        weights = tf.get_variable("weights", [3, 3])
        _, out = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, tf.matmul(h, weights)), [0, x], name="loop"
        )
        return _finished(graph, tf.reduce_sum(out, name="loss"))


def _branch() -> tf.MetaGraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], "x")
        weights = tf.get_variable("weights", [3, 3], use_resource=True)
        flag = tf.placeholder_with_default(True, [], "flag")
        out = tf.cond(flag, lambda: tf.matmul(x, weights), lambda: x + 1.0)
        loss = tf.add_n([tf.reduce_sum(out), tf.nn.l2_loss(weights)], name="loss")
        return _finished(graph, loss)


def _called() -> tf.MetaGraphDef:
    meta_graph = _dense()
    graph_def = meta_graph.graph_def
    function = graph_def.library.function.add()
    function.signature.name = "squares"
    function.signature.input_arg.add(name="a", type=1)
    function.signature.output_arg.add(name="b", type=1)
    node = function.node_def.add(name="square", op="Square", input=["a"])
    node.attr["T"].type = 1
    function.ret["b"] = "square:y:0"
    call = graph_def.node.add(name="call", op="PartitionedCall", input=["loss"])
    call.attr["f"].func.name = "squares"
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    return meta_graph
