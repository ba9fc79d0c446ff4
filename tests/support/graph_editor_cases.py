"""Graphs that `tf.contrib.graph_editor` walks, copies and changes, and what came of it."""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow.compat.v1 as tf


def _names(found: Any) -> List[str]:
    return sorted(element.name for element in found)


def _net() -> List[tf.Tensor]:
    """A diamond with a control edge, a constant, and two ends."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.name_scope("net"):
        left = tf.multiply(x, tf.constant(3.0, name="three"), name="left")
        right = tf.square(x, name="right")
        with tf.control_dependencies([tf.identity(x, name="gate")]):
            both = tf.add(left, right, name="both")
        end = tf.negative(both, name="end")
    tf.add_to_collection("kept", left)
    tf.add_to_collection(tf.GraphKeys.LOSSES, end)
    return [x, left, right, both, end]


def _gate(x: tf.Tensor) -> tf.Operation:
    return x.graph.get_operation_by_name("net/gate")


def walks(editor: Any) -> Dict[str, Any]:
    """Walks, filters and selections."""
    x, left, right, both, end = _net()
    graph = x.graph
    control = editor.ControlOutputs(graph)
    ops = editor.get_walks_intersection_ops([x], [end])
    found = {
        "forward": editor.get_forward_walk_ops(left.op),
        "forward_tensors": editor.get_forward_walk_ops([both]),
        "forward_stopped": editor.get_forward_walk_ops([x.op], stop_at_ts=[right, both]),
        "forward_outside": editor.get_forward_walk_ops(x.op, False, within_ops=[left.op, end.op]),
        "forward_control": editor.get_forward_walk_ops(_gate(x), control_outputs=control),
        "backward": editor.get_backward_walk_ops([both.op], inclusive=False),
        "backward_tensors": editor.get_backward_walk_ops(both, within_ops_fn=lambda op: op.inputs),
        "backward_stopped": editor.get_backward_walk_ops(end.op, stop_at_ts=[left, right]),
        "backward_control": editor.get_backward_walk_ops(
            end.op, stop_at_ts=[right], control_inputs=True
        ),
        "intersection": ops,
        "union": editor.get_walks_union_ops(left.op, left.op),
        "within": editor.get_within_boundary_ops(graph, both.op, [left.op, right.op]),
        "within_all": editor.get_within_boundary_ops(graph, both.op, [left.op], inclusive=False),
        "ops_of_regex": editor.filter_ops_from_regex(graph, "et/.*t"),
        "ts_of_regex": editor.filter_ts_from_regex(ops, "left|t:0$"),
        "ops": editor.filter_ops(ops, lambda op: op.type != "Neg"),
        "ts": editor.filter_ts([both.op, end.op], True),
        "ts_filtered": editor.filter_ts(graph, lambda t: t.op.type == "Mul"),
        "selected": editor.select_ops("^net/.*", left, end.op, graph=graph),
        "selected_filtered": editor.select_ops(
            "ne", graph=graph, positive_filter=lambda op: op.type == "Neg"
        ),
        "selected_restricted": editor.select_ops(
            "(?#ops)end", "both", graph=graph, restrict_ops_regex=True
        ),
        "selected_ts": editor.select_ts("^net/.*:0", x, graph=graph),
        "tensors": editor.get_tensors(graph),
        "ios": editor.get_ops_ios(both.op),
        "ios_control": editor.get_ops_ios([_gate(x)], control_ios=control),
        "scope": editor.get_name_scope_ops(graph, "net"),
        "generating": editor.get_generating_ops([left, x]),
        "consuming": editor.get_consuming_ops([x]),
        "control_outputs": control.get(_gate(x)),
    }
    for key, ends in enumerate(editor.compute_boundary_ts([left.op, right.op, both.op, x.op])):
        found["boundary_%d" % key] = ends
    for key, ends in enumerate(editor.compute_boundary_ts([x.op, left.op, end.op])):
        found["other_boundary_%d" % key] = ends
    return {name: _names(value) for name, value in found.items()}


def copies(editor: Any) -> Dict[str, Any]:
    """Copies with replaced inputs, their names, edges and collections, and replaced graphs."""
    x, left, right, both, end = _net()
    new = tf.constant([[1.0, 2.0]], name="new")
    view = editor.sgv([left.op, right.op, both.op])
    copied, info = editor.copy_with_input_replacements(view, {x: new})
    again, more = editor.copy_with_input_replacements(
        [both.op, end.op], {}, dst_scope="copy", src_scope="net"
    )
    with tf.name_scope("outer"):
        inner, _ = editor.copy_with_input_replacements(left.op, {}, dst_scope="third")
        plain, _ = editor.copy_with_input_replacements(editor.sgv("t$", graph=x.graph), {})
    gated, _ = editor.copy_with_input_replacements([_gate(x), both.op], {})
    replaced = editor.graph_replace(end, {x: new})
    listed = editor.graph_replace([end, left], {right: new}, dst_scope="other")
    found = {
        "view": _names([*view.inputs, *view.outputs, *view.ops]),
        "outputs": _names(copied.outputs),
        "ops": _names(copied.ops),
        "transformed": _names(info._transformed_ops.values()),
        "pairs": ["%s=%s" % (t.name, info.transformed(t).name) for t in (left, right, both)],
        "original": [info.original(info.transformed(both)).name],
        "op": [info.transformed(both.op).name],
        "no_original": [str(info.transformed(end))],
        "control": _names(info.transformed(both.op).control_inputs),
        "control_outside": _names(more.transformed(both.op).control_inputs),
        "gated": _names(op for one in gated.ops for op in [one, *one.control_inputs]),
        "inner": _names(inner.ops),
        "plain": _names(plain.ops),
        "scoped": _names(again.ops),
        "kept": _names(tf.get_collection("kept")),
        "losses": _names(tf.get_collection(tf.GraphKeys.LOSSES)),
        "collections": sorted(x.graph.get_all_collection_keys()),
        "replaced": [replaced.name, *(t.name for t in listed)],
    }
    with tf.Session() as session:
        values = session.run(
            [info.transformed(both), more.transformed(end), replaced, listed], {x: [[5.0, 6.0]]}
        )
    return dict(
        found,
        both=values[0].tolist(),
        end=values[1].tolist(),
        replaced_value=values[2].tolist(),
        listed=[value.tolist() for value in values[3]],
    )


def routes(editor: Any) -> Dict[str, Any]:
    """Rerouted and swapped tensors, and control edges."""
    a, b, c = (
        tf.constant(float(value), name=name) for value, name in ((1, "a"), (2, "b"), (5, "c"))
    )
    first, second = tf.negative(a, name="first"), tf.add(b, c, name="second")
    third = tf.multiply(a, a, name="third")
    counts = [editor.reroute_ts({c: 0}.keys(), [a], can_modify=[first.op])]
    edges = [_edges(first, second, third)]
    counts.append(editor.swap_ts([a], [b]))
    edges.append(_edges(first, second, third))
    counts.append(editor.reroute_ts([b], [c], cannot_modify=[second.op]))
    edges.append(_edges(first, second, third))
    editor.add_control_inputs(third.op, [first.op, second.op])
    added = _names(third.op.control_inputs)
    editor.remove_control_inputs(third.op, first.op)
    with tf.Session() as session:
        values = session.run([first, second, third])
    return {
        "counts": counts,
        "edges": edges,
        "added": added,
        "removed": _names(third.op.control_inputs),
        "values": [float(value) for value in values],
        **_views(editor),
    }


def _views(editor: Any) -> Dict[str, Any]:
    """How inputs and outputs of whole subgraphs move."""
    found = {}
    for name in (
        "reroute_inputs",
        "reroute_outputs",
        "reroute_ios",
        "swap_inputs",
        "swap_outputs",
        "swap_ios",
    ):
        with tf.Graph().as_default():
            ends = [
                tf.abs(
                    tf.negative(tf.constant(1.0, name="in" + key), name="op" + key),
                    name="end" + key,
                )
                for key in "ab"
            ]
            sides = [editor.sgv(end.op.inputs[0].op) for end in ends]
            getattr(editor, name)(*sides)
            found[name] = _edges(
                *ends,
                *(end.graph.get_tensor_by_name(n) for end, n in zip(ends, ("opa:0", "opb:0"))),
            )
    return found


def _edges(*tensors: tf.Tensor) -> List[str]:
    return ["%s<-%s" % (t.op.name, ",".join(i.name for i in t.op.inputs)) for t in tensors]


def errors(editor: Any) -> Dict[str, Any]:
    """What is refused, by the type of its error."""
    x, left, _, both, end = _net()
    refused = {
        "unconnected": lambda: editor.graph_replace(left, {end: x}),
        "regex_without_graph": lambda: editor.select_ops("net"),
        "no_ops": lambda: editor.get_forward_walk_ops(3),
        "tensor_for_op": lambda: editor.add_control_inputs(both, [x.op]),
        "tensor_as_control": lambda: editor.add_control_inputs(end.op, [x]),
        "control_twice": lambda: editor.add_control_inputs(both.op, both.op.control_inputs),
        "control_missing": lambda: editor.remove_control_inputs(end.op, x.op),
        "two_lengths": lambda: editor.reroute_ts([x], [left, both]),
        "wrong_keyword": lambda: editor.select_ops("net", graph=x.graph, other=1),
        "op_for_tensor": lambda: editor.reroute_ts([x.op], [left]),
        "dtypes": lambda: editor.reroute_ts([tf.constant(1)], [left]),
    }
    return {name: _error(call) for name, call in refused.items()}


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "none"


def graph_editor(editor: Any) -> Dict[str, Any]:
    """All of the above, each in a graph of its own."""
    found: Dict[str, Any] = {}
    for case in (walks, copies, routes, errors):
        with tf.Graph().as_default():
            found.update({case.__name__ + "." + key: value for key, value in case(editor).items()})
    return found
