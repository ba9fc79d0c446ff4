"""Why a node has its dtype: the rule, the chain of nodes, and the flags that would change it.

Data only; nothing is printed.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare.roles import role
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.inspect.alternatives import Alternatives, Flag
from graphmp.inspect.chains import chain_to, way_to_allow
from graphmp.inspect.rules import RULES, UNPAINTED
from graphmp.naming import SIBLING, in_body, places
from graphmp.policy.op_sets import ARGUMENT, RESULT, VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import VARIABLE, Reason
from graphmp.rewrite.pipeline import Decisions, decide, rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks import bodies
from graphmp.tf_hooks.op_defs import OpDefs, refuse_missing_output
from graphmp.wording import nearest

# The meaning of an inserted node, by its op.
_INSERTED_AS = {
    "Cast": "inserted: a cast, where float32 and half precision meet",
    "Const": "inserted: a second constant, for the ops that read it in half precision",
    "Enter": "inserted: a second entrance of the loop, for a value that is cast before it",
}
_MOST_CLOSE = 3


class Link(NamedTuple):
    """A node of a chain, with its dtype and the reason."""

    node: str
    op: str
    dtype: str
    reason: str


class UnitExplanation(NamedTuple):
    """Why one type attribute of a node has its dtype.

    Attributes:
        attribute: its name, with the index for a list.
        dtype: its dtype after the conversion.
        reason: why.
        rule: the rule behind the reason.
        chain: the nodes that led to it, from the source to the node itself.
        ahead: for nodes that are half between others, the nodes to the next op worth half
            precision.
        flags: the flags that change it; may be empty.
    """

    attribute: str
    dtype: str
    reason: str
    rule: str
    chain: List[Link]
    ahead: List[Link]
    flags: List[Flag]


class Explanation(NamedTuple):
    """The explanation of a node.

    Attributes:
        node: its path.
        op: its op.
        note: the meaning of an inserted node, or why a node has no units.
        units: one for each float32 type attribute.
        producer: the source of an inserted cast.
        readers: the consumers of an inserted node.
        changes: rows of a conversion's report, if that is all that is known.
    """

    node: str
    op: str
    note: str = ""
    units: Tuple[UnitExplanation, ...] = ()
    producer: Optional[Link] = None
    readers: Tuple[Link, ...] = ()
    changes: Tuple[Dict[str, str], ...] = ()


def as_json(value: Any) -> Any:
    """Named tuples as objects, recursively; reasons as texts."""
    if isinstance(value, Reason):
        return value.text
    if hasattr(value, "_asdict"):
        return {name: as_json(field) for name, field in value._asdict().items()}
    return [as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def named(text: str) -> str:
    """The path of the node in a text: a node, a tensor or a control input."""
    return parse_input(text.lstrip("^")).node


def explain(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy, name: str) -> Explanation:
    """Explain a node of a graph, or one that the conversion inserts.

    Args:
        meta_graph: the original graph.
        config: options of the conversion.
        policy: its op policy.
        name: a node or a tensor, by its path.

    Raises:
        GraphmpError: GMP002 for a missing node, naming the closest ones.
    """
    name = named(name)
    if config.compute_dtype == "float32":
        return _unpainted(meta_graph, name)
    return _Explainer(meta_graph, config, policy).explain(name)


def refuse_missing_tensor(meta_graph: tf.MetaGraphDef, name: str) -> None:
    """Refuse the name of a tensor that its node, in the graph or in a function, doesn't have.

    Raises:
        GraphmpError: GMP002.
    """
    path, op_defs = named(name), OpDefs(meta_graph)
    for body, nodes in [
        ("", meta_graph.graph_def.node),
        *((f.signature.name, f.node_def) for f in meta_graph.graph_def.library.function),
    ]:
        for node in nodes:
            if in_body(body, node.name) == path:
                refuse_missing_output("tensor %s" % name, name, op_defs.signature(node))


def _unpainted(meta_graph: tf.MetaGraphDef, name: str) -> Explanation:
    nodes = ops_by_path(meta_graph)
    if name not in nodes:
        raise no_such_node(name, nodes)
    return Explanation(name, nodes[name], UNPAINTED)


def explain_by_report(
    converted: tf.MetaGraphDef, report: Optional[Dict[str, Any]], name: str
) -> Explanation:
    """The rows of a conversion's report on a node of the converted graph.

    Raises:
        GraphmpError: GMP002 for a missing node, naming the closest ones.
    """
    name = named(name)
    nodes = ops_by_path(converted)
    if name not in nodes:
        raise no_such_node(name, nodes)
    if report is None:
        known = role(name)
        return Explanation(name, nodes[name], known.text if known else "nothing tells why")
    rows = [
        {"change": row.get("change", ""), "reason": row.get("reason", "")}
        for row in report["changes"]
        if in_body(row.get("body") or "", row.get("node", "")) == name
    ]
    rows += [
        {"change": "stays float32", "reason": row["reason"]}
        for row in report.get("float32_nodes", [])
        if name in [in_body(row.get("body") or "", node) for node in row["nodes"]]
    ]
    clips = [
        row
        for loss in report.get("losses", [])
        for row in loss.get("user_clips", [])
        if row["node"] == name
    ]
    rows += [
        {"change": "stays", "reason": "the model's own clip of gradients by %s" % row["kind"]}
        for row in clips
    ]
    rows += [
        {"change": row["code"], "reason": row["message"]}
        for row in report.get("warnings", [])
        if row.get("node") == name
    ]
    return Explanation(
        name, nodes[name], "" if rows else "the conversion did not change it", changes=tuple(rows)
    )


def no_such_node(name: str, names: Iterable[str]) -> GraphmpError:
    """The error for a missing node, with the closest names.

    By the whole name, else its last part.
    """
    nodes = list(names)
    by_end: Dict[str, List[str]] = {}
    for node in nodes:
        by_end.setdefault(node.rsplit("/", 1)[-1], []).append(node)
    ends = nearest(name.rsplit("/", 1)[-1], by_end)
    close = nearest(name, nodes) + [node for end in ends for node in by_end[end]]
    hint = "; closest: %s" % ", ".join(list(dict.fromkeys(close))[:_MOST_CLOSE]) if close else ""
    return GraphmpError("GMP002", "node %s: the graph has no such node%s" % (name, hint))


class _Explainer:
    def __init__(self, meta_graph: tf.MetaGraphDef, config: Config, policy: Policy):
        self._meta_graph = meta_graph
        self._config = config
        self._policy = policy
        self._decided = decide(meta_graph, config, policy)
        self._functions = {f.signature.name: f for f in meta_graph.graph_def.library.function}

    def explain(self, name: str) -> Explanation:
        body, node = self._place(name)
        decisions = self._decided.get(body)
        if decisions is not None and node in decisions.graph.view.nodes:
            return self._node(decisions, body, node)
        inside = _ops_inside(self._functions[body]) if body else {}
        if node in inside:
            return Explanation(
                name,
                inside[node],
                "float32 stays: functions that are not only called, or not at all, are not"
                " rewritten inside",
            )
        inserted = (
            self._inserted(body, node) if decisions is not None and SIBLING.match(node) else None
        )
        if inserted is None:
            raise self._missing(name)
        return inserted

    def _place(self, name: str) -> Tuple[str, str]:
        """The body of a path and the node's name there."""
        if name not in self._decided[""].graph.view.nodes:
            return next(places(name, sorted(self._functions)), ("", name))
        return "", name

    def _missing(self, name: str) -> GraphmpError:
        holders = [
            in_body(f, name)
            for f, function in sorted(self._functions.items())
            if name in _ops_inside(function)
        ]
        if holders:
            return GraphmpError(
                "GMP002",
                "node %s: not in the main graph but in functions; accepted are %s"
                % (name, ", ".join(holders)),
            )
        return no_such_node(name, ops_by_path(self._meta_graph))

    def _node(self, decisions: Decisions, body: str, name: str) -> Explanation:
        graph = decisions.graph
        units = tuple(self._unit(decisions, body, number) for number in graph.units_of(name))
        return Explanation(
            in_body(body, name),
            graph.view.nodes[name].op,
            "" if units else _without_units(graph, name),
            units,
        )

    def _unit(self, decisions: Decisions, body: str, number: int) -> UnitExplanation:
        graph = decisions.graph
        unit, reason = graph.units[number], decisions.placed[number].reason
        chain, ahead = chain_to(decisions, number), []
        if decisions.is_half(number):
            ahead = way_to_allow(decisions, number, graph.downstream)[1:]
        return UnitExplanation(
            unit.attribute if unit.place < 0 else "%s[%d]" % (unit.attribute, unit.place),
            self._dtype(decisions, number),
            reason.text,
            RULES.get(reason.kind, ""),
            [self._link(decisions, body, n) for n in chain],
            [self._link(decisions, body, n) for n in ahead],
            Alternatives(self._meta_graph, self._config, self._policy).flags(
                decisions, body, number, chain[0]
            ),
        )

    def _dtype(self, decisions: Decisions, number: int) -> str:
        return self._config.compute_dtype if decisions.is_half(number) else "float32"

    def _link(self, decisions: Decisions, body: str, number: int, name: str = "") -> Link:
        """A unit as a link; `name` is the node if it has no unit."""
        node = decisions.graph.view.nodes[name] if number < 0 else decisions.graph.node(number)
        reason = decisions.placed[number].reason.text if number >= 0 else "the op fixes its type"
        return Link(in_body(body, node.name), node.op, self._dtype(decisions, number), reason)

    def _inserted(self, body: str, name: str) -> Optional[Explanation]:
        """Explain a node that only the converted graph has; None if it has none of this name."""
        decisions = self._decided[body]
        view = _view(rewrite(self._meta_graph, self._config, self._policy).meta_graph, body)
        if name not in view.nodes:
            return None
        op = view.nodes[name].op
        port = view.inputs(name)[0] if op == "Cast" else Port(SIBLING.sub(r"\1", name), 0)
        producer = (
            self._link(decisions, body, decisions.graph.writer(port), port.node)
            if port.node in decisions.graph.view.nodes
            else _ours(body, view.nodes[port.node])
        )
        readers = [
            self._reader(decisions, body, view.nodes[c.node], c.slot) for c in view.consumers(name)
        ]
        return Explanation(in_body(body, name), op, _INSERTED_AS[op], (), producer, tuple(readers))

    def _reader(self, decisions: Decisions, body: str, node: tf.NodeDef, slot: int) -> Link:
        if node.name in decisions.graph.view.nodes:
            return self._link(decisions, body, decisions.graph.reading(node.name, slot), node.name)
        return _ours(body, node)


def _ours(body: str, node: tf.NodeDef) -> Link:
    """A link for a node that only the converted graph has: a cast, say, or of the loss scale."""
    path, inserted, known = in_body(body, node.name), SIBLING.match(node.name), role(node.name)
    if inserted is not None:
        return Link(path, node.op, inserted.group(2), _INSERTED_AS[node.op])
    return Link(path, node.op, "float32", known.text if known else "")


def _without_units(graph: TypedGraph, name: str) -> str:
    """Why a node has no type attribute that could change."""
    signature = graph.signature(name)
    if signature is None:
        return "GMP109: neither TensorFlow here nor the graph defines the op: it stays as it is"
    if graph.view.nodes[name].op in VARIABLE_OPS:
        return "variable: %s; no flag changes that" % RULES[VARIABLE]
    dtypes = sorted(
        {
            tf.as_dtype(port.dtype).name
            for port in [*signature.inputs, *signature.outputs]
            if port.dtype
        }
    )
    return "no type to change: it reads and writes %s" % (", ".join(dtypes) or "nothing")


def _view(meta_graph: tf.MetaGraphDef, body: str) -> GraphView:
    """The edges of the main graph or of a function's body."""
    if not body:
        return GraphView(meta_graph.graph_def)
    function = next(f for f in meta_graph.graph_def.library.function if f.signature.name == body)
    return GraphView(bodies.as_graph(function, OpDefs(meta_graph)))


def ops_by_path(meta_graph: tf.MetaGraphDef) -> Dict[str, str]:
    """The ops of all nodes of a graph, those of functions included."""
    found = {node.name: node.op for node in meta_graph.graph_def.node}
    for function in meta_graph.graph_def.library.function:
        inside = _ops_inside(function)
        found.update((in_body(function.signature.name, name), op) for name, op in inside.items())
    return found


def _ops_inside(function: Any) -> Dict[str, str]:
    """The ops of a function's nodes; arguments and results are nodes too."""
    signature = function.signature
    return {
        **{argument.name: ARGUMENT for argument in signature.input_arg},
        **{node.name: node.op for node in function.node_def},
        **{bodies.RESULTS + result.name: RESULT for result in signature.output_arg},
    }
