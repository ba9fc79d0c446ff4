"""The rewrite on tiny graphs, before and after: tables of lines, chains of letters, built graphs.

A chain is a string with one letter per node, each reading the one before; a capital marks a node
that is half: `"xAIAd"` is a Placeholder, a MatMul (half), a Tanh (half), a MatMul (half), an Exp.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Set

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite import pipeline
from graphmp.rewrite.painting.paint import HALF
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support import tiny
from tests.support.control_flow import control_flow

HALF_NAMES = {tiny.FLOAT16: "float16", tiny.BFLOAT16: "bfloat16"}
SIZE = 4  # every chain's tensors are SIZE x SIZE
_LETTERS = {
    "x": "Placeholder dtype=float32",
    "a": "MatMul {before} weight",  # allow
    "i": "Tanh {before}",  # infer, bounded
    "p": "Softplus {before}",  # infer
    "b": "BiasAdd {before} bias/read",  # infer, and a bias
    "c": "Relu {before}",  # clear
    "k": "Abs {before}",  # clear
    "d": "Exp {before}",  # deny, not linear
    "m": "Cumsum {before} zero",  # deny, linear
    "u": "Lgamma {before}",  # on no list
    "s": "Softmax {before}",
    "l": "LogSoftmax {before}",
    "g": "Sigmoid {before}",
    "z": "ZerosLike {before}",  # forgets its input's values
    "f": "Floor {before}",  # discontinuous
    "y": "Identity {before}",
}
_SHARED = (
    "weight Const", "zero Const", "start Const",
    "bias VariableV2 dtype=float32 shape=[4]", "bias/Assign Assign bias start",
    "bias/read Identity bias",
)  # fmt: skip


class Painted(NamedTuple):
    """The decisions for one graph body.

    Attributes:
        half: nodes with a unit in half.
        reasons: the reasons, by node, and by `node.attribute` too.
        because: the node that caused the decision, if there is one.
    """

    half: Set[str]
    reasons: Dict[str, str]
    because: Dict[str, str]


def graph(*lines: str, **constants: Any) -> tf.MetaGraphDef:
    """A MetaGraphDef from lines as in `tiny.meta_graph`.

    Values may also be JSON (`shape=[2,3]`); missing attributes follow the inputs.
    """
    words = [line.split() for line in lines]
    values = [
        {w.split("=")[0]: json.loads(w.split("=", 1)[1]) for w in each if _is_value(w)}
        for each in words
    ]
    single = {
        name: np.float32(value) if np.asarray(value).dtype == np.float64 else value
        for name, value in constants.items()
    }
    result = tiny.meta_graph(
        *[" ".join(w for w in each if not _is_value(w)) for each in words], **single
    )
    op_defs = OpDefs(result)
    nodes = {node.name: node for node in result.graph_def.node}
    for node, given in zip(result.graph_def.node, values):
        definition = op_defs.get(node.op)
        kinds = {a.name: a.type for a in definition.attr} if definition is not None else {}
        for name, value in given.items():
            _set(node.attr[name], kinds.get(name, ""), value)
        if definition is not None:
            _complete(
                node,
                definition,
                [_dtype(nodes, op_defs, text) for text in node.input if not text.startswith("^")],
            )
    return result


def chain(letters: str) -> tf.MetaGraphDef:
    """The graph of a chain; node `a1` is the second letter, an `a`."""
    names = names_of(letters)
    lines = [
        "%s %s" % (name, _LETTERS[letter].format(before=before))
        for letter, name, before in zip(letters.lower(), names, [""] + names)
    ]
    weight = np.eye(SIZE, dtype=np.float32) * 0.75
    result = graph(*_SHARED, *lines, weight=weight, zero=np.int32(0), start=np.ones(SIZE))
    for node in result.graph_def.node:
        if node.op == "Placeholder":
            _set(node.attr["shape"], "shape", [SIZE, SIZE])
    return result


def names_of(letters: str) -> List[str]:
    """Node names of a chain."""
    return ["%s%d" % (letter, i) for i, letter in enumerate(letters.lower())]


def spelled(letters: str, half: Set[str]) -> str:
    """The chain with capitals for half nodes."""
    return "".join(
        letter.upper() if name in half else letter
        for letter, name in zip(letters.lower(), names_of(letters))
    )


def decide(
    meta_graph: tf.MetaGraphDef, body: str = "", policy: str = "", **options: Any
) -> Painted:
    """The decisions of the rewrite for one body, with the lines of `policy` added to the lists."""
    config = Config.make(**options)
    decisions = pipeline.decide(
        meta_graph, config, Policy.default(config.compute_dtype).with_text(policy)
    )[body]
    units, painted = decisions.graph.units, decisions.placed
    reasons = {}
    for unit, p in sorted(zip(units, painted), key=lambda pair: pair[0].attribute, reverse=True):
        reasons[unit.node] = reasons["%s.%s" % (unit.node, unit.attribute)] = p.reason.text
    half = {unit.node for unit, p in zip(units, painted) if p.colour == HALF}
    because = {
        unit.node: units[p.because].node for unit, p in zip(units, painted) if p.because >= 0
    }
    return Painted(half, reasons, because)


def rewrite(meta_graph: tf.MetaGraphDef, policy: str = "", **options: Any) -> pipeline.Rewriting:
    """The rewrite with the shipped lists and lines added to them; scales nothing by default."""
    config = Config.make(**{"loss_scale": "none", **options})
    return pipeline.rewrite(
        meta_graph, config, Policy.default(config.compute_dtype).with_text(policy)
    )


def converted(meta_graph: tf.MetaGraphDef, policy: str = "", **options: Any) -> tf.MetaGraphDef:
    """The converted graph alone."""
    return rewrite(meta_graph, policy, **options).meta_graph


def built(build: Callable[[], Any]) -> tf.MetaGraphDef:
    """The MetaGraphDef of a fresh graph built by a function."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        build()
        return tf.train.export_meta_graph()


def between(idiom: Callable[[Any], Any]) -> tf.MetaGraphDef:
    """A graph in which an idiom's value leads from one matmul to another; loops as nodes."""
    kernel = np.linalg.qr(np.random.RandomState(0).normal(size=(16, 16)))[0].astype(np.float32)

    def build() -> None:
        x = tf.placeholder(tf.float32, [32, 16], "x")
        h = tf.matmul(x, kernel, name="h")
        value = tf.reshape(idiom(h), [32, -1], name="value")
        tf.matmul(value, np.ones([value.shape[1], 4], np.float32), name="y")

    with control_flow(False):
        return built(build)


def nodes(meta_graph: tf.MetaGraphDef) -> Dict[str, Any]:
    """Nodes by name."""
    return {node.name: node for node in meta_graph.graph_def.node}


def half_nodes(meta_graph: tf.MetaGraphDef, dtypes: Sequence[int] = tuple(HALF_NAMES)) -> Set[str]:
    """Nodes of the main graph with an output, or a handle's element, in half."""
    op_defs = OpDefs(meta_graph)
    found = set()
    for node in meta_graph.graph_def.node:
        signature = op_defs.signature(node)
        outputs = {port.dtype for port in signature.outputs} if signature else set()
        outputs |= {
            node.attr[name].type
            for name in ("dtype", "elem_type", "element_dtype")
            if name in node.attr
        }
        if outputs & set(dtypes):
            found.add(node.name)
    return found


def inserted(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> Dict[str, Any]:
    """The names that are only in the second graph."""
    return {name: node for name, node in nodes(after).items() if name not in nodes(before)}


def casts(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> List[str]:
    """The added casts as `input -> dtype`, sorted."""
    found = [node for node in inserted(before, after).values() if node.op == "Cast"]
    return sorted(
        "%s -> %s" % (node.input[0], tf.as_dtype(node.attr["DstT"].type).name) for node in found
    )


@contextlib.contextmanager
def session(meta_graph: tf.MetaGraphDef):
    """A session on the imported graph, with initialised variables."""
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(copy_of(meta_graph).graph_def, name="")
        with tf.Session(graph=imported) as sess:
            sess.run([op for op in imported.get_operations() if op.name.endswith("/Assign")])
            yield sess


def values(
    meta_graph: tf.MetaGraphDef,
    fetches: Sequence[str],
    feeds: Dict[str, Any],
    first: Sequence[str] = (),
) -> List[Any]:
    """The values of tensors as float64; `first` names ops to run before."""
    with session(meta_graph) as sess:
        for name in first:
            sess.run(name, feeds)
        return [np.asarray(value, np.float64) for value in sess.run(list(fetches), feeds)]


def assert_close(
    before: tf.MetaGraphDef,
    after: tf.MetaGraphDef,
    fetches: Sequence[str],
    feeds: Dict[str, Any],
    rtol: float = 1e-2,
    **more: Any,
) -> None:
    """Assert that both graphs compute the same, relative to the largest value of each tensor."""
    for name, expected, found in zip(
        fetches, values(before, fetches, feeds, **more), values(after, fetches, feeds, **more)
    ):
        scale = np.abs(expected).max() if expected.size else 0
        np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * scale + 1e-6, err_msg=name)


def placeholders(meta_graph: tf.MetaGraphDef, seed: int = 0) -> Dict[str, Any]:
    """Random values for all float32 placeholders of known shape."""
    random = np.random.RandomState(seed)
    found = {}
    for node in meta_graph.graph_def.node:
        if node.op == "Placeholder" and node.attr["dtype"].type == tiny.FLOAT32:
            found[node.name + ":0"] = random.uniform(
                -1, 1, [dim.size for dim in node.attr["shape"].shape.dim]
            )
    return found


def dtypes_agree(meta_graph: tf.MetaGraphDef) -> None:
    """Assert by TensorFlow what `check` asserts: the graph can be imported."""
    with tf.Graph().as_default():
        tf.import_graph_def(copy_of(meta_graph).graph_def, name="")


def verified(
    before: tf.MetaGraphDef,
    fetches: Sequence[str] = (),
    rtol: float = 1e-2,
    feeds: Any = None,
    policy: str = "",
    **options: Any,
) -> Any:
    """The converted graph, checked for the properties of all conversions.

    It can be imported, no node is moved or renamed, and it computes the same.
    """
    after = converted(before, policy, **options)
    names = list(nodes(before))
    assert [node.name for node in after.graph_def.node][: len(names)] == names
    dtypes_agree(after)
    if fetches:
        assert_close(before, after, fetches, placeholders(before) if feeds is None else feeds, rtol)
    return after


def copy_of(meta_graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A copy, as TensorFlow's importer adds attributes to its argument."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    return copy


def _is_value(word: str) -> bool:
    """Whether a word of a line is an attribute whose value is JSON, not a dtype."""
    _, equals, value = word.partition("=")
    return bool(equals) and (value[0] in '[{"-0123456789' or value in ("true", "false"))


def _set(attribute: Any, kind: str, value: Any) -> None:
    if kind == "shape":
        attribute.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "list(type)" or (isinstance(value, list) and value and isinstance(value[0], str)):
        attribute.list.type.extend(tf.as_dtype(name).as_datatype_enum for name in value)
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, float):
        attribute.f = value
    elif isinstance(value, list):
        attribute.list.i.extend(value)
    else:
        attribute.s = value.encode()


def _dtype(named: Dict[str, Any], op_defs: OpDefs, text: str) -> int:
    """The dtype of an input; 0 if its op is unknown or follows later."""
    name, _, index = text.partition(":")
    signature = op_defs.signature(named[name])
    return signature.outputs[int(index or 0)].dtype if signature is not None else 0


def _complete(node: Any, definition: Any, inputs: List[int]) -> None:
    """Add the missing attributes of a line: types and numbers from the inputs, else float32."""
    place = 0
    for argument in definition.input_arg:
        if argument.type_list_attr:
            if argument.type_list_attr not in node.attr:
                node.attr[argument.type_list_attr].list.type.extend(inputs[place:])
            place += len(node.attr[argument.type_list_attr].list.type)
            continue
        count = 1
        if argument.number_attr:
            if argument.number_attr not in node.attr:
                others = len(definition.input_arg) - list(definition.input_arg).index(argument) - 1
                node.attr[argument.number_attr].i = len(inputs) - place - others
            count = node.attr[argument.number_attr].i
        if (
            argument.type_attr
            and argument.type_attr not in node.attr
            and inputs[place : place + 1] != [0]
        ):
            node.attr[argument.type_attr].type = inputs[place]
        place += count
    for attribute in definition.attr:
        if (
            attribute.type == "type"
            and attribute.name not in node.attr
            and not attribute.HasField("default_value")
        ):
            node.attr[attribute.name].type = tiny.FLOAT32
