"""A live tf.Graph and its conversion: made at the first run that trains, made anew when training code comes later."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.cloning import FUNCTION_SUFFIX
from graphmp.graph.state.live import ancestors
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import GraphView
from graphmp.loss_scale.scales import shown
from graphmp.naming import SCOPE
from graphmp.policy import policy as policies
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.report.coverage import nothing_in_half
from graphmp.report.record import Record
from graphmp.report.report import check_variables
from graphmp.rewrite.pipeline import rewrite
from graphmp.session.live import summaries
from graphmp.session.live.clones import Clones
from graphmp.session.live.closure import nodes_to_clone, with_dependents
from graphmp.session.live.finite import FiniteWatch, NotFinite, WatchedLoss
from graphmp.session.live.later import Later
from graphmp.session.live.losses import watched_losses
from graphmp.session.live.watch import WATCH_SCOPE
from graphmp.session.training import trains
from graphmp.tf_hooks.gradient_calls import noted

_ATTRIBUTE = "_graphmp_live"  # of a tf.Graph: what refers to each other goes together
_LOCK = threading.Lock()
_NUMBERS = itertools.count()
_PATIENCE_MS = 5000
_WATCHES = "%s/%s/" % (SCOPE, WATCH_SCOPE)
_SAVES = ("SaveV2", "RestoreV2")


class Converted(NamedTuple):
    """One conversion of a live graph.

    Attributes:
        original: the MetaGraphDef as it was; None once the observer has seen it.
        meta_graph: the converted one, under the original's names; None likewise.
        record: what the rewrite noted.
        warnings: rows of a report's `warnings` about the graph as a whole: the record's, and that nothing is in half precision.
        seconds: how long it took, clones included.
    """

    original: Optional[tf.MetaGraphDef]
    meta_graph: Optional[tf.MetaGraphDef]
    record: Record
    warnings: List[Dict[str, str]]
    seconds: float


@dataclass
class Fate:
    """The fate of a graph, for those that outlive it: whether anything of it ran, and whether it was converted, or can't be."""

    ran: bool = False
    converted: bool = False


class Observer:
    """Is told what becomes of a graph; this one takes it in silence."""

    def converted(self, live: LiveGraph) -> None:
        """A conversion was made."""

    def left(self, graph: Any) -> None:
        """A graph is left as it is: the decorator converted it while it was built."""

    def failed(self, error: Exception) -> bool:
        """A graph can't be converted: whether to train it as it is. Otherwise the run raises."""
        return False

    def begins(self, live: LiveGraph, feeds: Dict[Any, Any]) -> None:
        """A run that trains is about to begin, with these feeds, as `session.run` takes them."""

    def not_finite(self, live: LiveGraph, step: NotFinite) -> None:
        """A training run had a loss or a gradient that is not finite."""


def live_graph(graph: Any, config: Config, observer: Optional[Observer] = None) -> LiveGraph:
    """The LiveGraph of a tf.Graph; the first caller's options count, and the last caller's observer."""
    with _LOCK:
        found = known_live_graph(graph)
        if found is None:
            found = LiveGraph(graph, config, observer or Observer())
            setattr(graph, _ATTRIBUTE, found)
        if observer is not None:
            found.observer = observer
        return found


def known_live_graph(graph: Any) -> Optional[LiveGraph]:
    """The LiveGraph of a tf.Graph that has one."""
    return getattr(graph, _ATTRIBUTE, None)


class LiveGraph:
    """The nodes that a graph's sessions fetch in place of its own.

    Attributes:
        config: the options.
        converted: the conversion, once there is one.
        fate: what became of the graph.
        number: each has its own.
        for_every_session: whether all sessions of the graph fetch clones, not only those that were made for it.
        steps: how many runs have trained; whoever makes them counts.
        gave_up: whether the graph can't be converted and trains as it is.
        observer: is told what becomes of the graph.
        flagged: whether it is known of some loss whether its steps are finite.
        debug: whether to look for the first op that isn't finite in each run that trains.
    """

    def __init__(self, graph: Any, config: Config, observer: Observer):
        self.config = config
        self.converted: Optional[Converted] = None
        self.fate = Fate()
        self.number = next(_NUMBERS)
        self.for_every_session = False
        self.steps = 0
        self.gave_up = False
        self.debug = False
        self.flagged = False
        self.observer = observer
        self._watch: Optional[FiniteWatch] = None
        self._losses: List[WatchedLoss] = []
        self._restored: weakref.WeakKeyDictionary[Any, Dict[str, Any]] = weakref.WeakKeyDictionary()
        self._graph = weakref.ref(graph)
        self._lock = threading.RLock()
        self._clones: Dict[str, str] = {}
        self._prefix = ""
        self._in_loops: Set[str] = set()
        self._ours: Set[str] = set()
        self._known: Set[str] = set()
        self._trains: Dict[Any, bool] = {}
        self._merged: Set[Any] = set()
        self._tensors: Dict[int, Tuple[Any, Any]] = {}

    def restored(self, session: Any, path: str) -> None:
        """Called when a session has restored a checkpoint: before the conversion nothing is there to take the loss scale from it.

        It is read at once: MonitoredSession saves under the same name before the first step.
        """
        if self.converted is None:
            reader = tf.train.NewCheckpointReader(path)
            names = [
                name for name in reader.get_variable_to_shape_map() if name.startswith(SCOPE + "/")
            ]
            self._restored[session] = {name: reader.get_tensor(name) for name in sorted(names)}

    def prepare(self, session: Any, ops: List[Any]) -> bool:
        """Called with what is about to run in a session: converts the graph if that trains, or saves, and the clones know nothing of it.

        Returns:
            Whether it trains.

        Raises:
            GraphmpError: as `graphmp.convert`, where the graph can't be converted and the observer doesn't say to go on without.
        """
        self.fate.ran = True
        if not all(op in self._trains for op in ops):
            with self._lock:
                self._look_at([op for op in ops if op not in self._trains])
        if self._restored and self.converted is not None:
            self._restore_scale(session)
        return any(self._trains[op] for op in ops)

    def watched(self, ops: Tuple[Any, ...]) -> List[Any]:
        """Tensors to fetch beside ops that train, to learn whether the step is finite."""
        if self._watch is None:
            return []
        return self._watch.fetches(ops)

    def trained(self, session: Any, ops: Tuple[Any, ...], values: Sequence[Any]) -> None:
        """Called when a run has trained, with what it gave for `watched`."""
        self.steps += 1
        if values and self._watch is not None:
            for step in self._watch.seen(ops, values, self.steps):
                self.observer.not_finite(self, step)

    def checked(self) -> List[Any]:
        """The ops whose results tell whether gradients are finite: finite checks, or where there is none what computes the gradients."""
        return [tensor.op for loss in self._losses for tensor in loss.flags or loss.gradients]

    def originals(self) -> Dict[str, str]:
        """For the name of each clone the original's."""
        return {clone: name for name, clone in self._clones.items()}

    def _look_at(self, ops: List[Any]) -> None:
        found = {op: trains(op.graph, [op]) for op in ops}
        late = [op for op in ops if op.name not in self._known and op.name not in self._ours]
        if late and not self.gave_up and (any(found[op] for op in late) or self._saves(late)):
            self.fate.converted = True
            try:
                self._convert()
            except Exception as error:
                self.gave_up = self.observer.failed(error)
                if not self.gave_up:
                    raise
        elif late and self.converted is not None:
            self._follow(late)
        self._trains.update(found)
        self._show_scales()

    def _show_scales(self) -> None:
        """Merges the loss scale into what is fetched of merged summaries."""
        tags = summaries.tags_of(self.converted.record.scales) if self.converted else {}
        for op in [
            op
            for op in self._trains
            if tags and op.type == summaries.MERGE and op not in self._merged
        ]:
            self._merged.add(op)
            merged = summaries.with_scales(
                self.op(op),
                {tag: self._named(op.graph, name).outputs[0] for tag, name in tags.items()},
            )
            self._ours |= {merged.name} | {tensor.op.name for tensor in list(merged.inputs)[1:]}
            self._clones[op.name] = merged.name
            self._tensors = {}

    def _restore_scale(self, session: Any) -> None:
        """Gives the loss scale the state that it had in a checkpoint restored before the conversion."""
        for name, value in self._restored.pop(session, {}).items():
            if name in self._clones:
                assign = session.graph.get_operation_by_name(self._clones[name + "/Assign"])
                session.run(assign, {assign.inputs[1]: value})

    def _saves(self, ops: List[Any]) -> bool:
        """Whether a Saver that was made after the conversion is about to run: it must learn of the loss scale."""
        return self.converted is not None and any(
            op.type in _SAVES and op.name not in self._known for op in ancestors(ops)
        )

    def tensor(self, tensor: Any) -> Any:
        """The tensor to fetch or feed for a tensor: its clone, or itself."""
        found = self._tensors.get(id(tensor))
        if found is None:
            found = self._tensors[id(tensor)] = (
                self._clone_of(tensor),
                tensor,
            )  # kept, so that its id stays its own
        return found[0]

    def of_original(self, error: Any) -> Any:
        """An error of a run as the original would have raised it: of its op, under its name."""
        originals = self.originals()
        if error.op is None or originals.get(error.op.name) not in self._known:
            return error
        original = error.op.graph.get_operation_by_name(originals[error.op.name])
        return type(error)(
            error.node_def, original, error.message.replace(error.op.name, original.name)
        )

    def scale_state(self, session: Any) -> Tuple[int, List[float]]:
        """How many steps were skipped, and each loss scale, as a session has them now."""
        rows = (
            [row for row in self.converted.record.scales if row["kind"] == "dynamic"]
            if self.converted
            else []
        )
        if not rows:
            return 0, []
        names = [shown(row)[part] for part in (1, 0) for row in rows]
        options = tf.RunOptions(timeout_in_ms=_PATIENCE_MS)  # a server may be gone
        values = session.run(
            [self._named(session.graph, name).outputs[0] for name in names], options=options
        )
        return int(sum(values[: len(rows)])), [float(value) for value in values[len(rows) :]]

    def op(self, op: Any) -> Any:
        """The op to run for an op."""
        return self._named(op.graph, op.name)

    def _named(self, graph: Any, name: str) -> Any:
        return graph.get_operation_by_name(self._clones.get(name, name))

    def _clone_of(self, tensor: Any) -> Any:
        return (
            self.op(tensor.op).outputs[tensor.value_index]
            if tensor.op.name in self._clones
            else tensor
        )

    def _convert(self) -> None:
        graph = self._graph()
        assert graph is not None  # a run of it is under way
        start = time.time()
        original = self._exported(graph)
        done = rewrite(
            original,
            self.config,
            policies.load(self.config.compute_dtype, self.config.op_policy),
            recorded=noted(graph),
        )
        check_variables(original, done.meta_graph)
        after = GraphView(done.meta_graph.graph_def)
        shared = {
            name
            for name in self._ours
            if name in after.nodes and after.nodes[name].op in VARIABLE_OPS
        }
        clones = Clones(
            graph, after, original.graph_def, nodes_to_clone(original.graph_def, after, shared)
        )
        self._clones, self._prefix, self._merged = {}, clones.prefix, set()
        self._add(clones)
        self._known = {node.name for node in original.graph_def.node}
        self._in_loops = {name for name, depth in loop_depths(after).items() if depth}
        told = done.record.warnings + nothing_in_half(after.graph_def, self.config, done.record)
        self.converted = Converted(
            original, done.meta_graph, done.record, told, time.time() - start
        )
        self._losses = watched_losses(
            done.record, after, self._in_loops, self.config, lambda name: self._named(graph, name)
        )
        self._watch = FiniteWatch(self._losses, self.originals(), self.debug)
        self.flagged = bool(self._losses)
        self.observer.converted(self)
        self.converted = self.converted._replace(original=None, meta_graph=None)

    def _follow(self, ops: List[Any]) -> None:
        """Clones what came after the conversion and depends on clones. In a loop that was there before it goes on as it is: half a loop can't run."""
        later = Later(ops, lambda op: op.name in self._known or op.name in self._ours)
        seeds = later.known & set(self._clones)
        if not seeds or later.known & self._in_loops:
            return
        wanted = with_dependents(later.view, seeds, later.known)
        self._add(
            Clones(
                ops[0].graph, later.view, later.view.graph_def, wanted, self._prefix, self._clones
            )
        )
        self._known |= wanted
        self._in_loops |= {name for name, depth in loop_depths(later.view).items() if depth}

    def _add(self, clones: Clones) -> None:
        clones.add()
        self._clones.update(clones.names)
        self._ours |= set(clones.names.values()) | clones.helpers
        self._tensors = {}

    def _exported(self, graph: Any) -> tf.MetaGraphDef:
        """The graph without the clones of conversions before."""
        with graph.as_default():
            graph_def = graph.as_graph_def(add_shapes=True)
            nodes = [
                node
                for node in graph_def.node
                if node.name not in self._ours and not node.name.startswith(_WATCHES)
            ]
            del graph_def.node[:]
            graph_def.node.extend(nodes)
            functions = [
                f
                for f in graph_def.library.function
                if not f.signature.name.endswith(FUNCTION_SUFFIX)
            ]
            del graph_def.library.function[:]
            graph_def.library.function.extend(functions)
            return tf.train.export_meta_graph(graph=graph, graph_def=graph_def)
