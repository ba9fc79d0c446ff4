"""The losses of a training graph: its gradient code, where that starts, the gradients that leave it, the updates they reach.

1. A scope of gradient code (`graph/gradient_code.py`) starts from its seeds: ones, or the user's `grad_ys`.
2. Its gradients are the outputs that nodes outside read. What lies between two parts of one scope belongs to it.
3. Gradients are followed by data to what they write: through clips, sums and averages, through accumulators and what is
   taken out of them, through a variable that is not trained itself (a user's sum over several steps). Not through other
   gradient code: what another loss is made of (a gradient penalty, an inner step of MAML) is not training.
4. A scope trains if that writes a variable that is trained. Scopes that feed the same such write are one loss (towers).
5. Gradients that nobody reads are fetched, and may come back through placeholders: such updates belong to the scope that
   differentiates by the variables they write, else to those that differentiate by variables of the same shapes.
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.gradient_code import differentiated
from graphmp.graph.live import ASSIGNS, OTHER_WRITES
from graphmp.graph.shapes import inferred_shapes
from graphmp.graph.variables import variables
from graphmp.graph.view import Port, parse_input
from graphmp.rewrite.functions import CALLS
from graphmp.rewrite.scaling.built import Built
from graphmp.rewrite.scaling.homogeneity import Code, Degrees, degrees

_PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2", "PlaceholderWithDefault"))
_PUSHES, _TAKES = "AccumulatorApplyGradient", "TakeGradient"


class GradientScope(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        scope: its name scope.
        nodes: its gradient code.
        seeds: what it starts from.
        losses: the forward nodes whose gradient it takes.
        degrees: how the scale passes through it.
        leaving: floating point outputs that nodes outside read.
    """

    scope: str
    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]
    losses: Tuple[str, ...]
    degrees: Degrees
    leaving: Tuple[Port, ...]


class Loss(NamedTuple):
    """Gradient scopes that share updates, hence a loss scale.

    Attributes:
        scopes: the gradient scopes, more than one for towers.
        gradients: outputs of gradient code on their way to the updates.
        arrivals: where gradients arrive that did not come by an edge: taken out of accumulators, or fed; else empty.
        updates: the writes that the gradients reach.
        direct: those of them that they reach in the same step; behind accumulators, those that what is taken out reaches.
    """

    scopes: Tuple[GradientScope, ...]
    gradients: Tuple[Port, ...]
    arrivals: Tuple[Port, ...]
    updates: Tuple[str, ...]
    direct: Tuple[str, ...]

    @property
    def fetched(self) -> bool:
        """Whether its gradients leave the graph, and come back through placeholders."""
        return bool(self.arrivals) and all(port not in self.gradients for scope in self.scopes for port in scope.leaving)


def find_losses(built: Built, config: Config) -> List[Loss]:
    """All losses of a graph that train something, in the order of the graph.

    Raises:
        GraphmpError: GMP002 for a --loss, --train_op or --gradient_scope that the graph has not.
    """
    chosen = _chosen_updates(built, config)
    scopes = [_scope(built, scope, nodes) for scope, nodes in built.code.items() if not config.gradient_scope or scope in config.gradient_scope]
    _check_flags(built, config, scopes)
    scopes = [s for s in scopes if s.seeds and (not config.loss or any(_is_loss(built, name, s) for name in config.loss))]
    reached = [_reach(built, scope, chosen) for scope in scopes]
    found = [_joined(scopes, reached, members) for members in _towers(built, reached)]
    idle = [scope for scope, reach in zip(scopes, reached) if not reach.trained]
    found += _fed(built, idle, chosen, {update for loss in found for update in loss.updates})
    order = {name: place for place, name in enumerate(built.view.nodes)}
    return sorted(found, key=lambda loss: min(order[seed.node] for scope in loss.scopes for seed in scope.seeds))


def _chosen_updates(built: Built, config: Config) -> Optional[AbstractSet[str]]:
    """The writes behind --train_op; None where any will do."""
    names = [parse_input(name.lstrip("^")).node for name in config.train_op]
    for name in names:
        if name not in built.view.nodes:
            raise GraphmpError("GMP002", "--train_op=%s: the graph has no such node; accepted are names of ops" % name)
    return built.view.ancestors(names) if names else None


def _is_loss(built: Built, name: str, scope: GradientScope) -> bool:
    """Whether a scope takes the gradient of a tensor, or of what that is a copy of."""
    node = parse_input(name).node
    while node in built.view.nodes and node not in scope.losses and built.view.nodes[node].op == "Identity":
        node = built.view.inputs(node)[0].node
    return node in scope.losses


def _check_flags(built: Built, config: Config, scopes: List[GradientScope]) -> None:
    for given in config.gradient_scope:
        scope = next((s for s in scopes if s.scope == given), None)
        if scope is None or not scope.nodes:
            raise GraphmpError("GMP002", "--gradient_scope=%s: no node is below it; accepted are name scopes of gradient code" % given)
        if not scope.seeds:
            raise GraphmpError("GMP002", "--gradient_scope=%s: nothing in it starts gradients; accepted are the scopes of tf.gradients" % given)
    known = sorted({loss for scope in scopes for loss in scope.losses})
    for name in config.loss:
        if not any(_is_loss(built, name, scope) for scope in scopes):
            found = ", ".join(known[:5]) or "none"
            raise GraphmpError("GMP002", "--loss=%s: no gradient code starts there; accepted are what it starts from here: %s" % (name, found))


def _scope(built: Built, scope: str, nodes: AbstractSet[str]) -> GradientScope:
    nodes = _whole(built, nodes)
    seeds = tuple(_seeds(built, scope, nodes))
    code = Code(built.view, nodes, frozenset(seeds), built.is_float, built.is_list, built.functions | CALLS, built.looped)
    leaving = [port for name in built.view.nodes if name in nodes for port in _read_outside(built, name, nodes) if built.is_float(port)]
    losses = dict.fromkeys(loss for seed in seeds for loss in _differentiated(built, seed, nodes))
    return GradientScope(scope, nodes, seeds, tuple(losses), degrees(code), tuple(leaving))


def _differentiated(built: Built, seed: Port, nodes: AbstractSet[str]) -> List[str]:
    """What a seed is the gradient of: the forward node of its reader; of several (a sum has no node of its own) what they first come together in."""
    view = built.view
    names = {differentiated(c.node, view.nodes.keys()) for c in view.consumers(seed.node) if c.output == seed.output and c.node in nodes}
    found = [name for name in names if name is not None]
    if len(found) > 1:
        after = {name: _follow(built, [name], frozenset())[0] for name in found}
        found = [name for name in found if not any(other in after[name] for other in found if other != name)]
        common = set.intersection(*(after[name] for name in found)) if len(found) > 1 else set()
        found = [name for name in view.nodes if name in common][:1] or found
    return sorted(found)


def _read_outside(built: Built, name: str, nodes: AbstractSet[str]) -> List[Port]:
    return sorted({Port(name, consumer.output) for consumer in built.view.consumers(name) if consumer.node not in nodes})


def _whole(built: Built, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Gradient code and what lies between two parts of it, by whatever name: a custom gradient may open scopes of its own."""
    outside = {consumer.node for name in nodes for consumer in built.view.consumers(name) if consumer.node not in nodes}
    if not outside:
        return nodes
    after: Set[str] = set()
    waiting = list(outside)
    while waiting:
        name = waiting.pop()
        if name not in after and name not in nodes:
            after.add(name)
            waiting.extend(consumer.node for consumer in built.view.consumers(name))
    again = [name for name in after if any(consumer.node in nodes for consumer in built.view.consumers(name))]
    if not again:
        return nodes
    return set(nodes) | (after & built.view.ancestors(again, control=False))


def _seeds(built: Built, scope: str, nodes: AbstractSet[str]) -> Iterator[Port]:
    """What gradients start from: ones and `grad_ys` among the leaves of a scope; else what they take from outside that is no forward value."""
    found = [port for name in built.view.nodes if name in nodes and _is_leaf(name, scope) for port in _leaf_seed(built, name)]
    return iter(found or _given_seeds(built, nodes))


def _is_leaf(name: str, scope: str) -> bool:
    return "/" not in name[len(scope) + 1 if scope else 0 :]


def _leaf_seed(built: Built, name: str) -> List[Port]:
    node, consumers = built.view.nodes[name], built.view.consumers(name)
    given = name.rsplit("/", 1)[-1].startswith("grad_ys") and node.op in ("Identity", "Const", "Fill", "OnesLike")
    if not consumers or not built.is_float(Port(name, 0)) or (node.op == "Const" and all(built.view.nodes[c.node].op == "Fill" for c in consumers)):
        return []
    ones = (
        node.op == "OnesLike"
        or (node.op == "Const" and _all_ones(node))
        or (node.op == "Fill" and _all_ones(built.view.nodes[built.view.inputs(name)[1].node]))
    )
    return [Port(name, 0)] if given or ones else []


def _all_ones(node: tf.NodeDef) -> bool:
    return node.op == "Const" and "value" in node.attr and bool(np.all(tf.make_ndarray(node.attr["value"].tensor) == 1))


def _given_seeds(built: Built, nodes: AbstractSet[str]) -> List[Port]:
    """The user's `grad_ys` where TensorFlow did not copy them (before 1.5): read by gradient code of X, and neither X nor before it."""
    found: Set[Port] = set()
    names = built.view.nodes.keys()
    for name in nodes:
        ports = [port for port in built.view.inputs(name) if port.node not in nodes and built.is_float(port)]
        forward = differentiated(name, names) if ports else None
        if forward is None or any(port.node in nodes and built.is_float(port) for port in built.view.inputs(name)):
            continue
        values = built.view.ancestors([forward])
        found.update(port for port in ports if port.node not in values)
    return sorted(found)


class _Reach(NamedTuple):
    """What the gradients of a scope come to.

    Attributes:
        gradients: those outputs that come to a write.
        direct: writes, by way of edges and accumulators alone; where there are accumulators, only those behind them.
        later: writes that train, by way of a variable that holds gradients for a later step.
        trained: all that train a variable.
        taken: outputs that take gradients out of accumulators.
    """

    gradients: Tuple[Port, ...]
    direct: AbstractSet[str]
    later: AbstractSet[str]
    trained: AbstractSet[str]
    taken: Tuple[Port, ...]


def _reach(built: Built, scope: GradientScope, chosen: Optional[AbstractSet[str]]) -> _Reach:
    state, trainable = built.state, _trainable(built, scope)

    def is_chosen(name: str) -> bool:
        return chosen is None or name in chosen

    def is_training(name: str) -> bool:
        return (built.view.nodes[name].op not in ASSIGNS and not _is_scatter(built, name)) or bool(state.written(name) & trainable)

    after, taken = _follow(built, [c.node for port in scope.leaving for c in built.view.consumers(port.node) if c.output == port.output], scope.nodes)
    from_taken = _follow(built, [c.node for port in taken for c in built.view.consumers(port.node)], scope.nodes)[0] if taken else after
    direct = {name for name in from_taken if state.is_write(name) and is_chosen(name) and not built.view.nodes[name].op.endswith(_PUSHES)}
    held = {variable for name in direct if not is_training(name) for variable in state.written(name)}
    reads = [c.node for variable in held for c in built.view.consumers(variable) if c.slot or built.view.nodes[c.node].op not in ASSIGNS]
    later = {name for name in _follow(built, reads, frozenset())[0] - direct if state.is_write(name) and is_chosen(name) and is_training(name)}
    into = _toward(built, direct, after)
    gradients = [p for p in scope.leaving if any(c.output == p.output and c.node in into for c in built.view.consumers(p.node))]
    return _Reach(tuple(gradients), direct, later, {name for name in direct if is_training(name)} | later, tuple(taken))


def _is_scatter(built: Built, name: str) -> bool:
    op = built.view.nodes[name].op
    return op.startswith(tuple(prefix for prefix in OTHER_WRITES if "Accumulator" not in prefix))


def _trainable(built: Built, scope: GradientScope) -> AbstractSet[str]:
    """Variables that an assignment may train: those of the collection, and those that the gradient code or its forward pass reads."""
    collected = built.state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    if collected is not None:
        return collected
    before = built.view.ancestors(scope.nodes, control=False)
    return {name for name in before if built.state.variable(name) == name}


def _follow(built: Built, starts: Iterable[str], inside: AbstractSet[str]) -> Tuple[Set[str], List[Port]]:
    """Nodes that data leads to outside gradient code, and outputs of accumulators among them."""
    nodes = built.view.nodes
    seen: Set[str] = set()
    taken: List[Port] = []
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name in seen or name in inside or name in built.gradients:
            continue
        seen.add(name)
        waiting.extend(consumer.node for consumer in built.view.consumers(name))
        if nodes[name].op.endswith(_PUSHES):
            for consumer in built.view.consumers(built.view.inputs(name)[0].node):
                if nodes[consumer.node].op.endswith(_TAKES) and consumer.node not in seen:
                    taken += [port for port in built.read_ports(consumer.node) if built.is_float(port)]
                    waiting.append(consumer.node)
    return seen, taken


def _toward(built: Built, targets: Iterable[str], among: AbstractSet[str]) -> Set[str]:
    """Those of `among` that lead to the targets, through data and accumulators."""
    handles: Dict[str, List[str]] = {}
    for name in among:
        if built.view.nodes[name].op.endswith(_PUSHES):
            handles.setdefault(built.view.inputs(name)[0].node, []).append(name)
    seen: Set[str] = set()
    waiting = list(targets)
    while waiting:
        name = waiting.pop()
        if name in seen or name not in among:
            continue
        seen.add(name)
        waiting.extend(port.node for port in built.view.inputs(name))
        if built.view.nodes[name].op.endswith(_TAKES):
            waiting.extend(handles.get(built.view.inputs(name)[0].node, ()))
    return seen


def _towers(built: Built, reached: List[_Reach]) -> Iterator[List[int]]:
    """Numbers of the scopes that train, those together that share a write that trains."""
    first: Dict[str, int] = {}
    group = list(range(len(reached)))

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for number, reach in enumerate(reached):
        for write in sorted(reach.trained):
            group[root(number)] = root(first.setdefault(write, number))
    for leader in sorted({root(number) for number, reach in enumerate(reached) if reach.trained}):
        yield [number for number in range(len(reached)) if reached[number].trained and root(number) == leader]


def _joined(scopes: List[GradientScope], reached: List[_Reach], members: List[int]) -> Loss:
    direct = {name for number in members for name in reached[number].direct}
    updates = direct | {name for number in members for name in reached[number].later}
    arrivals = dict.fromkeys(port for number in members for port in reached[number].taken)
    gradients = tuple(port for number in members for port in reached[number].gradients)
    return Loss(tuple(scopes[number] for number in members), gradients, tuple(arrivals), tuple(sorted(updates)), tuple(sorted(direct)))


def _fed(built: Built, idle: List[GradientScope], chosen: Optional[AbstractSet[str]], taken: AbstractSet[str]) -> Iterator[Loss]:
    """Losses whose gradients are fetched and fed back in."""
    fed: Dict[str, Tuple[Port, ...]] = {}
    for name in built.state.writes:
        slot = built.slot_named(name, "grad", "delta")
        if slot >= 0 and name not in taken and (chosen is None or name in chosen):
            ports = tuple(_placeholders(built, built.view.inputs(name)[slot]))
            if ports:
                fed[name] = ports
    left: List[Tuple[GradientScope, Dict[str, List[Port]]]] = []
    for scope in idle if fed else ():
        by_variable = _results(built, scope)
        updates = [name for name in fed if built.state.written(name) & set(by_variable)]
        if updates:
            written = {variable for name in updates for variable in built.state.written(name)}
            final = dict.fromkeys(port for variable, ports in by_variable.items() if variable in written for port in ports)
            yield _fed_loss([scope], final, updates, fed)
        elif by_variable:
            left.append((scope, by_variable))
    yield from _fed_elsewhere(built, left, fed)


def _fed_loss(scopes: List[GradientScope], gradients: Iterable[Port], updates: List[str], fed: Dict[str, Tuple[Port, ...]]) -> Loss:
    arrivals = dict.fromkeys(port for name in updates for port in fed.pop(name))
    return Loss(tuple(scopes), tuple(gradients), tuple(arrivals), tuple(sorted(updates)), tuple(sorted(updates)))


def _fed_elsewhere(built: Built, left: List[Tuple[GradientScope, Dict[str, List[Port]]]], fed: Dict[str, Tuple[Port, ...]]) -> Iterator[Loss]:
    """Gradients by the variables of a copy (a worker's, in A3C) that update those of another: known by the variables' shapes."""
    shapes = {variable.name: str(variable.shape) for variable in variables(built.meta_graph.graph_def)}
    optimizers: Dict[str, List[str]] = {}
    for name in fed:
        optimizers.setdefault(name.split("/update_")[0], []).append(name)
    for updates in optimizers.values():
        wanted = collections.Counter(
            shapes[v] for name in updates for v in built.state.written(name) & (built.state.collected("trainable_variables") or set())
        )
        alike = [(s, results) for s, results in left if wanted and not wanted - collections.Counter(shapes[v] for v in results)]
        if alike:
            final = dict.fromkeys(port for _, results in alike for ports in results.values() for port in ports)
            yield _fed_loss([scope for scope, _ in alike], final, updates, fed)
            left = [row for row in left if row not in alike]


def _placeholders(built: Built, gradient: Port) -> List[Port]:
    """The placeholders that a gradient is made of; none where it depends on gradient code."""
    if gradient.node in built.gradients:
        return []
    before = built.view.ancestors([gradient.node], control=False)
    if before & built.gradients:
        return []
    return [Port(name, 0) for name in sorted(before) if built.view.nodes[name].op in _PLACEHOLDERS and built.is_float(Port(name, 0))]


def _results(built: Built, scope: GradientScope) -> Dict[str, List[Port]]:
    """Results of gradient code by the variable that they may be the gradient of: of its shape, if any of them is."""
    found: Dict[str, List[Port]] = {}
    for name in built.view.nodes:
        if name in scope.degrees.of:
            for port in (port for port in built.outputs(name) if _is_final(built, scope, port)):
                for variable in _differentiated_by(built, name):
                    found.setdefault(variable, []).append(port)
    shapes = inferred_shapes(built.meta_graph.graph_def) if found else {}
    declared = {variable.name: variable.shape for variable in variables(built.meta_graph.graph_def)}
    for variable, ports in found.items():
        alike = [p for p in ports if p.node in shapes and tuple(d.size for d in shapes[p.node][p.output].dim) == declared[variable]]
        found[variable] = alike or ports
    return found


def _is_final(built: Built, scope: GradientScope, port: Port) -> bool:
    """Whether an output of gradient code is a result of it: nothing in its scope reads it."""
    return built.is_float(port) and not any(c.output == port.output and c.node in scope.nodes for c in built.view.consumers(port.node))


def _differentiated_by(built: Built, name: str) -> Set[str]:
    """The variables that the forward node of a node of gradient code reads."""
    forward = differentiated(name, built.view.nodes.keys())
    found = {built.state.variable(port.node) for port in built.view.inputs(forward)} if forward else set()
    return {variable for variable in found if variable is not None}
