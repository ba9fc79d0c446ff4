"""Scale, unscale, finite check and clip of one loss, inserted into its graph.

They are built by the same functions as the recipe's.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
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
from graphmp.policy.dtypes import FLOAT32, HALF
from graphmp.scaling.insertion.clipping import Clipping, entries
from graphmp.scaling.insertion.finite_check import FiniteCheck, outside_of_loops
from graphmp.scaling.insertion.first_step import FirstStep
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.moved_gradients import computed_elsewhere
from graphmp.scaling.insertion.places import OUTSIDE, Places
from graphmp.scaling.insertion.scale_in_place import ScaleInPlace
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import copies_unscaled


class Arithmetic:
    """The changes to the gradients of one loss.

    Attributes:
        scale: its loss scale.
        current: the scale's value; empty without one.
        given: the inputs that calls of gradient-taking functions get from it, by call; may be
            empty.
        unscaled: names of the nodes that divide by it.
        moved: the outputs that compute scaled gradients, for those whose names give them unscaled.
        waits: control inputs of unscales in front of a copy that has them: TensorFlow runs no
            update before all gradients are computed.
        finite: name of the finite check; empty without one.
        clip: name scope of the clip; empty without one.
        first_step: what a first step measures; None if it is like other steps.
        clipped: the clipped gradients; None without a clip.
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
        self.moved: Dict[Port, Port] = {}
        self._sources: Dict[Port, Any] = {}
        self._results: Dict[Port, Any] = {}
        self.divisions: Dict[Port, Any] = {}
        self._connections: List[Tuple[str, int, Any]] = []
        self.clipped: Optional[Clipping] = None
        self._places = Places(graph, part, loss, scope)
        self._keep_fetched(kept)
        with self._part.building():
            with tf.device(machine(graph.places.of(loss.direct[0]))):
                self.scale = (
                    self._entered(given)
                    if given is not None
                    else scales.make(config, scope, by_handle)
                )
            self._here = ScaleInPlace(graph, self._places, self.scale, scope)
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
            if self._config.clip_norm and self._given is None:
                self.clipped = Clipping(
                    self._graph,
                    self._loss,
                    self._places,
                    self._config.clip_norm,
                    self._scope,
                    self._result,
                )
                self._results.update(self.clipped.results)
            self._connect_readers()
        self._connect()
        self.waits = {
            self._part.name(t): [c.node for c in self._editor.controls(p.node)]
            for p, t in self.divisions.items()
            if p in self.moved
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
            if self.clipped and not self.clipped.nowhere
            else ""
        )
        self.unscaled = [
            name
            for name in dict.fromkeys(map(self._part.name, self.divisions.values()))
            if self.current and name.startswith("graphmp/")
        ]

    @property
    def in_step(self) -> str:
        """Name of the node of the factor of this step's loss; empty without a scale."""
        return (
            self._part.name(self.scale.in_step)
            if isinstance(self.scale, scales.FixedLossScale)
            else ""
        )

    def unscaled_port(self, port: Port) -> Optional[Port]:
        """The output that holds one of gradient code unscaled; None if nothing outside reads it."""
        return self._part.port(self.divisions[port]) if port in self.divisions else None

    def flag_on(self, sides: Conditions) -> Port:
        """Whether its gradients are finite, on some sides of conditionals.

        The flag waits until the dynamic scale has been adapted.
        """
        if self._places.always <= sides:
            return self._part.port(self._flag)
        if self._flag_outside is None:
            with self._part.building(), own_scope(self._scope), tf.device(self.scale.device):
                self._flag_outside = self._places.seen_by_all(self._flag)
        return self._part.port(self._flag_outside)

    def always_trains(self, sides: Conditions) -> bool:
        """Whether its updates run on some sides of conditionals, if their step isn't skipped."""
        return self._places.updated <= sides

    def trained_on(self, sides: Conditions) -> Port:
        """As `flag_on`, but false where a conditional doesn't take the branch of its updates."""
        if self.always_trains(sides):
            return self.flag_on(sides)
        if self._trained is None:
            with self._part.building(), own_scope(self._scope), tf.device(self.scale.device):
                self._trained = self._places.trained(self._flag)
        return self._part.port(self._trained)

    def _all_finite(self) -> Any:
        check = FiniteCheck(
            self._graph,
            self._part,
            self._loss,
            self._places,
            self._flags,
            self._scope,
            self.scale.device,
        )
        return check.flag(self._result)

    def _given_to_calls(self) -> Iterator[Tuple[str, str]]:
        for call in (scope.call for scope in self._loss.scopes if scope.call):
            scale = self._here.at(Port(call, 0))
            if isinstance(scale, scales.FixedLossScale):
                yield call, str(self._part.port(scale.in_step))

    def _first_step(self) -> Optional[FirstStep]:
        if not isinstance(self.scale, scales.DynamicLossScale) or self.scale.first_step is None:
            return None
        ports = outside_of_loops(self._graph, self._loss)
        outside = [port for port in ports if self._places.of(port) == OUTSIDE]
        checked = [self._part.port(self._result(port)) for port in outside]
        if len(checked) < len(ports):  # values from a branch are checked behind it
            kernels = entries(self._graph, self._loss)
            taken = (self._graph.view.inputs(name)[slot] for name, slot in kernels)
            checked += [port for port in taken if self._places.of(port) == OUTSIDE]
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
        return self._part.input(self.moved.get(port, port), self._graph.dtype(port))

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
                self.moved[port] = computed_elsewhere(self._graph, self._editor, scope, port.node)
        for port in self.moved:
            while self.moved[port] in self.moved:  # the replacement may be replaced too
                self.moved[port] = self.moved[self.moved[port]]

    def _scale(self, scope: GradientScope) -> None:
        """Scale seeds, results of unknown ops, and values that are compared with gradients."""
        for seed in scope.seeds:
            with tf.device(self._graph.places.of(seed.node)):
                self._sources[seed] = self._here.at(seed).scale(
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
                self._sources[port] = self._here.at(port).scale(self._tensor(port), name="rescaled")
            self._let_read(port, self._sources[port], scope)
        for (name, slot), power in scope.degrees.multiply.items():
            port = self._graph.view.inputs(name)[slot]
            with tf.device(self._graph.places.of(name)):
                self._connections.append(
                    (
                        name,
                        slot,
                        self._here.times(port, self._read_in(scope, port), power),
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

    def _unscale(self, scope: GradientScope) -> None:
        """Unscale each output that leaves gradient code, on its consumer's device.

        It is thus sent there in half precision.
        """
        leaving = () if scope.call else scope.leaving
        for port in dict.fromkeys(
            [*leaving, *(port for port in self.moved if port.node in scope.nodes)]
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
                tensor = self._part.input(self.moved.get(port, port), self._graph.dtype(port))
                self._results[port] = self.divisions[port] = self._here.divided(
                    port, tensor, degree
                )

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

    def _connect_readers(self) -> None:
        """Redirect consumers outside gradient code to the result.

        A fetched gradient keeps its name and returns the result.
        """
        made = {(name, slot) for name, slot, _ in self._connections}
        for port in self.moved:
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
        self._connections.extend(self.clipped.at_entries if self.clipped else ())

    def _readers_ahead(self) -> AbstractSet[str]:
        """Gradient code, and its ancestors that no update depends on: nodes ahead of the clip."""
        view, gradients = self._graph.view, self._graph.gradients
        ahead = view.ancestors(gradients, control=False)
        return ahead - view.traced(self._loss.updates, lambda name: name not in gradients)

    def _as_it_was(self, port: Port, tensor: Any) -> Any:
        """The result, in half precision if the model's gradient is."""
        dtype = tf.as_dtype(self._graph.dtype(port))
        return self._here.cast(tensor, dtype) if dtype.as_datatype_enum in HALF else tensor

    def _connect(self) -> None:
        for name, slot, tensor in self._connections:
            port = self._part.port(tensor)
            if port != self._editor.input(name, slot):
                self._editor.connect(name, slot, port)
