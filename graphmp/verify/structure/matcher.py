"""Matching nodes inserted by a conversion against patterns."""

from __future__ import annotations

import itertools
from typing import Any, Container, Dict, Iterator, List, Mapping, Optional, Sequence, Set

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import array, elements
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.dtypes import dtype_text
from graphmp.tf_hooks.op_definitions import defaults
from graphmp.verify.sides import attribute
from graphmp.verify.structure.patterns import (
    LIKE,
    ZEROS,
    Hole,
    Named,
    NodePattern,
    Rest,
    Templates,
    TemplateUse,
    Value,
)

Bindings = Dict[str, Any]
SAME = {
    "AddV2": "Add",
    "SelectV2": "Select",
    "RefIdentity": "Identity",
}  # ops with the same function
# They don't change a value.
_COSMETIC = frozenset(("_class", "_has_manual_control_dependencies", "_output_shapes", "N"))
_MOST_ELEMENTS = 1 << 16  # of an inserted constant
_NODES = ""  # the key of a match's nodes in its bindings


def same_op(op: str) -> str:
    """One name for ops with the same function."""
    return SAME.get(op, op)


class Matcher:
    """Matches added nodes against templates.

    Attributes:
        used: explained added nodes: copies, and those of kept matches.
        kept: those of kept matches.
    """

    def __init__(self, view: GraphView, added: Set[str], templates: Templates):
        self._view, self._added, self._templates = view, added, templates
        self._fresh = itertools.count()
        self.used: Set[str] = set()
        self.kept: Set[str] = set()

    def match(
        self, name: str, port: Port, bindings: Optional[Bindings] = None
    ) -> Optional[Bindings]:
        """The bindings of a template's holes if an output matches it; else None."""
        return self._use(name, (), {}, self.plain(port), dict(bindings or {}))

    def take(
        self, name: str, port: Port, bindings: Optional[Bindings] = None
    ) -> Optional[Bindings]:
        """Match, and count the nodes of the match as explained."""
        found = self.match(name, port, bindings)
        return None if found is None else self.keep(found)

    def has(self, name: str) -> bool:
        """Whether there is a template of that name."""
        return name in self._templates

    def keep(self, bindings: Bindings) -> Bindings:
        """Counts the nodes of a match as explained."""
        self.used.update(bindings.get(_NODES, ()))
        self.kept.update(bindings.get(_NODES, ()))
        return bindings

    def plain(self, port: Port) -> Port:
        """The output behind a copy, an Identity without control inputs."""
        while port.node in self._added and self.is_copy(port.node):
            self.used.add(port.node)
            port = self._view.inputs(port.node)[0]
        return port

    def is_copy(self, name: str) -> bool:
        """Whether a node is an Identity without control inputs."""
        return same_op(self._view.nodes[name].op) == "Identity" and not self._view.controls(name)

    def constant(self, port: Port) -> Optional[np.ndarray]:
        """The value of an inserted constant."""
        node = self._view.nodes[port.node]
        tensor = attribute(node, "value").tensor
        if node.op != "Const" or port.node not in self._added or elements(tensor) > _MOST_ELEMENTS:
            return None
        return array(tensor)

    def scalar(self, port: Port) -> Optional[float]:
        """The number in such a constant without control inputs."""
        value = self.constant(port)
        is_number = (
            value is not None
            and not value.shape
            and value.dtype != object
            and not self._added.intersection(self._view.controls(port.node))
        )
        return float(value) if is_number else None  # type: ignore[arg-type]

    def _use(
        self,
        name: str,
        arguments: Sequence[Any],
        outer: Mapping[str, Any],
        port: Port,
        found: Bindings,
    ) -> Optional[Bindings]:
        for template in self._templates[name]:
            scope: Dict[str, Any] = {}
            if template.parameters:
                number = next(self._fresh)
                scope.update(
                    (parameter, (argument, outer))
                    for parameter, argument in zip(template.parameters, arguments)
                )
                scope.update((own, "%s.%d" % (own, number)) for own in template.own)
            result = self._match(template.pattern, scope, port, found)
            if result is not None:
                return result
        return None

    def _match(
        self, pattern: Any, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        port = self.plain(port)
        if isinstance(pattern, Hole):
            return self._hole(pattern.name, scope, port, found)
        if isinstance(pattern, Named):
            inner = self._match(pattern.pattern, scope, port, found)
            return (
                None
                if inner is None
                else _bound(scope.get(pattern.name, pattern.name), port, inner)
            )
        if isinstance(pattern, TemplateUse):
            return self._use(pattern.template, pattern.arguments, scope, port, found)
        if port.node not in self._added:
            return None
        if isinstance(pattern, Value):
            return (
                self._seen(found, port.node)
                if not self._waits_for_added(port.node)
                and port.output == 0
                and self._is_constant(port, pattern.value)
                else None
            )
        return self._node(pattern, scope, port, found)

    def _waits_for_added(self, name: str) -> bool:
        """Whether a constant waits for anything added but a NoOp, which groups what it waits for.

        Consumers must wait for the original's nodes too, which is checked elsewhere.
        """
        waits = self._added.intersection(self._view.controls(name))
        return any(self._view.nodes[each].op != "NoOp" for each in waits)

    def _hole(
        self, name: str, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        meant = scope.get(name, name)
        if isinstance(meant, tuple):
            return self._match(meant[0], meant[1], port, found)
        if name.isupper():
            value = self.scalar(port)
            return None if value is None else _bound(meant, value, self._seen(found, port.node))
        if meant not in found and name in self._templates:
            inner = self._use(name, (), {}, port, found)
            return None if inner is None else _bound(meant, port, inner)
        return _bound(meant, port, found)

    def _node(
        self, pattern: NodePattern, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        node = self._view.nodes[port.node]
        if same_op(node.op) != pattern.op or port.output != pattern.output:
            return None
        inner: Optional[Bindings] = self._seen(found, port.node)
        if pattern.op == "Const":
            inner = self._number(pattern.inputs[0], scope, port, inner or {})
        elif not _attributes(node, pattern.attributes):
            return None
        else:
            ports = self._view.inputs(port.node)
            if pattern.rest:
                count = max(0, len(ports) - len(pattern.inputs))
                inner = _bound(pattern.rest, tuple(map(self.plain, ports[:count])), inner or {})
                ports = ports[count:]
            inner = self._inputs(pattern.inputs, scope, ports, inner)
        for key, value in pattern.attributes.items():
            if isinstance(value, Hole) and inner is not None:
                inner = _bound(value.name, _spelled(node, key), inner)
        return None if inner is None else self._controls(pattern, scope, port, inner)

    def _controls(
        self, pattern: NodePattern, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        """Match a node's control inputs."""
        if pattern.after is None:
            return found
        controls = [Port(name, 0) for name in self._view.controls(port.node)]
        return next(self._waits(pattern.after, scope, controls, found), None)

    def _number(
        self, pattern: Any, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        """Match the value of a constant, with any control inputs."""
        meant = scope.get(pattern.name, pattern.name) if isinstance(pattern, Hole) else None
        if isinstance(meant, tuple):
            return self._number(meant[0], meant[1], port, found)
        if meant is not None:
            value = self.constant(port)
            return None if value is None or value.shape else _bound(meant, float(value), found)
        return found if self._is_constant(port, pattern.value) else None

    def _inputs(
        self,
        patterns: Sequence[Any],
        scope: Mapping[str, Any],
        ports: Sequence[Port],
        found: Optional[Bindings],
    ) -> Optional[Bindings]:
        if len(patterns) != len(ports):
            return None
        for pattern, port in zip(patterns, ports):
            found = None if found is None else self._match(pattern, scope, port, found)
        return found

    def _waits(
        self,
        patterns: Sequence[Any],
        scope: Mapping[str, Any],
        controls: List[Port],
        found: Bindings,
    ) -> Iterator[Bindings]:
        """Ways to match a node's control inputs, in any order."""
        if not patterns or isinstance(patterns[0], Rest):
            last = (
                _bound(patterns[0].name, tuple(controls), found)
                if patterns
                else None
                if controls
                else found
            )
            yield from [last] if last is not None else []
            return
        for place, port in enumerate(controls):
            inner = self._control(patterns[0], scope, port, found)
            if inner is not None:
                yield from self._waits(
                    patterns[1:], scope, controls[:place] + controls[place + 1 :], inner
                )

    def _control(
        self, pattern: Any, scope: Mapping[str, Any], port: Port, found: Bindings
    ) -> Optional[Bindings]:
        """Match a control edge, which has no output index.

        For a copy the output matters, since a copy of a dead output is dead.
        """
        if port.node in self._added and self.is_copy(port.node):
            return self._match(pattern, scope, port, found)
        if isinstance(pattern, Hole) and isinstance(found.get(pattern.name), Port):
            return found if found[pattern.name].node == port.node else None
        return self._match(pattern, scope, port, found)

    def _seen(self, found: Bindings, name: str) -> Bindings:
        return {**found, _NODES: found.get(_NODES, frozenset()) | {name}}

    def _is_constant(self, port: Port, value: Any) -> bool:
        found = self.constant(port)
        if found is not None and value == ZEROS and found.dtype != object:
            return not any(found.tobytes())
        if found is None or found.shape != np.shape(value):
            return False
        if found.dtype == object:
            return [bytes(each) for each in found.ravel()] == [
                str(each).encode() for each in np.ravel(value)
            ]
        if np.asarray(value).dtype.kind == "U":
            return False
        wanted = np.asarray(value).astype(found.dtype)
        return bool(np.all((found == wanted) | ((found != found) & (wanted != wanted))))


def _bound(name: str, value: Any, found: Bindings) -> Optional[Bindings]:
    if name in found:
        return found if found[name] == value else None
    return {**found, name: value}


def _attributes(node: tf.NodeDef, wanted: Mapping[str, Any]) -> bool:
    """Whether the attributes in a pattern match, and all others except types have defaults."""
    if LIKE in wanted:
        return True
    return all(
        isinstance(value, Hole) or _spelled(node, key) == value for key, value in wanted.items()
    ) and not unusual(node, wanted)


def _spelled(node: tf.NodeDef, key: str) -> Any:
    """The value of an attribute in Python's types; None if it isn't set."""
    if key not in node.attr:
        return None
    kind = node.attr[key].WhichOneof("value")
    value = getattr(node.attr[key], kind)
    if kind == "type":
        return dtype_text(value)
    return (
        value.decode()
        if kind == "s"
        else [dim.size for dim in value.dim]
        if kind == "shape"
        else value
    )


def unusual(node: tf.NodeDef, but: Container[str]) -> List[str]:
    """Attributes of a node, except types, that differ from their default."""
    unset = defaults(node.op)
    found = []
    for key in node.attr:
        kind = node.attr[key].WhichOneof("value")
        if (
            key in but
            or key in _COSMETIC
            or kind == "type"
            or (kind == "list" and node.attr[key].list.type)
        ):
            continue
        if key not in unset or unset[key] != node.attr[key]:
            found.append(key)
    return found
