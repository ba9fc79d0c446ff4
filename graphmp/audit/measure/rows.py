"""The tensors that an audit measures: the values of a training step, by role."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import recorded_elements
from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.policy.dtypes import FLOATS, HALF
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.traits import FORGETS_VALUES, KEEPS_VALUES, MOVES_NOTHING
from graphmp.tf_hooks.op_defs import OpDefs

ACTIVATION, ACTIVATION_GRADIENT, WEIGHT_GRADIENT, WEIGHT = (
    "activation",
    "activation gradient",
    "weight gradient",
    "weight",
)
ROLES = (ACTIVATION, ACTIVATION_GRADIENT, WEIGHT_GRADIENT, WEIGHT)
_MOVES = ("Stack", "TensorArray", "TensorList")  # ops with these prefixes pass values on


class TensorRow(NamedTuple):
    """A tensor of the original and its counterpart in the converted graph.

    Attributes:
        name: the original's output, `x` or `x:1`.
        role: one of ROLES.
        op: the op type.
        converted: the converted graph's output; empty without a counterpart.
        dtype: its half-precision dtype, a DataType; 0 if it is float32.
        loss: the index of the report's loss whose gradient it is; -1 for none.
        order: its index among the rows in topological order.
        power: the power of that loss's scale in the converted value: 1 except for gradients that
            were divided by it on the way; 0 for no loss.
    """

    name: str
    role: str
    op: str
    converted: str
    dtype: int
    loss: int
    order: int = 0
    power: float = 0


class GraphPair:
    """An original and its conversion, seen from the training step."""

    def __init__(
        self,
        original: tf.MetaGraphDef,
        converted: tf.MetaGraphDef,
        losses: List[Dict[str, Any]],
        powers: Optional[Mapping[Port, float]] = None,
    ):
        """Analyse both graphs.

        Args:
            original: before.
            converted: after.
            losses: the report's.
            powers: of the loss scales in outputs of the converted graph, 1 for other gradients.
        """
        self.before, self.after = GraphView(original.graph_def), GraphView(converted.graph_def)
        self.losses = losses
        self._powers = powers or {}
        self._op_defs = {id(self.before): OpDefs(original), id(self.after): OpDefs(converted)}
        self._gradients = [[parse_input(text) for text in loss["gradients"]] for loss in losses]
        self._computed_gradients = {
            self._source(port) for ports in self._gradients for port in ports
        }
        self._scaled = [
            self._between(loss["seeds"], gradients)
            for loss, gradients in zip(losses, self._gradients)
        ]

    def rows(self) -> List[TensorRow]:
        """The tensors to measure, in the order of the graph.

        A value that nodes pass on is measured where it was computed.

        Values with other powers of the scale than 0 and 1 are left out: these are always float32.
        """
        forward = self.before.ancestors(
            node for loss in self.losses for node in map(_node, loss["loss"])
        )
        found = [*self._weights(forward)]
        for name in self.before.nodes:
            number = next((n for n, scaled in enumerate(self._scaled) if name in scaled), -1)
            if number >= 0 or name in forward:
                found += self._computed(
                    name, ACTIVATION if number < 0 else ACTIVATION_GRADIENT, number
                )
        return self._ordered(
            [row for row in [*found, *self._weight_gradients()] if row.power in (0, 1)]
        )

    def dtype(self, view: GraphView, text: str) -> int:
        """The DataType of an output of `before` or `after`; 0 if unknown."""
        port = parse_input(text)
        dtypes = self._dtypes(view, port.node) if port.node in view.nodes else ()
        return dtypes[port.output] if port.output < len(dtypes) else 0

    def elements(self, name: str) -> int:
        """The number of elements of an output of the original, by recorded shapes."""
        port = parse_input(name)
        return recorded_elements(self.before.nodes[port.node], port.output)

    def scale(self, number: int) -> str:
        """The converted graph's factor of a loss in a step, a tensor; empty without one."""
        current = self.losses[number].get("scale", "")
        first = "%s/in_step" % current.rsplit("/", 1)[0]
        return first if first in self.after.nodes else current

    def _between(self, seeds: List[str], gradients: List[Port]) -> AbstractSet[str]:
        after = self.before.descendants(map(_node, seeds), control=False)
        return after & self.before.ancestors((port.node for port in gradients), control=False)

    def _computed(self, name: str, role: str, loss: int) -> Iterator[TensorRow]:
        node = self.before.nodes[name]
        if (
            node.op in MOVES_NOTHING | KEEPS_VALUES | FORGETS_VALUES | VARIABLE_OPS
            or node.op.startswith(_MOVES)
            or variable_behind(self.before, name)
        ):
            return
        for index, dtype in enumerate(self._dtypes(self.before, name)):
            port = Port(name, index)
            if dtype in FLOATS and self._is_read(port) and port not in self._computed_gradients:
                yield self._row(str(port), role, str(port), loss)

    def _is_read(self, port: Port) -> bool:
        return any(consumer.output == port.output for consumer in self.before.consumers(port.node))

    def _weights(self, forward: AbstractSet[str]) -> Iterator[TensorRow]:
        """One row for each variable that training writes, or that is read in half precision.

        It compares a read of the variable with the half-precision copy.
        """
        written = {
            variable_behind(self.before, port.node)
            for loss in self.losses
            for name in loss["updates"]
            for port in self.before.inputs(name)
        }
        seen: Set[Optional[str]] = {None}
        for name in self.before.nodes:
            variable = (
                variable_behind(self.before, name)
                if name in forward and self.before.inputs(name)
                else None
            )
            if variable in seen or self._dtypes(self.before, name)[:1] not in [
                (d,) for d in FLOATS
            ]:
                continue
            if variable not in written and self._copy(name) == name:
                continue
            seen.add(variable)
            yield self._row(name, WEIGHT, self._copy(name), -1)

    def _copy(self, name: str) -> str:
        """The cast that makes a variable's half-precision copy; else the read itself."""
        casts = (
            (c.node for c in self.after.consumers(name) if self.after.nodes[c.node].op == "Cast")
            if name in self.after.nodes
            else ()
        )
        return next((cast for cast in casts if self._dtypes(self.after, cast)[0] in HALF), name)

    def _weight_gradients(self) -> Iterator[TensorRow]:
        """One row for each gradient, compared with the input of the converted graph's unscale."""
        for number, loss in enumerate(self.losses):
            divided = {
                self._source_after(port): port
                for port in map(self._divided, loss.get("unscale") or [])
                if port is not None
            }
            for port in self._gradients[number]:
                source = self._source(port)
                yield self._row(
                    str(source),
                    WEIGHT_GRADIENT,
                    str(self._uncast(divided.get(source, port))),
                    number,
                )

    def _divided(self, unscale: str) -> Optional[Port]:
        return self.after.inputs(unscale)[0] if unscale in self.after.nodes else None

    def _source_after(self, port: Port) -> Port:
        """The origin of a value of the converted graph, behind identities and casts."""
        while self.after.nodes[port.node].op == "Identity" or port != self._uncast(port):
            port = self.after.inputs(port.node)[0]
        return port

    def _uncast(self, port: Port) -> Port:
        """The tensor that an inserted cast to float32 reads."""
        while self.after.nodes[port.node].op == "Cast" and port.node not in self.before.nodes:
            port = self.after.inputs(port.node)[0]
        return port

    def _source(self, port: Port) -> Port:
        """The origin of a value, behind identities."""
        while self.before.nodes[port.node].op == "Identity":
            port = self.before.inputs(port.node)[0]
        return port

    def _row(self, name: str, role: str, converted: str, loss: int) -> TensorRow:
        dtype = self.dtype(self.after, converted)
        power = self._powers.get(parse_input(converted), 1) if loss >= 0 else 0
        return TensorRow(
            name,
            role,
            self.before.nodes[_node(name)].op,
            converted if dtype else "",
            dtype if dtype in HALF else 0,
            loss,
            power=power,
        )

    def _ordered(self, rows: List[TensorRow]) -> List[TensorRow]:
        """The rows with their places in a step."""
        places = {
            name: place
            for place, name in enumerate(
                in_order(self.before, self.before.ancestors(_node(row.name) for row in rows))
            )
        }
        numbers = sorted(
            range(len(rows)),
            key=lambda number: (
                places[_node(rows[number].name)],
                parse_input(rows[number].name).output,
            ),
        )
        order = {number: place for place, number in enumerate(numbers)}
        return [row._replace(order=order[number]) for number, row in enumerate(rows)]

    def _dtypes(self, view: GraphView, name: str) -> Tuple[int, ...]:
        signature = self._op_defs[id(view)].signature(view.nodes[name])
        return tuple(port.dtype for port in signature.outputs) if signature is not None else ()


def _node(text: str) -> str:
    return parse_input(text).node
