"""Passing the state of scales into functions: handles of the main graph's variables.

A body initially has handles of its own, by the variables' names. They become arguments, which each
caller passes on: a call, a branch, or a loop, whose condition takes them and whose body returns
them too. A function that is compiled, or runs on one device as a whole, thus finds them. If a
function that would have to pass them on is used other than by a call, all keep their own.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import add_data_inputs
from graphmp.graph.structure.calls import called, functions_by_name
from graphmp.graph.structure.functions import called_functions
from graphmp.graph.structure.view import parse_input
from graphmp.loss_scale.scales import BESIDE_CALLS
from graphmp.naming import in_body, of_function
from graphmp.policy.dtypes import RESOURCE
from graphmp.policy.op_sets import CHOICES, PLAIN_CALLS, WHILES
from graphmp.policy.reason import LOSS_SCALE_STATE, REWRITTEN, Done, Reason

_HANDLE = re.compile(r"^graphmp/loss_scale(_\d+)?/\w+/handle/of$")
_REASON = Reason(LOSS_SCALE_STATE, "handed through calls to the functions that use it")
_TYPES = {**dict.fromkeys(CHOICES | PLAIN_CALLS, "Tin"), **dict.fromkeys(WHILES, "T")}


def pass_handles(graph_def: tf.GraphDef) -> List[Done]:
    """Turn handles inside functions into arguments, the variables' handles in the main graph.

    Returns rows of the record.
    """
    found = _Passing(graph_def)
    if not found.needed or not found.possible():
        return []
    before = signatures(graph_def)
    found.apply()
    return [
        *(Done(path, "changed", _REASON) for path in found.passed),
        *signatures_changed(graph_def, before, _REASON),
    ]


def signatures(graph_def: tf.GraphDef) -> Dict[str, Set[str]]:
    """The arguments and results of each function, by the names of their nodes in a comparison."""
    found = {}
    for function in graph_def.library.function:
        results = {"return/" + argument.name for argument in function.signature.output_arg}
        found[function.signature.name] = results | {
            argument.name for argument in function.signature.input_arg
        }
    return found


def signatures_changed(
    graph_def: tf.GraphDef, before: Mapping[str, Set[str]], why: Reason
) -> Iterator[Done]:
    """Rows of the record for functions with new arguments and results."""
    for name, known in signatures(graph_def).items():
        more = sorted(known - before[name])
        if more:
            yield Done(
                of_function(name),
                "rewritten",
                Reason(REWRITTEN, "it takes what its callers hand on"),
            )
        yield from (Done(in_body(name, argument), "inserted", why) for argument in more)


class _Passing:
    def __init__(self, graph_def: tf.GraphDef):
        self._graph_def = graph_def
        self._functions = functions_by_name(graph_def)
        bodies = [
            ("", graph_def.node),
            *((name, function.node_def) for name, function in self._functions.items()),
        ]
        calls = (
            (caller, node, called(node, self._functions))
            for caller, nodes in bodies
            for node in nodes
        )
        self._calls: List[Tuple[str, Any, List[str]]] = [call for call in calls if call[2]]
        self.needed: Dict[str, Set[str]] = {}
        self.passed: List[str] = []
        for name, function in self._functions.items():
            own = {_variable(node.name) for node in function.node_def if _HANDLE.match(node.name)}
            if own:
                self.needed[name] = own
        self._spread()

    def _spread(self) -> None:
        """Propagate needs to callers, and between all functions that one node calls."""
        size = -1
        while size != sum(map(len, self.needed.values())):
            size = sum(map(len, self.needed.values()))
            for caller, _, names in self._calls:
                union = {variable for name in names for variable in self.needed.get(name, ())}
                for name in [*names, *([caller] if caller else [])] if union else ():
                    self.needed.setdefault(name, set()).update(union)

    def possible(self) -> bool:
        """Whether the functions are used only by calls, and loop bodies as nothing else."""
        own = [(node, names) for _, node, names in self._calls if self.needed.keys() & set(names)]
        gradients = {
            name
            for row in self._graph_def.library.gradient
            for name in (row.function_name, row.gradient_func)
        }
        loops = {node.attr["body"].func.name for node, _ in own if node.op in WHILES}
        others = {
            name
            for node, names in own
            for name in names
            if node.op not in WHILES or name != node.attr["body"].func.name
        }
        known = all(node.op in _TYPES or node.op in self._functions for node, _ in own)
        return (
            known
            and not loops & others
            and not self.needed.keys() & gradients
            and self.needed.keys() <= set(called_functions(self._graph_def))
        )

    def apply(self) -> None:
        """Change functions and their callers."""
        loops = {node.attr["body"].func.name for _, node, _ in self._calls if node.op in WHILES}
        for caller, node, names in self._calls:
            variables = sorted(self.needed.get(names[0], ()))
            if variables:
                self.passed.append(in_body(caller, node.name))
                self._pass(
                    node, [_argument(variable) if caller else variable for variable in variables]
                )
        for name, needed in self.needed.items():
            self._take(self._functions[name], sorted(needed), name in loops)
        scopes = {
            variable.rpartition("/")[0] + "/"
            for variables in self.needed.values()
            for variable in variables
        }
        for nodes in [
            self._graph_def.node,
            *(self._functions[name].node_def for name in self.needed),
        ]:
            for node in nodes:
                if node.device.endswith(BESIDE_CALLS) and any(
                    node.name.startswith(scope) for scope in scopes
                ):
                    node.device = node.device[: -len(BESIDE_CALLS)]

    def _take(self, function: Any, variables: List[str], returns: bool) -> None:
        """Give a function arguments that replace its own handles.

        The body of a loop returns them.
        """
        own = {
            node.name: _argument(_variable(node.name))
            for node in function.node_def
            if _HANDLE.match(node.name)
        }
        kept = [node for node in function.node_def if node.name not in own]
        del function.node_def[:]
        function.node_def.extend(kept)
        for node in function.node_def:
            node.input[:] = [
                own.get(parse_input(text).node.split(":")[0], text)
                for text in node.input
                if text[1:] not in own
            ]
        for variable in variables:
            function.signature.input_arg.add(name=_argument(variable), type=RESOURCE)
            if returns:
                function.signature.output_arg.add(name=_argument(variable) + "_out", type=RESOURCE)
                function.ret[_argument(variable) + "_out"] = _argument(variable)
        more_shapes(function.attr, "_input_shapes", len(variables))

    def _pass(self, node: Any, handles: List[str]) -> None:
        add_data_inputs(node, handles)
        if node.op in _TYPES:
            node.attr[_TYPES[node.op]].list.type.extend([RESOURCE] * len(handles))
        if node.op in WHILES:
            for key in ("output_shapes", "_output_shapes"):
                more_shapes(node.attr, key, len(handles))


def _variable(handle: str) -> str:
    return handle[: -len("/handle/of")]


def _argument(variable: str) -> str:
    return variable.replace("/", "_")


def more_shapes(attributes: Any, key: str, count: int) -> None:
    """Append scalars to a list of shapes, if there is one."""
    if key in attributes and attributes[key].list.shape:
        attributes[key].list.shape.extend([tf.TensorShape([]).as_proto()] * count)
