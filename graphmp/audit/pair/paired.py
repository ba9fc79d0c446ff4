"""Original and converted graph in one: same variables, random numbers and batches.

The second computation is in half precision.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.audit.measure.instrument import Instrument, MeasuredTensor
from graphmp.audit.measure.rows import GraphPair, TensorRow
from graphmp.audit.pair.simulate import Simulation, simulated
from graphmp.conversion.conversion import Conversion
from graphmp.feeds.sources import is_source
from graphmp.graph.edit.cloning import cloned
from graphmp.graph.state.state import State
from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.formats import FORMATS
from graphmp.process_memory import collector_paused
from graphmp.report.training import fetchable, not_audited, nothing_trains
from graphmp.session.live.cloning.closure import nodes_to_clone
from graphmp.session.steps.as_written import seeded
from graphmp.verify.scales.powers import powers

_CLONES = SCOPE + "/audit"  # the scope of the clones


class PairedGraph:
    """A graph that computes a step of both, with measurements.

    Attributes:
        meta_graph: the graph: the original, clones of changed nodes, and measurements.
        rows: the measured rows; the tables have the originals' rows first, then the converted
            graph's.
        left_out: rows that can't be measured, in a while loop that doesn't read them.
        measurement: the op to run for a measured step.
        updates: ops that train the original.
        losses: for each of the report's losses the tensors of the original and of the converted
            graph.
        scales: for each the converted graph's factor, a tensor; empty without one.
        finite: for each the flag that its gradients are finite; may be empty.
        adapts: ops that adapt the loss scales.
        initializers: ops that initialise variables.
        draws: whether random ops were cloned, in while loops and functions: they must run as often
            as the original's.
    """

    @collector_paused()
    def __init__(self, conversion: Conversion, native: bool, roles: Sequence[str]):
        """Build the graph.

        Args:
            conversion: both graphs, with the report.
            native: whether half precision uses the machine's own kernels, or is simulated.
            roles: the roles to measure.

        Raises:
            GraphmpError: GMP023 if no training was found, GMP020 if all gradients are taken in
                functions or loops.
        """
        losses = conversion.report["losses"]
        found = fetchable(losses)
        if not found:
            raise (not_audited if losses else nothing_trains)(conversion.report["source"])
        original, converted = seeded(conversion.original), seeded(conversion.meta_graph)
        _mark_drawing(converted.graph_def)
        pair = GraphPair(
            original, converted, found, powers(conversion.original, conversion.meta_graph)
        )
        self.rows = [row for row in pair.rows() if row.role in roles]
        simulation = Simulation(converted, {}) if native else simulated(converted)
        rounded = [simulation.rounded.get(row.converted, row.converted) for row in self.rows]
        scales = [pair.scale(number) for number in range(len(found))]
        steps = [
            loss["scale"].rsplit("/", 1)[0] + "/update/step" for loss in found if loss.get("scale")
        ]
        after = GraphView(simulation.meta_graph.graph_def)
        run = [
            *rounded,
            *scales,
            *steps,
            *(text for loss in found for text in [*loss["loss"], loss.get("finite", "")]),
        ]
        self._clones = _names(original.graph_def, after, run)
        self.initializers = sorted(State(original, pair.before).initializers)
        self.draws = self._draws(converted, after)
        self.meta_graph = original
        self.meta_graph.graph_def.MergeFrom(
            cloned(after, original.graph_def, self._clones, _CLONES)
        )
        self.scales = list(map(self._clone, scales))
        self.losses = [(loss["loss"], list(map(self._clone, loss["loss"]))) for loss in found]
        self.finite = [self._clone(loss.get("finite", "")) for loss in found]
        self.adapts = [self._clones[name] for name in steps if name in self._clones]
        self.updates = [name for loss in found for name in loss["updates"]]
        measured = [*self._originals(pair), *self._converted(pair, rounded, native)]
        instrument = Instrument(
            self.meta_graph.graph_def, FORMATS[conversion.report["compute_dtype"]], measured
        )
        self.measurement = instrument.target
        self.left_out: List[TensorRow] = [
            self.rows[number] for number in instrument.left_out if number < len(self.rows)
        ]
        _keep_from_xla(self.meta_graph.graph_def)

    def _draws(self, converted: tf.MetaGraphDef, after: GraphView) -> bool:
        """Whether a cloned node draws random numbers, or calls a function that does."""
        drawing = {
            function.signature.name
            for function in converted.graph_def.library.function
            if "_graphmp_draws" in function.attr
        }
        return any(
            "seed2" in after.nodes[name].attr or drawing & set(functions_named(after.nodes[name]))
            for name in self._clones
        )

    def _clone(self, text: str) -> str:
        """The counterpart of an output of the converted graph."""
        port = parse_input(text)
        return str(port._replace(node=self._clones.get(port.node, port.node))) if text else ""

    def _originals(self, pair: GraphPair) -> Iterator[MeasuredTensor]:
        for row in self.rows:
            scale = self.scales[row.loss] if row.power else ""
            yield MeasuredTensor(
                row.name, pair.dtype(pair.before, row.name), scale, pair.elements(row.name)
            )

    def _converted(
        self, pair: GraphPair, texts: Sequence[str], native: bool
    ) -> Iterator[MeasuredTensor]:
        for row, text in zip(self.rows, texts):
            dtype = FLOAT32 if row.dtype and not native else pair.dtype(pair.after, row.converted)
            yield MeasuredTensor(
                self._clone(text), dtype, "", pair.elements(row.name), compared=True
            )


def _names(before: tf.GraphDef, after: GraphView, run: Iterable[str]) -> Dict[str, str]:
    """The clone's name of each node to clone that is needed; inserted nodes keep theirs."""
    originals = {node.name: node for node in before.node}
    needed = after.ancestors({parse_input(text).node for text in run} & set(after.nodes))
    wanted = nodes_to_clone(before, after, _shared(originals, after)) & needed
    return {
        name: name
        if name.startswith(SCOPE + "/") and name not in originals
        else "%s/%s" % (_CLONES, name)
        for name in after.nodes
        if name in wanted
    }


def _shared(originals: Dict[str, tf.NodeDef], after: GraphView) -> Set[str]:
    """Unchanged random ops, which draw for both graphs, and what is fed to both.

    The results of Python functions are fed, whatever these read. While loops are cloned whole.
    """
    inside = frames(after)
    return {
        name
        for name, node in originals.items()
        if not inside.get(name)
        and (is_source(node) or ("seed2" in node.attr and after.nodes[name] == node))
    }


def _mark_drawing(graph_def: tf.GraphDef) -> None:
    """Make functions that draw random numbers differ from the original's.

    Calls of one function share a generator, and draw in no particular order.
    """
    for function in graph_def.library.function:
        if any("seed2" in node.attr for node in function.node_def):
            function.attr["_graphmp_draws"].b = True


def _keep_from_xla(graph_def: tf.GraphDef) -> None:
    """Exclude all nodes from XLA.

    1.15.5 searches them for clusters at every new set of fetches, also in functions, compiler on or
    off.
    """
    for node in graph_def.node:
        node.attr["_XlaCompile"].b = False
