"""`graphmp audit --fix`: the nodes that must stay float32 for a conversion to agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, FrozenSet, List, Optional, Sequence, Set, Tuple

from graphmp.audit.agreement import LOSSES, disagreeing, loss_difference
from graphmp.audit.audit import Audit
from graphmp.audit.measure.rows import WEIGHT_GRADIENT
from graphmp.audit.measure.tally import Tally
from graphmp.audit.options import AuditOptions
from graphmp.audit.pair.paired import PairedGraph
from graphmp.audit.pair.stepping import PairedStep, Stepper
from graphmp.audit.repair.repair import KeepRule, Repair
from graphmp.audit.repair.search import Search, SearchResult, by_scope
from graphmp.audit.run import batches_for, chosen_arithmetic, must_run
from graphmp.config import Config
from graphmp.conversion.built_graph import Identity, convert_graph
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.stages import Stages
from graphmp.feeds.batches import Batches
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.patterns import whole_names
from graphmp.policy.formats import FORMATS

ROUNDS = 3  # of searches, each on other batches
_NOBODY = Identity("", "", "")  # the source of a conversion that is only tried
MOST_COSTED = 20  # rules whose cost is counted, each by a conversion


class Fixer:
    """Repairs one conversion."""

    def __init__(
        self,
        conversion: Conversion,
        config: Config,
        options: AuditOptions,
        tolerance: float,
        progress: Callable[[int], None],
    ):
        """Nothing runs yet.

        Args:
            conversion: the one that disagrees with its original.
            config: its options.
            options: the audit's.
            tolerance: as the audit's.
            progress: receives the number of conversions tried.
        """
        self._conversion = conversion
        self._config = config
        self._options = options
        self._tolerance = tolerance
        self._progress = progress
        self._native = chosen_arithmetic(options.arithmetic) == "native"
        self._runs = 0
        self._made_up: Optional[Batches] = None
        self._last: Optional[Tuple[Config, Conversion]] = None

    def repair(self, audit: Audit) -> Repair:
        """Search, and validate the result on fresh batches."""
        scale = self._scale(audit)
        if scale:
            return self._repaired([], True, scale)
        half, passes, cut = half_nodes(self._conversion), False, False
        guess, kept = self._guess(audit, half), frozenset()  # type: List[str], FrozenSet[str]
        for number in range(ROUNDS):
            found = self._more(half, guess, kept, number + 1)
            if found.kept is None:
                return self._repaired([], False)
            kept, cut = kept.union(found.kept), cut or found.cut
            passes = self._passes(kept, (number + 1) * self._options.steps)
            if passes:
                break
        return self._repaired([node for node in half if node in kept], passes, cut=cut)

    def _more(
        self, half: Sequence[str], guess: Sequence[str], kept: FrozenSet[str], rounds: int
    ) -> SearchResult:
        """The nodes to keep besides, so that the batches of all rounds agree, the last ones first.

        A node more may also hurt: with it, errors of opposite sign no longer cancel.
        """
        firsts = [number * self._options.steps for number in reversed(range(rounds))]
        search = Search(lambda more: all(self._passes(kept | more, first) for first in firsts))
        return search.smallest(
            [node for node in by_scope(half) if node not in kept],
            [node for node in guess if node not in kept],
        )

    def _scale(self, audit: Audit) -> str:
        """The loss scale that the audit advises if vanishing gradients are the problem.

        Else empty.
        """
        vanished = any(
            finding.range.converted_norm < finding.range.norm / 2 for finding in audit.disagreeing
        )
        if not vanished or self._config.loss_scale == "dynamic" or len(audit.losses) != 1:
            return ""
        asked, self._config = (
            self._config,
            replace(self._config, loss_scale=audit.losses[0].advice.scale),
        )
        if self._passes(frozenset(), 0) and self._passes(frozenset(), self._options.steps):
            return (
                "%d" % audit.losses[0].advice.scale
                if audit.losses[0].advice.scale >= 1
                else "%g" % audit.losses[0].advice.scale
            )
        self._config = asked
        return ""

    def _repaired(
        self, kept: List[str], passes: bool, loss_scale: str = "", cut: bool = False
    ) -> Repair:
        before, after = self._conversion.report, self._converted(frozenset(kept)).report
        costed = passes and len(kept) <= MOST_COSTED
        return Repair(
            [KeepRule(node, self._lost(node) if costed else None) for node in kept],
            passes,
            self._runs,
            _half_ops(before),
            _half_ops(after),
            before["coverage"]["converted_ops"],
            after["coverage"]["converted_ops"],
            loss_scale,
            cut,
        )

    def _lost(self, node: str) -> int:
        """The number of half-precision ops that the conversion loses with a node kept."""
        after = self._converted(frozenset([node])).report
        return _half_ops(self._conversion.report) - _half_ops(after)

    def _guess(self, audit: Audit, half: Sequence[str]) -> List[str]:
        """The first nodes that overflow, vanish or aren't finite in the audit, with neighbours."""
        view = GraphView(self._conversion.original.graph_def)
        bad = {parse_input(finding.range.row.name).node for finding in audit.suspects}
        near = (
            bad
            | {port.node for name in bad for port in view.inputs(name)}
            | {c.node for name in bad for c in view.consumers(name)}
        )
        return by_scope([name for name in half if name in near])

    def _passes(self, kept: FrozenSet[str], first: int) -> bool:
        """Whether the conversion with these nodes kept agrees, from batch `first` on."""
        self._runs += 1
        paired = PairedGraph(self._converted(kept), self._native, (WEIGHT_GRADIENT,))
        tally = Tally(paired.rows, FORMATS[self._config.compute_dtype])
        skipped = 0
        with Stepper(paired) as stepper:
            stepper.begin(self._options.checkpoint)
            batches = self._batches(stepper)
            if stepper.adapts:
                with must_run(first):
                    stepper.compare(batches(first), False)
            for number in range(self._options.steps):
                with must_run(first + number):
                    step = stepper.settled(batches(first + number), True)
                    tally.add(*stepper.tables(), step.scales, step.finite)
                skipped += not all(step.finite)
                if 2 * skipped > self._options.steps or not self._losses_agree(step):
                    break
                with must_run(first + number):
                    stepper.step(batches(first + number))
            else:
                self._progress(self._runs)
                return not disagreeing(tally.ranges(), self._tolerance)
        self._progress(self._runs)
        return False

    def _batches(self, stepper: Stepper) -> Batches:
        """The batches; made-up ones depend on the original alone, and are looked for once."""
        if self._made_up is not None:
            return self._made_up
        batches = batches_for(stepper, self._conversion.original, self._options)
        self._made_up = None if self._options.data else batches
        return batches

    def _losses_agree(self, step: PairedStep) -> bool:
        return all(
            loss_difference(a, b) <= LOSSES * self._tolerance
            for a, b in zip(step.original, step.converted)
        )

    def _converted(self, kept: FrozenSet[str]) -> Conversion:
        keep = self._config.keep_float32 + tuple(whole_names(sorted(kept)))
        config = replace(self._config, keep_float32=keep)
        if self._last is None or self._last[0] != config:
            before = self._conversion.before
            self._last = (
                config,
                convert_graph(before, _NOBODY, config, Stages(lambda stage: None), [], False),
            )
        return self._last[1]


def half_nodes(conversion: Conversion) -> List[str]:
    """The main graph's nodes that became half precision, in the graph's order."""
    half: Set[str] = {
        row["node"]
        for row in conversion.report["changes"]
        if not row["body"] and row["change"].startswith("dtype of ")
    }
    return [node.name for node in conversion.original.graph_def.node if node.name in half]


def _half_ops(report: dict) -> int:
    return int(sum(report["half_ops"].values()))
