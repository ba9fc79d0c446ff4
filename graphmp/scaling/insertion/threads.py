"""Passing the scale to functions that take gradients, and the flag back (`losses/returned.py`).

1. A function that takes gradients gets an argument, the scale, and a result: whether all that
   leaves its gradient code is finite. So does each caller up to the main graph, or to a function
   that applies the gradients, and each sibling branch. A loop passes the scale on and collects the
   flags of all its iterations; its condition takes both.
2. A call whose gradients train nothing passes 1.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import add_data_inputs
from graphmp.naming import in_body
from graphmp.policy.dtypes import BOOL, FLOAT32
from graphmp.policy.op_sets import WHILES
from graphmp.policy.reason import SCALE, Done, Reason
from graphmp.scaling.insertion.handles import more_shapes, signatures, signatures_changed
from graphmp.scaling.losses.returned import Threads

_REASON = Reason(
    SCALE, "handed to functions that take gradients; whether these are finite is handed back"
)
SCALE_ARGUMENT = "graphmp_loss_scale"
_FINITE, _BEFORE = "graphmp_finite", "graphmp_finite_before"
RETURNED_SCOPE = "graphmp/returned/"


def flag_output(node: Any, outputs: int) -> int:
    """The index of a call's future output for the flag."""
    return outputs + 1 if node.op in WHILES else outputs


class Applied(NamedTuple):
    """A call in a function that applies gradients.

    The scale in the syntax of that body, and the node that will return the call's flag.
    """

    scale: str
    flag: str


class ThreadInsertion:
    """Arguments and results of the functions on the way."""

    def __init__(self, threads: Threads):
        """Nothing is changed yet."""
        self._graph_def, self._functions = threads.graph_def, threads.functions
        self._threads = threads

    def apply(
        self,
        flags: Mapping[str, str],
        given: Mapping[str, Tuple[str, str]],
        applied: Mapping[str, Mapping[str, Applied]],
    ) -> List[Done]:
        """Change functions and their callers. Returns rows of the record.

        Args:
            flags: the flag of each gradient-taking function that already has the scale, in its
                body's syntax.
            given: the scale for each call in the main graph, and for a loop a constant that is
                true.
            applied: calls in functions that apply gradients.
        """
        loops = self._threads.loops()
        before = {
            name: known - {SCALE_ARGUMENT} for name, known in signatures(self._graph_def).items()
        }
        for node in self._graph_def.node:
            if node.name in given:
                self._pass(node, *given[node.name])
        for name in sorted(self._threads.applying):
            self._give(self._functions[name], applied.get(name, {}))
        for name in sorted(self._threads.needed):
            self._change(self._functions[name], flags.get(name), loops)
        return [*self._rows(), *signatures_changed(self._graph_def, before, _REASON)]

    def _rows(self) -> Iterator[Done]:
        callers = sorted(self._threads.needed | self._threads.applying)
        for caller, nodes in [
            ("", self._graph_def.node),
            *((name, self._functions[name].node_def) for name in callers),
        ]:
            for node in nodes:
                if self._threads.passes(node):
                    yield Done(in_body(caller, node.name), "changed", _REASON)
                elif caller and _is_inserted(node):
                    yield Done(in_body(caller, node.name), "inserted", _REASON)

    def _give(self, function: Any, applied: Mapping[str, Applied]) -> None:
        """Pass the scale to calls in a function that applies gradients, and their flags to it."""
        nodes = {node.name: node for node in function.node_def}
        for node in [node for node in function.node_def if self._threads.passes(node)]:
            true = _constant(function, nodes, "true", True) if node.op in WHILES else ""
            if node.name not in applied:
                self._pass(node, _constant(function, nodes, "one", 1.0), true)
                continue
            stands = nodes[applied[node.name].flag]
            stands.op = "Identity"
            stands.input[:] = [self._pass(node, applied[node.name].scale, true), *stands.input]
            stands.attr.clear()
            stands.attr["T"].type = BOOL

    def _change(self, function: Any, own: Optional[str], loops: Mapping[str, bool]) -> None:
        name = function.signature.name
        found = [own] if own else []
        nodes = {node.name: node for node in function.node_def}
        for node in [node for node in function.node_def if self._threads.passes(node)]:
            true = _constant(function, nodes, "true", True) if node.op in WHILES else ""
            found.append(self._pass(node, SCALE_ARGUMENT, true))
        if not own:
            function.signature.input_arg.add(name=SCALE_ARGUMENT, type=FLOAT32)
        if name in loops:
            function.signature.input_arg.add(name=_BEFORE, type=BOOL)
            found.append(_BEFORE)
        if loops.get(name, True):
            if name in loops:
                function.signature.output_arg.add(name=SCALE_ARGUMENT + "_out", type=FLOAT32)
                function.ret[SCALE_ARGUMENT + "_out"] = SCALE_ARGUMENT
            function.signature.output_arg.add(name=_FINITE, type=BOOL)
            function.ret[_FINITE] = (
                _all(function, found) if found else _constant(function, nodes, "true", True)
            )
        more_shapes(function.attr, "_input_shapes", 1 + (name in loops))

    def _pass(self, node: Any, scale: str, true: str) -> str:
        """Pass the scale to a call. Returns its flag in the syntax of a body."""
        loop = node.op in WHILES
        add_data_inputs(node, [scale, true] if loop else [scale])
        for key in ("output_shapes", "_output_shapes"):
            more_shapes(node.attr, key, 2 if loop else 1)
        if node.op in self._functions:
            return "%s:%s:0" % (node.name, _FINITE)
        taken, given = (
            (node.attr["T"], node.attr["T"]) if loop else (node.attr["Tin"], node.attr["Tout"])
        )
        place = flag_output(node, len(given.list.type))
        taken.list.type.append(FLOAT32)
        given.list.type.append(BOOL)
        return "%s:output:%d" % (node.name, place)


def _is_inserted(node: Any) -> bool:
    return node.name.startswith(RETURNED_SCOPE) and node.op in ("Const", "LogicalAnd")


def _constant(function: Any, known: Dict[str, Any], name: str, value: Any) -> str:
    """Add a scalar to a function unless it exists. Returns it in the syntax of a body."""
    name = RETURNED_SCOPE + name
    if name not in known:
        tensor = tf.make_tensor_proto(value)
        known[name] = function.node_def.add(name=name, op="Const")
        known[name].attr["dtype"].type = tensor.dtype
        known[name].attr["value"].tensor.CopyFrom(tensor)
    return name + ":output:0"


def _all(function: Any, flags: Sequence[str]) -> str:
    """The conjunction of flags."""
    result = flags[0]
    for number, flag in enumerate(flags[1:]):
        own = "%sall_finite_%d" % (RETURNED_SCOPE, number)
        node = function.node_def.add(name=own, op="LogicalAnd")
        node.input.extend([result, flag])
        result = node.name + ":z:0"
    return result
