"""A step whose gradients are not finite is skipped as a whole.

1. Every path of a value from a division by the scale, an accumulator, or a fed gradient to a write
   passes through an output that the write's flag checks.
2. A write that follows an update of a loss, or is grouped with one and takes values from the batch,
   depends on that loss's flag too; so does one that runs with an update and never without it. Not
   what the model makes of its own tests of gradients.
3. A flag only checks such values.
4. If a write's flag checks the value of another write, both depend on one flag, unless the other
   one comes first or may run alone.
5. A step that applies sums of gradients, kept in variables, goes by a flag of its own: `sums.py`.
6. A write that takes zeros in a skipped step begins such a sum: `begun.py`.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.policy.op_sets import (
    FINITE_TESTS,
    PLACEHOLDERS,
    READS,
    SWITCHES,
    UPDATE_PREFIXES,
    VARIABLE_OPS,
)
from graphmp.verify.body import BodyFindings
from graphmp.verify.sides import Fault
from graphmp.verify.skips.begun import begun_faults
from graphmp.verify.skips.followed import followed
from graphmp.verify.skips.formulas import (
    AllOf,
    Flag,
    mentioned,
    said_finite,
)
from graphmp.verify.skips.skips_by_value import SkipsByValue
from graphmp.verify.skips.sums import SumSteps

_NOTHING: FrozenSet[Port] = frozenset()


class Skips:
    """The writes of a skipped step.

    Attributes:
        faults: the faults found.
        gated: writes that wait for a flag.
        counted: writes of integers that also happen in a skipped step.
        behind_loops: writes that run once behind a while loop, whatever its iterations skipped.
        counts: whether the global step counts skipped steps; empty if no rule tells, both if parts
            of the graph differ.
    """

    def __init__(self, body: BodyFindings):
        self._body, self._sides, self._scales, self._view = (
            body,
            body.sides,
            body.scales,
            body.sides.after.view,
        )
        self._inside = {name: frozenset(scales) for name, scales in self._scales.skipping.items()}
        self._writes = [
            name for name in self._sides.after.state.writes if self._is_the_models(name)
        ]
        self._flags: Dict[str, Flag] = {
            name: _all([gate.flag for gate in found]) for name, found in body.gates.of.items()
        }
        self._sums = SumSteps(body, self._flags, self._gradient)
        self.faults: List[Fault] = []
        self.counted: List[str] = list(body.gates.counts.values())
        self.gated = [name for name in self._writes if name in self._flags]
        self.behind_loops: List[str] = []
        if self._scales.adapting:
            self._sources = self._body.sources.keys() | set(self._taken_out()) | set(self._fed())
            self._look_at_ways()
            self._look_at_scales()
            self._look_at_steps()
            self._look_at_flags()
        values = SkipsByValue(body, self._writes, self._flags, self._sums)
        self.faults += values.faults()
        self.faults += self._sums.faults(self._writes, self._flags, values.is_beside)
        self.faults += begun_faults(body, self._body.sources.keys())
        self.counts = set(self._counts())

    def _counts(self) -> Iterator[bool]:
        if self._has_accumulators:
            return  # steps are counted there, whatever was asked for
        for name in self._writes:
            if self._counts_steps(name) and name in (*self._flags, *self.counted):
                yield name in self.counted or name in self._body.gates.counts

    @once
    def _has_accumulators(self) -> bool:
        """Whether gradients are pushed into accumulators, whose steps are counted."""
        return any("Accumulator" in node.op for node in self._view.nodes.values())

    def _counts_steps(self, name: str) -> bool:
        """Whether a write changes the global step."""
        state = self._sides.after.state
        collected = state.collected(tf.GraphKeys.GLOBAL_STEP) or ()
        return any(
            each in collected or each.rpartition("/")[2] == "global_step"
            for each in state.written(name)
        )

    def _is_the_models(self, name: str) -> bool:
        """Whether a write belongs to the original, or replaces one; not to a scale's state."""
        known = name in self._body.erasure.copies or (
            name in self._sides.before.view.nodes and self._view.nodes[name].op != "Identity"
        )
        return known and (
            self._body.called.is_call(name)
            or not self._sides.after.state.written(name) & self._scales.variables
        )

    def _taken_out(self) -> Iterator[Port]:
        for name, node in self._view.nodes.items():
            if node.op.endswith("AccumulatorTakeGradient"):
                yield from (Port(name, output) for output in range(self._sides.after.outputs(name)))

    def _fed(self) -> Iterator[Port]:
        """Placeholders fed with gradients.

        Those that flags check, and those that update kernels read which take no gradient of the
        body: what is fed beside one is noise, a mask or a decay. A gradient has the shape of its
        variable: a scalar is a rate, unless a variable is one.
        """
        yield from (
            port for port in self._checked() if self._view.nodes[port.node].op in PLACEHOLDERS
        )
        computed = self._reached(self._body.sources.keys(), _NOTHING)
        taken: Dict[FrozenSet[Port], List[str]] = {}
        for name, flag in self._flags.items():
            is_kernel = self._view.nodes[name].op.startswith(UPDATE_PREFIXES)
            if is_kernel and self._gradient(name) >= 0 and name not in computed:
                taken.setdefault(said_finite(flag), []).append(name)
        for said, names in taken.items():
            has_scalars = any(map(self._writes_scalar, names))
            ports = [self._view.inputs(name)[self._gradient(name)] for name in names]
            for port in self._placeholders_behind(ports, said):
                if has_scalars or recorded_dimensions(self._view.nodes[port.node], 0, -1) != []:
                    yield port

    def _writes_scalar(self, name: str) -> bool:
        """Whether a write changes a variable that is a scalar, or may be one."""
        written = self._sides.after.state.written(name)
        ranks = [len(self._view.nodes[each].attr["shape"].shape.dim) for each in written]
        return not all(ranks) or not ranks

    def _checked(self) -> FrozenSet[Port]:
        return frozenset().union(*(scale.checked for scale in self._scales.dynamic))

    def _gradient(self, name: str) -> int:
        op_defs = self._sides.after.op_defs
        return op_defs.slot_named(self._view.nodes[name].op, "grad", "delta")

    def _placeholders_behind(self, ports: List[Port], said: AbstractSet[Port]) -> Iterator[Port]:
        """The placeholders that outputs depend on, not through checked ones."""
        ends, nodes = PLACEHOLDERS | VARIABLE_OPS, self._view.nodes
        behind = reached(
            ports,
            lambda port: () if nodes[port.node].op in ends else self._view.inputs(port.node),
            lambda port: port not in said and self._sides.after.is_float(port),
        )
        sources = {source.node for source in self._body.sources}
        for port in sorted(port for port in behind if nodes[port.node].op in PLACEHOLDERS):
            if not sources & self._reached({port}, _NOTHING):  # else it is data
                yield port

    def _look_at_ways(self) -> None:
        by_flag: Dict[FrozenSet[Port], List[str]] = {}
        for name in self._writes:
            said = said_finite(self._flags[name]) if name in self._flags else _NOTHING
            by_flag.setdefault(said, []).append(name)
        for said, names in by_flag.items():
            reached = self._body.ways.past(self._sources, said)
            for name in names:
                if (
                    name in reached
                    and kind(self._view.nodes[name].op) == ""
                    and "Accumulator" not in self._view.nodes[name].op
                ):
                    what = (
                        "waits for no flag that looks at" if said else "has no gate that looks at"
                    )
                    self.faults.append(Fault(name, "%s gradients that it takes" % what))

    def _look_at_scales(self) -> None:
        """Check that writes of a scale's gradients depend on the scale's own flag.

        Not what takes them out of a queue where that flag doesn't look at them.
        """
        for scale in self._scales.dynamic:
            starts = {port for port, scales in self._body.sources.items() if scale.name in scales}
            apart = self._body.ways.arrivals - scale.checked
            takes = self._reached(starts, (self._body.sources.keys() - starts) | apart)
            for name in self._writes:
                if (
                    name in takes
                    and name in self._flags
                    and scale.name not in mentioned(self._flags[name])
                ):
                    self.faults.append(
                        Fault(name, "takes gradients of a loss, and does not go by its flag")
                    )

    def _reached(self, starts: AbstractSet[Port], stops: AbstractSet[Port]) -> Set[str]:
        """The nodes that some outputs lead to by data, not through others."""
        return self._body.ways.reached(starts, stops)

    def _look_at_steps(self) -> None:
        decided = {
            name: mentioned(flag) | self._sums.step(flag) for name, flag in self._flags.items()
        }
        updates = {name: steps for name, steps in decided.items() if steps}
        updates.update(self._inside)
        follows, takes = followed(self._sides, updates), self._reached(self._sources, _NOTHING)
        self._look_at_strangers()
        read_by, state = self._scales_of_readers(updates), self._sides.after.state
        behind = followed(self._sides, updates, out_of_loops=True)
        self.behind_loops += sorted(behind.keys() - follows.keys() - self._flags.keys())
        for name in self._writes:
            wanted = follows.get(name, frozenset())
            of_readers = [read_by.get(each, set()) for each in state.written(name)]
            wanted = wanted.intersection(set().union(*of_readers)) or wanted
            by_one = len(wanted) > 1 and bool(
                updates.get(name, wanted) & wanted
            )  # alternating steps: which one is meant is unknown
            if (
                not wanted
                or self._sums.empties(name, wanted)
                or (
                    name in updates
                    and (updates[name] >= wanted or by_one or name in takes or name in self._inside)
                )
            ):
                continue
            if name in self._flags:
                self.faults.append(
                    Fault(name, "goes by another flag than the updates that it follows")
                )
            else:
                self._ungated(name, "follows updates that are skipped, and is not")
        self._look_at_company(updates.keys())

    def _look_at_strangers(self) -> None:
        """Writes that go by a scale's flag, and that nothing in the original waits for with a step.

        The step of a scale takes its gradients. A function runs all of its writes, whatever waits
        for them.
        """
        if self._sides.before.function:
            return
        copies, view = self._body.erasure.copies, self._sides.before.view
        going: Dict[str, Set[str]] = {}
        for name in self.gated:
            for scale in mentioned(self._flags[name]):
                going.setdefault(scale, set()).add(name)
        for scale, names in going.items():
            takes = self._reached(self._gradients_of(scale), _NOTHING)
            steps = {copies.get(name, name) for name in takes.intersection(self._writes)}
            steps |= {name for name, scales in self._inside.items() if scale in scales}
            waited = view.ancestors(view.descendants(steps & view.nodes.keys()))
            for name in sorted(names - self._inside.keys()):
                if not {name, copies.get(name, name)} & (steps | waited):
                    self.faults.append(
                        Fault(name, "goes by the flag of a step that it is no part of")
                    )

    def _gradients_of(self, scale: str) -> Set[Port]:
        """The gradients of a scale's step: divided by it, fed, or out of an accumulator."""
        return {
            port
            for port in self._sources
            if scale in self._body.sources.get(port, frozenset((scale,)))
        }

    def _scales_of_readers(self, updates: Dict[str, FrozenSet[str]]) -> Dict[str, Set[str]]:
        """The scales of the updates that read a variable, directly or through a copy, by variable.

        The powers of an optimizer's decay belong to its updates.
        """
        found: Dict[str, Set[str]] = {}
        for update, scales in updates.items():
            for port in self._view.inputs(update):
                copied = self._view.nodes[port.node].op in READS
                for read in (port, *(self._view.inputs(port.node) if copied else ())):
                    found.setdefault(read.node, set()).update(scales)
        return found

    def _look_at_company(self, updates: AbstractSet[str]) -> None:
        """Writes that run before an update or beside it, never without it, and are not skipped."""
        sides, ends = self._sides, self._body.ends
        known = sides.after.state.collected(tf.GraphKeys.GLOBAL_VARIABLES)
        if sides.before.function or known is None:
            return
        others = {*self._flags, *self.counted, *self._inside, *self.behind_loops}
        for name in sorted(ends.only_with(updates) & set(self._writes) - others):
            if sides.after.state.written(name) <= known and any(
                ends.runs_with(name, other) and self._is_alike(name, other) for other in updates
            ):
                self._ungated(name, "runs only with updates that are skipped, and is not")

    def _is_alike(self, name: str, other: str) -> bool:
        """Whether two nodes of the original are in one loop and on one side of conditionals."""
        before = self._sides.before
        return all(
            found.get(name) == found.get(other) for found in (before.frames, before.conditions)
        )

    def _ungated(self, name: str, text: str) -> None:
        """A write that isn't skipped: the global step may count on."""
        node = self._view.nodes[name]
        if kind(node.op) or "Accumulator" in node.op or name in self._handling:
            return
        values = [port for port in self._view.inputs(name)[1:] if self._sides.after.is_float(port)]
        if not values and (self._counts_steps(name) or self._has_accumulators):
            self.counted.append(name)
        else:
            self.faults.append(Fault(name, text))

    @once
    def _handling(self) -> Set[str]:
        """Nodes made of the model's own tests of gradients, such as a count of bad ones.

        What a switch passes on is not made of its predicate.
        """
        view, kept = self._view, self._sides.before.view.nodes
        readers = [c.node for port in self._sources for c in view.consumers(port.node)]
        read = view.followed(readers, lambda name: name in kept)
        return reached(
            {name for name in read if name in kept and kept[name].op in FINITE_TESTS},
            lambda name: [
                reader.node
                for reader in view.consumers(name)
                if not (reader.slot and view.nodes[reader.node].op in SWITCHES)
            ],
            lambda name: name in kept,
        )

    def _look_at_flags(self) -> None:
        """Check that a scale's flag looks at nothing but gradients of its own step."""
        products = self._body.erasure.products()
        for scale in self._scales.dynamic:
            own = self._gradients_of(scale.name)
            # a seed's scale may cancel on the way, as in the sign of a gradient: no division then
            own |= {port for port, name in products.items() if name == scale.name}
            ahead, nodes = self._reached(own, frozenset()), {port.node for port in own}
            for port in sorted(scale.checked):
                if port.node not in ahead and port.node not in nodes:
                    self.faults.append(
                        Fault(
                            port.node,
                            "is no gradient of its loss, and decides on whether a step is skipped",
                        )
                    )


def _all(flags: List[Flag]) -> Flag:
    return flags[0] if len(flags) == 1 else AllOf(tuple(flags))
