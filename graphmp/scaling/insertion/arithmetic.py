"""Scale, unscale, finite check and clip of one loss, inserted into its graph.

They are built by the same functions as the recipe's.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.building import own_scope
from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.devices import machine
from graphmp.graph.structure.branches import Conditions
from graphmp.graph.structure.view import Consumer, Port
from graphmp.loss_scale import scales
from graphmp.loss_scale.gradients import all_finite, all_finite_by_sums, clip, unscale
from graphmp.policy.dtypes import BOOL, FLOAT32, HALF
from graphmp.scaling.insertion.carried import Branch, Frame, alive, carried, entered, taken
from graphmp.scaling.insertion.first_step import FirstStep
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.moved_gradients import computed_elsewhere
from graphmp.scaling.insertion.threads import flag_output
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import copies_unscaled


class _Place(NamedTuple):
    """The loops, and the sides of conditionals, in which gradients are taken."""

    loops: Tuple[str, ...]
    sides: Conditions


_OUTSIDE = _Place((), frozenset())


class Arithmetic:
    """The changes to the gradients of one loss.

    Attributes:
        scale: its loss scale.
        current: the scale's value; empty without one.
        given: the inputs that calls of gradient-taking functions get from it, by call; may be
            empty.
        unscaled: names of the nodes that divide by it.
        waits: control inputs of unscales in front of a copy that has them: TensorFlow runs no
            update before all gradients are computed.
        finite: name of the finite check; empty without one.
        clip: name scope of the clip; empty without one.
        first_step: what a first step measures; None if it is like other steps.
        clipped_apart: whether each tower's gradients are clipped separately.
        unclipped: whether gradients are taken in iterations, or in a function, so that the complete
            gradients aren't known outside.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        editor: Editor,
        part: Fragment,
        config: Config,
        loss: Loss,
        scope: str,
        kept: Sequence[Port],
        by_handle: bool = False,
        given: Optional[Port] = None,
        flags: Mapping[str, Port] = MappingProxyType({}),
    ):
        """Make the scale, and unscale what leaves gradient code.

        Args:
            graph: the graph.
            editor: edits it.
            part: the nodes to insert.
            config: loss scale and clip.
            loss: the loss.
            scope: its name scope below `graphmp/`.
            kept: outputs of gradient code that must be unscaled under their own names.
            by_handle: whether the graph only has handles of the scale's state: in a function or a
                loop.
            given: the scale, in a body that gets it from its callers; these skip steps, and clip.
            flags: stand-ins for the flags of calls of gradient-taking functions; other calls will
                get theirs as a result.
        """
        self._given, self._flags = given, flags
        self._graph, self._editor, self._config, self._loss, self._scope = (
            graph,
            editor,
            config,
            loss,
            scope,
        )
        self._part = part
        self._moved: Dict[Port, Port] = {}
        self._sources: Dict[Port, Any] = {}
        self._results: Dict[Port, Any] = {}
        self.divisions: Dict[Port, Any] = {}
        self._in_loops: Dict[Tuple[str, ...], scales.NoLossScale] = {}
        self._connections: List[Tuple[str, int, Any]] = []
        self._at_entries: List[Tuple[str, int, Any]] = []
        self.clipped_apart = self.unclipped = False
        self._updated = frozenset.intersection(
            *(graph.conditions.get(name, frozenset()) for name in loss.direct)
        )
        self._always = self._sides_of_step()
        self._keep_fetched(kept)
        with self._part.building():
            with tf.device(machine(graph.places.of(loss.direct[0]))):
                self.scale = (
                    self._entered(given)
                    if given is not None
                    else scales.make(config, scope, by_handle)
                )
            for each in loss.scopes:
                self._unscale(each)

    def _entered(self, given: Port) -> scales.NoLossScale:
        return scales.EnteredLossScale(self._scope, self._part.input(given, FLOAT32))

    def complete(self, unscaled: Mapping[Port, Any]) -> None:
        """Scale, check, clip and connect.

        Args:
            unscaled: the outputs that leave gradient code of all losses, unscaled: gradient code of
                one loss may use gradients of another.
        """
        self._unscaled = unscaled
        with self._part.building():
            for each in self._loss.scopes:
                self._scale(each)
            finite = self._all_finite() if self.scale.skips or self._given is not None else None
            flag = self._adapted(finite)
            self.given = dict(self._given_to_calls())
            self.first_step = self._first_step()
            self._clip()
            self._connect_readers()
        self._connect()
        self.waits = {
            self._part.name(t): [c.node for c in self._editor.controls(p.node)]
            for p, t in self.divisions.items()
            if p in self._moved
        }
        self._flag, self._flag_outside, self._trained = flag, None, None
        self.finite = "" if finite is None else self._part.name(finite)
        self.current = (
            self._part.port(self.scale.current).node
            if isinstance(self.scale, scales.FixedLossScale)
            else ""
        )
        self.clip = (
            "graphmp/%s/clip_by_global_norm" % self._scope
            if self._config.clip_norm and self._given is None and not self.unclipped
            else ""
        )
        self.unscaled = [
            name
            for name in dict.fromkeys(map(self._part.name, self.divisions.values()))
            if self.current and name.startswith("graphmp/")
        ]

    def flag_on(self, sides: Conditions) -> Port:
        """Whether its gradients are finite, on some sides of conditionals.

        The flag waits until the dynamic scale has been adapted.
        """
        if self._always <= sides:
            return self._part.port(self._flag)
        if self._flag_outside is None:
            with self._part.building(), own_scope(self._scope), tf.device(self.scale.device):
                self._flag_outside = alive(self._flag, self._branches(self._always, ()))
        return self._part.port(self._flag_outside)

    def always_trains(self, sides: Conditions) -> bool:
        """Whether its updates run on some sides of conditionals, if their step isn't skipped."""
        return self._updated <= sides

    def trained_on(self, sides: Conditions) -> Port:
        """As `flag_on`, but false where a conditional doesn't take the branch of its updates."""
        if self.always_trains(sides):
            return self.flag_on(sides)
        if self._trained is None:
            with self._part.building(), own_scope(self._scope), tf.device(self.scale.device):
                flag = taken(self._flag, self._branches(self._updated - self._always, ()))
                self._trained = alive(flag, self._branches(self._updated, ()), elsewhere=False)
        return self._part.port(self._trained)

    def _outside(self) -> List[Port]:
        """The values to check, outside of loops.

        For values computed in loops, the outputs of the loops.
        """
        looped = self._graph.looped
        return list(
            self._loss.arrivals
            or [
                *(port for port in self._loss.checked if not looped(port.node)),
                *self._loss.emerging,
            ]
        )

    def _all_finite(self) -> Any:
        """Whether all values are finite; those in a loop or branch are checked there."""
        looped = (
            ()
            if self._loss.arrivals
            else (port for port in self._loss.checked if self._graph.looped(port.node))
        )
        places: Dict[_Place, List[Port]] = {}
        for port in [*self._outside(), *looped]:
            places.setdefault(self._place(port), []).append(port)
        found = []
        always = places.pop(_OUTSIDE, ())
        if always:
            known = self._graph.sizes_of_gradients(self._loss.direct)
            sizes = [known.get(port) for port in always]
            tensors = [self._result(port) for port in always]
            found.append(all_finite_by_sums(tensors, self._scope, self.scale.device, sizes))
        flags = [
            self._flag_at(place, functools.partial(self._finite_at, place, ports))
            for place, ports in places.items()
        ]
        flags += [self._returned_flag(scope.call) for scope in self._loss.scopes if scope.call]
        if not flags:
            return found[0]
        with own_scope(self._scope), tf.device(self.scale.device):
            return tf.reduce_all(tf.stack(found + flags), name="all_finite")

    def _sides_of_step(self) -> Conditions:
        """The sides of conditionals that all updates require, and some gradient too.

        Nothing is checked on the other sides.
        """
        ports = [
            *self._loss.arrivals,
            *self._loss.checked,
            *(Port(scope.call, 0) for scope in self._loss.scopes if scope.call),
        ]
        paths = ((port, self._graph.loops(port.node)[:1]) for port in ports)
        sides = (
            self._graph.sides_of_loop(path) if path else self._graph.sides(port)
            for port, path in paths
        )
        return frozenset().union(*sides) & self._updated

    def _place(self, port: Port) -> _Place:
        """The place of an output, without sides of conditionals that the whole step requires."""
        loops, sides = self._graph.loops(port.node), self._graph.sides(port)
        return _Place(loops, sides if loops else sides - self._always)

    def _finite_at(self, place: _Place, ports: Sequence[Port]) -> Any:
        scope, device = (
            (self._scope + "/in_loop", "")
            if place.loops
            else (self._scope + "/in_branch", self.scale.device)
        )
        return all_finite([self._result(port) for port in ports], scope, device)

    def _flag_at(self, place: _Place, flag: Callable[[], Any]) -> Any:
        """A flag made in a place, as seen outside of its loops and branches."""
        branches = self._branches(place.sides, place.loops)
        if place.loops:
            return carried(self._frames(place.loops), lambda: alive(flag(), branches), self._scope)
        found = flag()
        with own_scope(self._scope + "/in_branch"), tf.device(self.scale.device):
            return alive(found, branches)

    def _returned_flag(self, call: str) -> Any:
        """The future flag of a call of a gradient-taking function."""
        port = self._flags.get(call) or Port(
            call, flag_output(self._graph.view.nodes[call], len(self._graph.outputs(call)))
        )
        return self._flag_at(self._place(Port(call, 0)), lambda: self._part.input(port, BOOL))

    def _given_to_calls(self) -> Iterator[Tuple[str, str]]:
        for call in (scope.call for scope in self._loss.scopes if scope.call):
            scale = self._scale_at(Port(call, 0))
            if isinstance(scale, scales.FixedLossScale):
                yield call, str(self._part.port(scale.in_step))

    def _frames(self, loops: Tuple[str, ...]) -> List[Frame]:
        """The loops of a path, as inputs of the inserted part."""
        found = []
        for depth, name in enumerate(loops):
            path = loops[: depth + 1]
            sides = self._graph.sides_of_loop(path)
            condition = self._part.input(Port(self._graph.loop_conditions[path], 0), BOOL)
            found.append(
                Frame(
                    name,
                    self._graph.parallel_iterations[name],
                    condition,
                    self._branches(sides if depth else sides - self._always, path[:-1]),
                )
            )
        return found

    def _branches(self, sides: Conditions, loops: Tuple[str, ...]) -> List[Branch]:
        """Sides of conditionals, innermost first, as inputs of the inserted part.

        For values inside loops.
        """
        around = {side: self._graph.sides(side[0]) for side in sides}
        found: Dict[Tuple[Port, int], Branch] = {}
        for side in sorted(sides, key=lambda side: (len(around[side]), side)):
            apart = tuple(
                branch
                for other, branch in reversed(list(found.items()))
                if other not in around[side]
            )
            predicate = self._part.input(side[0], BOOL)
            inner = self._frames(loops)[len(self._graph.loops(side[0].node)) :]
            found[side] = Branch(
                entered(inner, predicate, self._scope) if inner else predicate, side[1], apart
            )
        return list(reversed(list(found.values())))

    def _first_step(self) -> Optional[FirstStep]:
        if not isinstance(self.scale, scales.DynamicLossScale) or self.scale.first_step is None:
            return None
        ports = self._outside()
        checked = [
            self._part.port(self._result(port)) for port in ports if self._place(port) == _OUTSIDE
        ]
        if len(checked) < len(ports):  # values from a branch are checked behind it
            checked += [
                port
                for port in (self._graph.view.inputs(name)[slot] for name, slot in self._entries())
                if self._place(port) == _OUTSIDE
            ]
        elsewhere = (
            self._loss.arrivals or self._loss.reduced
        )  # gradient code runs in another step, or has other values in other processes
        nodes = (
            frozenset()
            if elsewhere
            else frozenset(name for scope in self._loss.scopes for name in scope.nodes)
        )
        largest, flag = self._part.name(self.scale.largest), self._part.name(self.scale.first_step)
        return FirstStep(largest, flag, checked, nodes)

    def _tensor(self, port: Port) -> Any:
        """A stand-in for an output, or its replacement: a scaled seed, a scaled result."""
        if port in self._sources:
            return self._sources[port]
        return self._part.input(self._moved.get(port, port), self._graph.dtype(port))

    def _read_in(self, scope: GradientScope, port: Port) -> Any:
        """An output as read by gradient code: unscaled if it leaves other gradient code."""
        if port in self._unscaled and port.node not in scope.nodes:
            return self._as_it_was(port, self._unscaled[port])
        return self._tensor(port)

    def _result(self, port: Port) -> Any:
        """The replacement of a gradient, if any."""
        return self._results[port] if port in self._results else self._tensor(port)

    def _keep_fetched(self, kept: Sequence[Port]) -> None:
        for scope in self._loss.scopes:
            for port in (port for port in kept if port.node in scope.nodes):
                self._moved[port] = computed_elsewhere(self._graph, self._editor, scope, port.node)
        for port in self._moved:
            while self._moved[port] in self._moved:  # the replacement may be replaced too
                self._moved[port] = self._moved[self._moved[port]]

    def _scale(self, scope: GradientScope) -> None:
        """Scale seeds, results of unknown ops, and values that are compared with gradients."""
        for seed in scope.seeds:
            with tf.device(self._graph.places.of(seed.node)):
                self._sources[seed] = self._scale_at(seed).scale(
                    self._read_in(scope, seed), name="scaled_seed"
                )
            self._let_read(seed, self._sources[seed], scope)
        for port in (
            port
            for name in scope.degrees.rescale
            for port in self._graph.outputs(name)
            if self._graph.is_float(port) and self._inside(port, scope)
        ):
            with tf.device(self._graph.places.of(port.node)):
                self._sources[port] = self._scale_at(port).scale(
                    self._tensor(port), name="rescaled"
                )
            self._let_read(port, self._sources[port], scope)
        for (name, slot), power in scope.degrees.multiply.items():
            port = self._graph.view.inputs(name)[slot]
            with tf.device(self._graph.places.of(name)):
                self._connections.append(
                    (
                        name,
                        slot,
                        self._times(self._scale_at(port), self._read_in(scope, port), power),
                    )
                )

    def _let_read(self, port: Port, tensor: Any, scope: GradientScope) -> None:
        for consumer in self._inside(port, scope):
            self._connections.append((consumer.node, consumer.slot, tensor))

    def _inside(self, port: Port, scope: GradientScope) -> List[Consumer]:
        """The consumers that read an output as a scaled gradient."""
        return [
            consumer
            for consumer in self._graph.view.consumers(port.node)
            if consumer.output == port.output
            and consumer.node in scope.nodes
            and not copies_unscaled(self._graph, scope, consumer.node)
        ]

    def _scale_at(self, port: Port) -> scales.NoLossScale:
        """The scale for consumers of an output: behind an Enter if they are in a while loop."""
        loops = self._graph.loops(port.node)
        if not loops or not isinstance(self.scale, scales.FixedLossScale):
            return self.scale
        if loops not in self._in_loops:
            tensor = entered(self._frames(loops), self.scale.in_step, self._scope)
            self._in_loops[loops] = scales.EnteredLossScale(self.scale.scope, tensor)
        return self._in_loops[loops]

    def _times(
        self, scale: scales.NoLossScale, tensor: Any, power: int, name: str = "rescaled"
    ) -> Any:
        for _ in range(abs(power)):
            dtype = tensor.dtype
            tensor = (
                scale.scale(tensor, name=name)
                if power > 0
                else self._cast(scale.unscale(tensor), dtype)
            )
        return tensor

    def _unscale(self, scope: GradientScope) -> None:
        """Unscale each output that leaves gradient code, on its consumer's device.

        It is thus sent there in half precision.
        """
        leaving = () if scope.call else scope.leaving
        for port in dict.fromkeys(
            [*leaving, *(port for port in self._moved if port.node in scope.nodes)]
        ):
            kept = copies_unscaled(self._graph, scope, port.node)
            degree = 0 if kept else scope.degrees.at(port)
            reader = next(
                (
                    c.node
                    for c in self._graph.view.consumers(port.node)
                    if c.node not in scope.nodes
                ),
                port.node,
            )
            with tf.device(self._graph.places.of(reader)):
                tensor = self._part.input(self._moved.get(port, port), self._graph.dtype(port))
                self._results[port] = self.divisions[port] = self._divided(
                    self._scale_at(port), tensor, degree
                )

    def _divided(self, scale: scales.NoLossScale, tensor: Any, degree: int) -> Any:
        if degree <= 0:
            return self._times(scale, tensor, -degree, "unscale")
        for _ in range(degree):
            tensor = unscale(scale, [tensor])[0]
        return tensor

    def _adapted(self, finite: Any) -> Any:
        """The flag for gates.

        It waits until the scale has been adapted, so that any update adapts the scale.
        """
        if finite is None or self._given is not None:
            return None
        with tf.control_dependencies([self.scale.update(finite)]), own_scope(
            self._scope
        ), tf.device(self.scale.device):
            return tf.identity(finite, name="finite")

    def _clip(self) -> None:
        if not self._config.clip_norm or self._given is not None:
            return
        in_turns = bool(self._loss.emerging or any(scope.call for scope in self._loss.scopes))
        in_turns = in_turns or len({self._place(port) for port in self._loss.gradients}) > 1
        entries = self._entries()
        if self._loss.arrivals and not self._loss.fetched:
            self._clip_ports(self._loss.arrivals)
        elif (
            self._loss.fetched or self._loss.reduced or self._loss.added_up or in_turns
        ) and entries:
            self._clip_entries(entries)
        elif in_turns:
            self.unclipped = True
        elif self._loss.reduced:
            self._clip_ports(self._loss.checked)
        elif self._loss.added_up:
            self.clipped_apart = True
            for scope in self._loss.scopes:
                self._clip_ports([port for port in self._loss.gradients if port in scope.leaving])
        else:
            self._clip_ports(self._loss.gradients)

    def _entries(self) -> List[Tuple[str, int]]:
        """The gradient inputs of update kernels; empty if some update isn't such a kernel."""
        slots = [
            (name, self._graph.slot_named(name, "grad", "delta")) for name in self._loss.direct
        ]
        return slots if all(slot >= 0 for _, slot in slots) else []

    def _clip_ports(self, ports: Iterable[Port]) -> None:
        ports = list(dict.fromkeys(ports))
        tensors = [self._result(port) for port in ports]
        self._results.update(zip(ports, clip(tensors, self._config.clip_norm, self._scope)))

    def _clip_entries(self, entries: List[Tuple[str, int]]) -> None:
        read = {entry: self._graph.view.inputs(entry[0])[entry[1]] for entry in entries}
        ports = list(dict.fromkeys(read.values()))
        tensors = [self._result(port) for port in ports]
        clipped = dict(zip(ports, clip(tensors, self._config.clip_norm, self._scope)))
        self._at_entries = [(name, slot, clipped[port]) for (name, slot), port in read.items()]

    def _connect_readers(self) -> None:
        """Redirect consumers outside gradient code to the result.

        A fetched gradient keeps its name and returns the result.
        """
        made = {(name, slot) for name, slot, _ in self._connections}
        for port in self._moved:
            self._connections.append((port.node, 0, self._as_it_was(port, self.divisions[port])))
        unclipped = self._readers_ahead() if self._config.clip_norm else frozenset()
        for port, tensor in self._results.items():
            result = self._as_it_was(port, tensor)
            inside: AbstractSet[str] = next(
                (scope.nodes for scope in self._loss.scopes if port.node in scope.nodes),
                frozenset(),
            )
            for consumer in self._graph.view.consumers(port.node):
                if (
                    consumer.output != port.output
                    or consumer.node in inside
                    or (consumer.node, consumer.slot) in made
                ):
                    continue
                early = port in self.divisions and consumer.node in unclipped
                self._connections.append(
                    (
                        consumer.node,
                        consumer.slot,
                        self._as_it_was(port, self.divisions[port]) if early else result,
                    )
                )
        self._connections.extend(self._at_entries)

    def _readers_ahead(self) -> AbstractSet[str]:
        """Gradient code, and its ancestors that no update depends on: nodes ahead of the clip."""
        view, gradients = self._graph.view, self._graph.gradients
        ahead = view.ancestors(gradients, control=False)
        return ahead - view.traced(self._loss.updates, lambda name: name not in gradients)

    def _as_it_was(self, port: Port, tensor: Any) -> Any:
        """The result, in half precision if the model's gradient is."""
        dtype = tf.as_dtype(self._graph.dtype(port))
        return self._cast(tensor, dtype) if dtype.as_datatype_enum in HALF else tensor

    def _cast(self, tensor: Any, dtype: Any) -> Any:
        if tensor.dtype == dtype:
            return tensor
        with own_scope(self._scope):
            return tf.cast(tensor, dtype)

    def _connect(self) -> None:
        for name, slot, tensor in self._connections:
            port = self._part.port(tensor)
            if port != self._editor.input(name, slot):
                self._editor.connect(name, slot, port)
