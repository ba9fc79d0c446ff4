"""The contexts of loops and branches, which list what is in them, added nodes too.

TensorFlow takes gradients by them; they don't affect execution. An inner one comes after its outer
one.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Tuple

from graphmp.graph.structure.contexts import contexts
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.op_sets import SWITCHES
from graphmp.verify.body import BodyFindings
from graphmp.verify.sides import Side, is_built_anew, keeps_names

CONDITIONALS = "cond_context"
CONTEXTS = frozenset((CONDITIONALS, "while_context"))


def contexts_hold(body: BodyFindings, key: str, old: Any, new: Any) -> bool:
    """Whether a collection has the original's contexts in their order; each may hold more.

    A graph that was imported into itself lists them several times.
    """
    had, has = (contexts(key, each.bytes_list.value) for each in (old, new))
    names = [[context.context_name for context in each] for each in (had, has)]
    kept = [context for context in has if context.context_name in names[0]]
    return (
        len(has) - len(set(names[1])) == len(had) - len(set(names[0]))
        and len(kept) == len(had)
        and all(_holds(body, *pair) for pair in zip(had, kept))
    )


def lists_added_conditionals(body: BodyFindings) -> bool:
    """Whether the contexts of added conditionals are listed as TensorFlow lists them.

    A graph that was built anew lists all in their order, the rewrite none; a graph without a mark
    is one of the two.
    """
    side, added = body.sides.after, body.sides.added
    inner = {pivot for key in CONTEXTS for each in _listed(side, key) for pivot in _inner(each)}
    pivots = [parse_input(each.pivot_name).node for each in _listed(side, CONDITIONALS)]
    found = [pivot for pivot in pivots if pivot in added]
    everything = found == [pivot for pivot in _pivots(side.view, added) if pivot not in inner]
    if keeps_names(side.meta_graph):
        return not found
    return everything or not (found or is_built_anew(side.meta_graph))


def _listed(side: Side, key: str) -> List[Any]:
    collections = side.meta_graph.collection_def
    return contexts(key, collections[key].bytes_list.value) if key in collections else []


def _pivots(view: GraphView, added: AbstractSet[str]) -> Iterator[str]:
    """The nodes that run on one side of an added conditional before all others, in their order."""
    sides: Dict[str, List[Tuple[str, int]]] = {}
    for name in view.nodes:
        if name in added and view.nodes[name].op == "Identity":
            switch = view.inputs(name)[0]
            is_pivot = view.nodes[switch.node].op in SWITCHES and switch.node in added
            if is_pivot and len(set(view.inputs(switch.node))) == 1:
                sides.setdefault(switch.node, []).append((name, switch.output))
    for found in sides.values():
        if {output for _, output in found} == {0, 1}:
            yield from (name for name, _ in found)


def _inner(context: Any) -> Iterator[str]:
    """The pivots of the contexts inside one."""
    for nested in map(_one_of, context.nested_contexts):
        yield parse_input(nested.pivot_name).node
        yield from _inner(nested)


def _holds(body: BodyFindings, had: Any, has: Any) -> bool:
    """Whether a context differs in more contents alone, those of the contexts in it as well.

    A cast or a copy may stand for what comes from outside.
    """
    bare = []
    for context in (had, has):
        bare.append(type(context)())
        bare[-1].CopyFrom(context)
        bare[-1].ClearField("values_def")
        bare[-1].ClearField("nested_contexts")
    inner = [
        {_one_of(each).context_name: _one_of(each) for each in context.nested_contexts}
        for context in (had, has)
    ]
    return (
        bare[0] == bare[1]
        and _are_held(body, had.values_def, has.values_def)
        and all(
            _is_brought_in(body, pair, has.values_def.external_values)
            for pair in had.values_def.external_values.items()
        )
        and all(
            name in inner[1] and _holds(body, each, inner[1][name])
            for name, each in inner[0].items()
        )
    )


def _are_held(body: BodyFindings, had: Any, has: Any) -> bool:
    """Whether each of a context's values is in another one.

    In a graph that was built anew a substitute may be there, unless the value still comes in.
    """
    gone, more = set(had.values) - set(has.values), set(has.values) - set(had.values)
    if gone and keeps_names(body.sides.after.meta_graph):
        return False
    comes_in = {*has.external_values, *has.external_values.values()}
    return gone.isdisjoint(comes_in) and all(
        any(_stands_for(body, new, old) for new in more) for old in gone
    )


def _is_brought_in(body: BodyFindings, pair: Tuple[str, str], pairs: Mapping[str, str]) -> bool:
    """Whether a value from outside, with what it is inside, is among others or has substitutes."""
    return pairs.get(pair[0]) == pair[1] or any(
        all(_stands_for(body, new, old) for new, old in zip(other, pair)) for other in pairs.items()
    )


def _stands_for(body: BodyFindings, new: str, old: str) -> bool:
    sides, ports = body.sides, (parse_input(new), parse_input(old))
    views = (sides.after.view, sides.before.view)
    known = all(port.node in view.nodes for port, view in zip(ports, views))
    return new == old or (known and body.erasure.same(*ports))


def _one_of(nested: Any) -> Any:
    """The context of a ControlFlowContextDef."""
    return getattr(nested, nested.WhichOneof("ctxt"))
