"""Programs converted and run: the updates of each step, and the effects of a single overflow."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Set

import numpy as np
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.policy import tensor_core_ops
from tests.support.programs.registry import (
    BATCHES,
    NORM,
    PROGRAMS,
    STEPS,
    Built,
    Call,
    Program,
    built,
)
from tests.support.training import AS_WRITTEN, imported, initialise, load, state

_WRITES = re.compile(r"(Resource)?(Sparse)?(Apply|Assign|Scatter)")
_OWN = "graphmp/"


@functools.lru_cache(maxsize=None)
def converted(
    name: str,
    use_resource: bool,
    compute_dtype: str,
    loss_scale: Any,
    clip_norm: float = 0.0,
    form: str = "",
) -> Any:
    """A program's conversion; a dynamic scale starts low enough for each first step."""
    options = {"loss_scale_initial": 64.0} if loss_scale == "dynamic" else {}
    meta_graph = built(name, use_resource, form).meta_graph
    return graphmp.convert(
        meta_graph,
        compute_dtype=compute_dtype,
        loss_scale=loss_scale,
        clip_norm=clip_norm,
        **options,
    )


def feed_of(graph: Any, step: int) -> Dict[str, Any]:
    """The batch of a step, for the placeholders that the graph has."""
    names = {op.name for op in graph.get_operations() if op.type == "Placeholder"}
    return {name + ":0": value for name, value in BATCHES[step].items() if name in names}


@contextlib.contextmanager
def session(graph: Any, start: Dict[str, Any]) -> Iterator[Any]:
    with tf.Session(graph=graph, config=AS_WRITTEN) as sess:
        initialise(sess, "init", copies(start))
        yield sess


def copies(values: Dict[str, Any]) -> Dict[str, Any]:
    """Copies of arrays, as fetches and feeds may share the memory of reference variables."""
    return {name: np.array(value) for name, value in values.items()}


def step(sess: Any, program: str, number: int) -> None:
    """Run each train op of a program in turn."""
    for name in PROGRAMS[program].train:
        sess.run(name, feed_of(sess.graph, number))


@functools.lru_cache(maxsize=None)
def states(name: str, use_resource: bool, form: str = "") -> List[Dict[str, Any]]:
    """All variables of the original, at the start and after each step."""
    with tf.Graph().as_default() as graph:
        imported(built(name, use_resource, form).meta_graph)
        with session(graph, states(name, use_resource)[0] if form else {}) as sess:
            found = [copies(state(sess))]
            for number in range(STEPS):
                step(sess, name, number)
                found.append(copies(state(sess)))
            return found


def differences(
    meta_graph: Any, name: str, expected: List[Dict[str, Any]], tolerance: float
) -> List[str]:
    """The updates that differ in a conversion, with the error relative to the largest update.

    Each step of the conversion starts from the original's values.
    """
    with tf.Graph().as_default() as graph:
        imported(meta_graph)
        with session(graph, expected[0]) as sess:
            found = []
            for number in range(STEPS):
                load(sess, copies(expected[number]))
                step(sess, name, number)
                found += _compared(
                    number, expected[number], expected[number + 1], copies(state(sess)), tolerance
                )
            return found


def _compared(
    number: int,
    before: Dict[str, Any],
    after: Dict[str, Any],
    found: Dict[str, Any],
    tolerance: float,
) -> Iterator[str]:
    missing = sorted(set(before) - set(found)) + sorted(
        n for n in set(found) - set(before) if not n.startswith(_OWN)
    )
    assert not missing, "variables are not the same: %s" % missing
    for variable in before:
        largest = np.max(
            np.abs(np.subtract(after[variable], before[variable], dtype=np.float64)), initial=0
        )
        rounding = np.spacing(
            np.max(np.abs(after[variable]), initial=0).astype(np.float32)
        )  # a sum is stored in float32
        wrong = np.max(
            np.abs(np.subtract(found[variable], after[variable], dtype=np.float64)), initial=0
        )
        if not wrong <= tolerance * largest + rounding:
            yield "step %d, %s: off by %.3g of an update of %.3g" % (
                number,
                variable,
                wrong / max(largest, 1e-30),
                largest,
            )


def steps_taken(name: str, use_resource: bool, loss_scale: Any) -> Dict[str, float]:
    """The fraction of each trained variable's first update that float16 retains for tiny gradients.

    It is 1 for all of it, 0 for none.
    """
    before, expected = states(name, use_resource, "tiny")[:2]
    with tf.Graph().as_default() as graph:
        imported(converted(name, use_resource, "float16", loss_scale, form="tiny").meta_graph)
        with session(graph, before) as sess:
            step(sess, name, 0)
            after, trained = copies(state(sess)), [v.op.name for v in tf.trainable_variables()]
    pairs = {
        n: ((after[n] - before[n]).ravel(), (expected[n] - before[n]).ravel()) for n in trained
    }
    return {
        n: float(np.dot(found, wanted) / np.dot(wanted, wanted))
        for n, (found, wanted) in pairs.items()
    }


def training_calls(graph: Built) -> List[Call]:
    """Calls whose gradients reach a write, or seed another such call.

    They reach it by data, without passing through another call's ops.
    """
    view, found = GraphView(graph.meta_graph.graph_def), []  # type: ignore[var-annotated]
    while True:
        ends = {parse_input(seed).node for call in found for seed in call.seeds}
        more = [
            call
            for call in graph.calls
            if call not in found and _comes_to(view, call, graph.calls, ends)
        ]
        if not more:
            return [call for call in graph.calls if call in found]
        found += more


def _comes_to(view: GraphView, call: Call, calls: List[Call], ends: Set[str]) -> bool:
    others = {name for other in calls if other is not call for name in other.ops}
    waiting, seen = [parse_input(result).node for result in call.results], set()
    while waiting:
        name = waiting.pop()
        if name in ends or _WRITES.match(view.nodes[name].op):
            return True
        if name not in seen:
            seen.add(name)
            waiting += [
                c.node for c in view.consumers(name) if c.node not in others or c.node in ends
            ]
    return False


def unprotected(graph: Built, conversion: Any) -> List[str]:
    """Matmuls and convolutions of training calls that compute unscaled gradients."""
    view = GraphView(conversion.meta_graph.graph_def)
    behind = view.descendants(
        [row["scale"] for row in conversion.report["losses"] if row["scale"]], control=False
    )
    before = GraphView(graph.meta_graph.graph_def).ancestors(
        [result.split(":")[0] for call in graph.calls for result in call.results], control=False
    )
    wanted = [name for call in training_calls(graph) for name in call.ops if name in before]
    return sorted(
        n
        for n in wanted
        if _tensor_core(view, n) not in behind
        and view.nodes[_tensor_core(view, n)].op in tensor_core_ops()
    )


def _tensor_core(view: GraphView, name: str) -> str:
    """The node of the conversion that computes a node of the original."""
    return name + "_graphmp_scaled" if name + "_graphmp_scaled" in view.nodes else name


def half(conversion: Any) -> Set[str]:
    """Matmuls and convolutions in half precision, including those of functions.

    They have the names that they have in the original.
    """
    graph_def = conversion.meta_graph.graph_def
    bodies = [("", graph_def.node)] + [
        (f.signature.name + ":", f.node_def) for f in graph_def.library.function
    ]
    nodes = [(prefix + node.name, node) for prefix, body in bodies for node in body]
    found = [
        name
        for name, node in nodes
        if node.op in tensor_core_ops() and node.attr["T"].type == tf.float16.as_datatype_enum
    ]
    return {name.replace("_graphmp_scaled", "") for name in found}


class Overflow(NamedTuple):
    """A value that is made to overflow.

    Attributes:
        name: its tensor.
        factor: the placeholder by which it is multiplied.
        gradient: whether a training call returned it.
    """

    name: str
    factor: str
    gradient: bool


def spoiled(graph: Any, program: Built, conversion: Any) -> List[Overflow]:
    """Multiply each gradient and other result of a matmul or convolution by a placeholder.

    The placeholders default to 1.
    """
    view = GraphView(conversion.meta_graph.graph_def)
    depths, found = loop_depths(view), {}  # type: Tuple[Any, Dict[str, Overflow]]
    gradients = [
        _computed(view, result) for call in training_calls(program) for result in call.results
    ]
    others = [_computed(view, result) for call in program.calls for result in call.results]
    others += [name + ":0" for name, node in view.nodes.items() if node.op in tensor_core_ops()]
    for name in dict.fromkeys(gradients + others):
        if not depths.get(parse_input(name).node):
            found[name] = _multiplied(graph, name, len(found), name in gradients)
    return list(found.values())


def _computed(view: GraphView, result: str) -> str:
    """The tensor at which a gradient leaves gradient code, before copies and graphmp's nodes."""
    port = parse_input(result)
    while port.node.startswith(_OWN) or view.nodes[port.node].op in ("Identity", "Cast"):
        port = view.inputs(port.node)[0]
    return "%s:%d" % port


def _multiplied(graph: Any, name: str, number: int, gradient: bool) -> Overflow:
    tensor = graph.get_tensor_by_name(name)
    readers = [
        (op, slot)
        for op in tensor.consumers()
        for slot, read in enumerate(op.inputs)
        if read is tensor or read.name == name
    ]
    with graph.as_default():
        factor = tf.placeholder_with_default(tf.ones((), tensor.dtype), (), "spoil_%d" % number)
        product = tf.multiply(tensor, factor)
    for op, slot in readers:
        op._update_input(slot, product)
    return Overflow(name, factor.name, gradient)


def after_overflows(name: str, use_resource: bool, conversion: Any) -> List[str]:
    """The wrong writes of steps with an overflow.

    Takes a step of each train op with each overflow on which it depends.
    """
    with tf.Graph().as_default() as graph:
        imported(conversion.meta_graph)
        overflows = spoiled(graph, built(name, use_resource), conversion)
        view, trained = (
            GraphView(conversion.meta_graph.graph_def),
            {v.op.name for v in tf.trainable_variables()},
        )
        with session(graph, states(name, use_resource)[0]) as sess:
            step(sess, name, 0)
            before, found = copies(state(sess)), []
            feed = dict(
                feed_of(graph, 1), **{overflow.factor: 1.0 for overflow in overflows}
            )  # always of the same tensors, so that one executor serves all
            for train in PROGRAMS[name].train:
                ancestors = view.ancestors([train])
                for overflow in overflows:
                    if parse_input(overflow.name).node in ancestors:
                        sess.run(train, dict(feed, **{overflow.factor: np.inf}))
                        after = copies(state(sess))
                        said = _wrong(before, after, overflow, PROGRAMS[name], trained)
                        found += ["%s with %s: %s" % (train, overflow.name, said)] if said else []
                        before = _restored(sess, before, after)
            return found


def _restored(sess: Any, before: Dict[str, Any], after: Dict[str, Any]) -> Dict[str, Any]:
    """Restore the program's variables; return the values of all variables."""
    if any(
        before[name].tobytes() != after[name].tobytes()
        for name in before
        if not name.startswith(_OWN)
    ):
        load(sess, copies(before))
        return before
    return after


def _wrong(
    before: Dict[str, Any],
    after: Dict[str, Any],
    overflow: Overflow,
    program: Program,
    trained: Set[str],
) -> str:
    """What is wrong about a step with an overflow; empty if nothing.

    The step must leave the variables unchanged or, if no gradient overflows, finite.
    """
    skipped = any(
        n.endswith("/skipped_steps") and after[n] > before[n] for n in before if n.startswith(_OWN)
    )
    changed = sorted(
        n for n in before if after[n].tobytes() != before[n].tobytes() and not n.startswith(_OWN)
    )
    spoilt = [n for n in changed if after[n].dtype.kind == "f" and not np.isfinite(after[n]).all()]
    if spoilt:
        return "wrote what is not finite to %s" % spoilt
    for group in program.exceptions:
        taken = sorted(set(changed) & set(group))
        if taken and set(group) - set(taken) - (
            set() if skipped else trained
        ):  # some finite gradients are zero
            return "wrote %s of %s" % (taken, list(group))
        changed = [n for n in changed if n not in taken]
    changed = [
        n
        for n in changed
        if n not in program.put_back or not np.allclose(before[n], after[n], rtol=0, atol=1e-6)
    ]
    if skipped and changed:
        return "wrote %s on a skipped step" % changed
    return "no step was skipped" if overflow.gradient and not skipped else ""


__all__ = ["NORM", "after_overflows", "converted", "differences", "half", "states", "unprotected"]
