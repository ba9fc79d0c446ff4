"""Savers made after a conversion: they save and restore the loss scale too, and cost no clones.

A Saver with the same nodes as an earlier one, names aside, runs the earlier one's. The first of its
kind is cloned, with the scale, and so is one that runs together with the Saver whose nodes it ran.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.io.messages import serialize
from graphmp.graph.state.live import ancestors, variable_op
from graphmp.graph.structure.values import strings
from graphmp.graph.structure.view import GraphView
from graphmp.graph.structure.walk import reached
from graphmp.naming import SCOPE
from graphmp.policy.op_sets import RESTORES, SAVES
from graphmp.recipe.say import say
from graphmp.report.record import Record
from graphmp.scaling.insertion.checkpoints import UNSAVED, saved_late
from graphmp.session.live.cloning.clones import Clones
from graphmp.session.live.cloning.nodes import LiveNodes
from graphmp.session.live.cloning.stand_ins import StandIns

_SAVER_OPS = SAVES | RESTORES
_MARKS = ("^", "loc:@")  # ahead of names, in inputs and in `_class`
_Key = FrozenSet[bytes]


class LateSavers:
    """The Savers that came after a conversion, and those that they are compared with."""

    def __init__(self, graph: Any, config: Config, record: Record, nodes: LiveNodes):
        """Note what the conversion scales.

        Args:
            graph: the tf.Graph.
            config: the options.
            record: the record of the conversion.
            nodes: the graph's nodes right after it.
        """
        self._config = config
        self._scales = [row for row in record.scales if row["kind"] == "dynamic"]
        self._trained = _trained(graph, record) if self._scales else set()
        self._own = tuple("%s/%s/" % (SCOPE, row["scope"]) for row in self._scales)
        self._early = nodes.known
        self._scopes: Optional[Dict[_Key, str]] = None  # of a Saver of each kind
        self._behind: Dict[Any, Set[Any]] = {}  # for each op, the ops of Savers that it runs

    def meet(self, nodes: LiveNodes, ops: List[Any]) -> bool:
        """Whether a run of these ops has two Savers run the same nodes."""
        return bool(nodes.savers) and bool(self._shared(nodes, ops))

    def apart(self, nodes: LiveNodes, ops: List[Any]) -> LiveNodes:
        """These nodes, with clones of its own for each Saver that a run of these ops has meet."""
        for op in self._shared(nodes, ops) if nodes.savers else []:
            found = _of_saver(op, _scope(op))
            names = {op.name for op in found}
            kept = {
                name: clone for name, clone in nodes.stand_ins.names.items() if name not in names
            }
            nodes = self._cloned(nodes._replace(stand_ins=StandIns(kept)), found)
        return nodes

    def _shared(self, nodes: LiveNodes, ops: List[Any]) -> List[Any]:
        """An op of each Saver that runs what another Saver of the same run runs too."""
        first: Dict[str, str] = {}  # for each node that runs, the Saver that runs it
        shared: Dict[str, Any] = {}
        kinds = set(self._known_scopes(ops[0].graph).values()) if ops else set()
        savers = {saver for op in ops for saver in self._savers_behind(op)}
        for op in sorted(savers, key=lambda op: (_scope(op) not in kinds, str(op.name))):
            runs = nodes.stand_ins.names.get(op.name, op.name)
            if first.setdefault(runs, _scope(op)) != _scope(op):
                shared[_scope(op)] = op
        return list(shared.values())

    def _savers_behind(self, op: Any) -> Set[Any]:
        if op not in self._behind:
            self._behind[op] = {other for other in ancestors([op]) if other.type in _SAVER_OPS}
        return self._behind[op]

    def mapped(self, nodes: LiveNodes, ops: List[Any]) -> LiveNodes:
        """These nodes, with the unknown Savers that some ops run mapped to clones."""
        unknown = ancestors(ops, stop=lambda op: nodes.knows(op.name))
        late = {
            _scope(op): op
            for op in sorted(unknown, key=lambda op: str(op.name))
            if op.type in _SAVER_OPS and not nodes.knows(op.name)
        }
        for scope, op in late.items():
            nodes = self._mapped(nodes, scope, _of_saver(op, scope))
        return nodes

    def _mapped(self, nodes: LiveNodes, scope: str, ops: List[Any]) -> LiveNodes:
        names = {op.name for op in ops}
        if self._lacks_scales(ops):
            key = _key(ops, scope)
            scopes = self._known_scopes(ops[0].graph)
            if key not in scopes:
                nodes = self._cloned(nodes, ops)
                scopes[key] = scope
            elif scopes[key] != scope:
                nodes = _like(nodes, names, scope, scopes[key])
        return nodes._replace(known=nodes.known | names, savers=nodes.savers | names)

    def _lacks_scales(self, ops: List[Any]) -> bool:
        """Whether a Saver saves what the losses train, and not the scales.

        One that was made of a checkpoint's names saves the scales itself.
        """
        saved = {name for op in ops if op.type in SAVES for name in _saved(op)}
        return not saved.isdisjoint(self._trained) and not any(
            name.startswith(self._own) for name in saved
        )

    def _known_scopes(self, graph: Any) -> Dict[_Key, str]:
        """The scope of a Saver of each kind, at first of those that the conversion converted."""
        if self._scopes is None:
            early = {
                _scope(op): op
                for op in graph.get_operations()
                if op.type in SAVES and op.name in self._early
            }
            self._scopes = {_key(_of_saver(op, scope), scope): scope for scope, op in early.items()}
        return self._scopes

    def _cloned(self, nodes: LiveNodes, ops: List[Any]) -> LiveNodes:
        """The nodes with clones of a Saver's that save and restore the scales too."""
        graph, names = ops[0].graph, {op.name for op in ops}
        meta_graph, original = tf.MetaGraphDef(), tf.GraphDef()
        around = ancestors(ops, stop=lambda op: op.name not in names)
        for op in sorted(around, key=lambda op: str(op.name)):
            node = original.node.add()
            node.CopyFrom(op.node_def)
            if op.name not in names:
                del node.input[:]
        meta_graph.graph_def.CopyFrom(original)
        changed, added, unsaved = saved_late(meta_graph, self._config, self._scales, self._trained)
        for name in unsaved:
            say("GMP126: %s: %s" % (name, UNSAVED))
        view = GraphView(meta_graph.graph_def)
        wanted = added | (view.descendants(changed) & names)
        if not changed:
            return nodes
        clones = Clones(graph, view, original, wanted, nodes.prefix, nodes.stand_ins.names)
        clones.add()
        return nodes.with_clones(clones, view, names)


def _trained(graph: Any, record: Record) -> Set[str]:
    """The variables that a conversion's losses train; of a loss inside a function, all that may."""
    found: Set[str] = set()
    for row in record.losses:
        ops = [_operation(graph, name) for name in row["updates"]]
        written = {
            variable.name
            for op in ops
            if op is not None and op.inputs
            for variable in [variable_op(op.inputs[0])]
            if variable is not None
        }
        found |= written or {v.op.name for v in graph.get_collection("trainable_variables")}
    return found


def _operation(graph: Any, name: str) -> Optional[Any]:
    try:
        return graph.get_operation_by_name(name)
    except KeyError:
        return None


def _scope(op: Any) -> str:
    return str(op.name.rpartition("/")[0])


def _of_saver(op: Any, scope: str) -> List[Any]:
    """The ops of a Saver: those below its name scope that are connected to one of them."""

    def around(op: Any) -> Iterator[Any]:
        found: List[Any] = [tensor.op for tensor in op.inputs]
        found += op.control_inputs
        found += [reader for tensor in op.outputs for reader in tensor.consumers()]
        found += op._control_outputs
        return (other for other in found if other.name.startswith(scope + "/"))

    return sorted(reached([op], around), key=lambda op: str(op.name))


def _saved(op: Any) -> Set[str]:
    """The names under which a save op saves."""
    names = op.inputs[1].op
    return set(strings(names.node_def)) if names.type == "Const" else set()


def _key(ops: Iterable[Any], scope: str) -> _Key:
    """The nodes of a Saver, without its name scope."""
    start = scope + "/"

    def relative(text: str) -> str:
        mark = next((mark for mark in _MARKS if text.startswith(mark)), "")
        name = text[len(mark) :]
        return mark + ("./" + name[len(start) :] if name.startswith(start) else name)

    found = []
    for op in ops:
        node = tf.NodeDef()
        node.CopyFrom(op.node_def)
        node.name = relative(node.name)
        node.input[:] = [relative(text) for text in node.input]
        beside = node.attr["_class"].list.s if "_class" in node.attr else []
        beside[:] = [relative(text.decode("utf-8")).encode("utf-8") for text in beside]
        found.append(serialize(node))
    return frozenset(found)


def _like(nodes: LiveNodes, names: Set[str], scope: str, other: str) -> LiveNodes:
    """The nodes with those of a Saver mapped to what runs instead of another Saver's."""
    there: Mapping[str, str] = nodes.stand_ins.names
    alike = {name: other + name[len(scope) :] for name in names}
    found = {name: there.get(like, like) for name, like in alike.items()}
    return nodes._replace(stand_ins=StandIns({**there, **found}))
