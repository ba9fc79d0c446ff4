"""Functions of the library: unique names, bodies whose inputs exist, no recursion, few calls."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from graphmp.gate.limits import MOST_CALLS
from graphmp.gate.nodes import RE_EXPORT, Nodes, refused, shown
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.calls import called

_UNROLL = "write its loop with tf.while_loop"
_REPEAT = "write what repeats as a loop, with tf.while_loop"


def check_functions(graph_def: Any, nodes: Nodes) -> None:
    """Raise GMP008 for a function that no TensorFlow could run."""
    library: Dict[str, Any] = {}
    for function in graph_def.library.function:
        name = function.signature.name
        if name in library and serialize(library[name]) != serialize(function):
            raise refused("library", "two functions have the name %s" % shown(name), RE_EXPORT)
        library[name] = function
    calls: Dict[str, List[str]] = {}
    for name, function in library.items():
        _check_body(function, nodes)
        calls[name] = [each for node in function.node_def for each in called(node, library)]
    chain = recursion(calls)
    if chain:
        found = "a function that calls itself, %s" % " -> ".join(map(shown, _cut(chain)))
        raise refused("function %s" % chain[0], found, _UNROLL)
    counts = _counted(calls)
    number = sum(1 + counts[each] for node in graph_def.node for each in called(node, library))
    if number > MOST_CALLS:
        found = "%s calls of functions, with those in functions; accepted are %s"
        texts = tuple(format(each, ",") for each in (number, MOST_CALLS))
        raise refused("library", found % texts, _REPEAT)


def recursion(calls: Dict[str, List[str]]) -> List[str]:
    """A chain of calls that leads back to its beginning; empty if there is none."""
    done: Set[str] = set()
    for start in calls:
        path, waiting = [start], [iter(() if start in done else calls[start])]
        inside = {start}
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                done.add(path[-1])
                inside.discard(path.pop())
            elif name in inside:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                inside.add(name)
                waiting.append(iter(calls[name]))
    return []


def _counted(calls: Dict[str, List[str]]) -> Dict[str, int]:
    """The number of calls that each function makes, with those of the functions that it calls."""
    counts: Dict[str, int] = {}
    waiting = list(calls)
    while waiting:
        name = waiting.pop()
        if name in counts:
            continue
        unknown = {each for each in calls[name] if each not in counts}
        if unknown:
            waiting += [name, *unknown]
        else:
            counts[name] = sum(1 + counts[each] for each in calls[name])
    return counts


def _cut(chain: List[str]) -> List[str]:
    return chain if len(chain) <= 8 else [*chain[:4], "...", *chain[-3:]]


def _check_body(function: Any, nodes: Nodes) -> None:
    where = " in function %s" % shown(function.signature.name)
    named = {argument.name for argument in function.signature.input_arg}
    for node in function.node_def:
        nodes.check(node, where, in_function=True)
        if node.name in named:
            raise refused("node %s%s" % (node.name, where), "a name that occurs twice", RE_EXPORT)
        named.add(node.name)
    for node in function.node_def:
        for text in node.input:
            if text.lstrip("^").partition(":")[0] not in named:
                found = "the input %s, which is no node" % shown(text)
                raise refused("node %s%s" % (node.name, where), found, RE_EXPORT)
    for text in (*function.ret.values(), *_control_results(function)):
        if text.partition(":")[0] not in named:
            raise refused(where[4:], "the result %s, which is no node" % shown(text), RE_EXPORT)


def _control_results(function: Any) -> List[str]:
    """1.13's FunctionDef has no `control_ret`."""
    return list(getattr(function, "control_ret", {}).values())
