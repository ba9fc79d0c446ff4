"""Functions that return gradients to the code that applies them: the scale goes in, a flag out.

A `tf.map_fn` of TensorFlow 2 is one.

1. A function takes gradients if its body holds gradient code by name that starts there, not from an
   argument; it writes nothing, and no gradient code calls it. If names don't tell, recorded calls
   do, or structure (`training_graph.py`).
2. It gets an argument, the scale, and a result: whether all that leaves its gradient code is
   finite. So does each caller up to the main graph, or to a function that applies the gradients,
   and each sibling branch. A loop passes the scale on and collects the flags of all its iterations;
   its condition takes both.
3. A call whose gradients train nothing passes 1.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import add_data_inputs
from graphmp.graph.structure.calls import (
    called,
    functions_by_name,
    functions_named,
    with_called,
    with_callers,
)
from graphmp.graph.structure.gradient_names import claims, proposed
from graphmp.naming import in_body
from graphmp.policy.dtypes import BOOL, FLOAT32
from graphmp.policy.op_sets import CHOICES, PLAIN_CALLS, WHILES
from graphmp.policy.reason import SCALE, Done, Reason
from graphmp.scaling.insertion.handles import more_shapes, signatures, signatures_changed

_REASON = Reason(
    SCALE, "handed to functions that take gradients; whether these are finite is handed back"
)
ARGUMENT = "graphmp_loss_scale"
_FINITE, _BEFORE = "graphmp_finite", "graphmp_finite_before"
_OWN = "graphmp/returned/"


def flag_output(node: Any, outputs: int) -> int:
    """The index of a call's future output for the flag."""
    return outputs + 1 if node.op in WHILES else outputs


def taking(graph_def: tf.GraphDef, writing: AbstractSet[str]) -> AbstractSet[str]:
    """Find the gradient-taking functions; `writing` are those that write state."""
    library = functions_by_name(graph_def)
    found = {
        name
        for name, function in library.items()
        if name not in writing and any("_grad/" in node.name for node in function.node_def)
    }
    if not found:
        return frozenset()
    code = {name: gradient_code(function.node_def) for name, function in library.items()}
    bodies = [
        (gradient_code(graph_def.node), graph_def.node),
        *((code[name], function.node_def) for name, function in library.items()),
    ]
    backward = {
        name
        for gradients, nodes in bodies
        for node in nodes
        if node.name in gradients
        for name in functions_named(node)
    }
    backward |= {row.gradient_func for row in graph_def.library.gradient}
    return {
        name
        for name in found - with_called(library, backward)
        if any(_starts(node, code[name]) for node in library[name].node_def)
    }


def _starts(node: Any, code: AbstractSet[str]) -> bool:
    """Whether gradients start at a node.

    Arguments of a gradient function don't count; they are written without a colon.
    """
    if node.name not in code or not node.name.rpartition("/")[2].startswith("grad_ys"):
        return False
    return node.op != "Identity" or ":" in node.input[0]


def gradient_code(nodes: Sequence[Any]) -> Set[str]:
    """The nodes of a graph or a body that their names tell to be gradient code."""
    names = {node.name for node in nodes}
    return {name for found in proposed(names, claims(names)).values() for name in found}


class Applied(NamedTuple):
    """A call in a function that applies gradients.

    The scale in the syntax of that body, and the node that will return the call's flag.
    """

    scale: str
    flag: str


class Threads:
    """The scale and the flag on their way through calls."""

    def __init__(
        self, graph_def: tf.GraphDef, functions: AbstractSet[str], applying: AbstractSet[str]
    ):
        """`functions` take gradients; `applying` have a scale of their own for their calls."""
        self._graph_def = graph_def
        self._functions = functions_by_name(graph_def)
        self._applying = applying
        self._needed = with_callers(graph_def, functions, applying)
        bodies = [graph_def.node, *(function.node_def for function in self._functions.values())]
        self._calls = [node for nodes in bodies for node in nodes]
        size = -1
        while len(self._needed) != size:
            size = len(self._needed)
            self._needed |= {
                name
                for node in self._calls
                for name in called(node, self._functions)
                if called(node, self._needed)
            }
            self._needed = with_callers(graph_def, self._needed, applying)
        self._calls = [node for node in self._calls if called(node, self._needed)]

    def possible(self, rewritten: AbstractSet[str], writing: AbstractSet[str]) -> bool:
        """Whether the functions are only used by calls, a loop's body and condition only by it."""
        bodies = {
            name
            for node in self._calls
            if node.op in WHILES
            for name in called(node, self._functions)
        }
        others = {
            name
            for node in self._calls
            if node.op not in WHILES
            for name in called(node, self._functions)
        }
        known = all(
            node.op in WHILES | CHOICES | PLAIN_CALLS or node.op in self._functions
            for node in self._calls
        )
        registered = {
            name
            for row in self._graph_def.library.gradient
            for name in (row.function_name, row.gradient_func)
        }
        return (
            known
            and not bodies & others
            and not self._needed & (registered | writing)
            and self._needed <= rewritten
        )

    def calls(self) -> List[str]:
        """The calls in the main graph."""
        return [node.name for node in self._graph_def.node if called(node, self._needed)]

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
        loops = {
            name: node.attr["body"].func.name == name
            for node in self._calls
            if node.op in WHILES
            for name in called(node, self._functions)
        }
        before = {name: known - {ARGUMENT} for name, known in signatures(self._graph_def).items()}
        for node in self._graph_def.node:
            if node.name in given:
                self._pass(node, *given[node.name])
        for name in sorted(self._applying & self._functions.keys()):
            self._give(self._functions[name], applied.get(name, {}))
        for name in sorted(self._needed):
            self._change(self._functions[name], flags.get(name), loops)
        return [*self._rows(), *signatures_changed(self._graph_def, before, _REASON)]

    def _rows(self) -> Iterator[Done]:
        callers = sorted(self._needed | (self._applying & self._functions.keys()))
        for caller, nodes in [
            ("", self._graph_def.node),
            *((name, self._functions[name].node_def) for name in callers),
        ]:
            for node in nodes:
                if called(node, self._needed):
                    yield Done(in_body(caller, node.name), "changed", _REASON)
                elif caller and node.name.startswith(_OWN) and node.op in ("Const", "LogicalAnd"):
                    yield Done(in_body(caller, node.name), "inserted", _REASON)

    def _give(self, function: Any, applied: Mapping[str, Applied]) -> None:
        """Pass the scale to calls in a function that applies gradients, and their flags to it."""
        nodes = {node.name: node for node in function.node_def}
        for node in [node for node in function.node_def if called(node, self._needed)]:
            true = _constant(function, nodes, "true", True) if node.op in WHILES else ""
            if node.name not in applied:
                self._pass(node, _constant(function, nodes, "one", 1.0), true)
                continue
            stands = nodes[applied[node.name].flag]
            stands.op = "Identity"
            stands.input[:] = [self._pass(node, applied[node.name].scale, true), *stands.input]
            stands.attr.clear()
            stands.attr["T"].type = BOOL

    def _change(self, function: Any, own: Any, loops: Mapping[str, bool]) -> None:
        name = function.signature.name
        found = [own] if own else []
        nodes = {node.name: node for node in function.node_def}
        for node in [node for node in function.node_def if called(node, self._needed)]:
            true = _constant(function, nodes, "true", True) if node.op in WHILES else ""
            found.append(self._pass(node, ARGUMENT, true))
        if not own:
            function.signature.input_arg.add(name=ARGUMENT, type=FLOAT32)
        if name in loops:
            function.signature.input_arg.add(name=_BEFORE, type=BOOL)
            found.append(_BEFORE)
        if loops.get(name, True):
            if name in loops:
                function.signature.output_arg.add(name=ARGUMENT + "_out", type=FLOAT32)
                function.ret[ARGUMENT + "_out"] = ARGUMENT
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


def _constant(function: Any, known: Dict[str, Any], name: str, value: Any) -> str:
    """Add a scalar to a function unless it exists. Returns it in the syntax of a body."""
    name = _OWN + name
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
        node = function.node_def.add(name="%sall_finite_%d" % (_OWN, number), op="LogicalAnd")
        node.input.extend([result, flag])
        result = node.name + ":z:0"
    return result


def calls_of(graph_def: tf.GraphDef, names: AbstractSet[str]) -> Dict[str, Set[str]]:
    """For each call in the main graph, the functions among `names` that it reaches."""
    library = functions_by_name(graph_def)
    found = {
        node.name: with_called(library, functions_named(node)) & names for node in graph_def.node
    }
    return {name: taken for name, taken in found.items() if taken}
