"""Skipping in a serialised graph: writes without effect unless a flag is true.

Nothing else may be missing in a skipped step.

1. A write that has a neutral value takes it (`neutral_values.py`).
2. Any other write is dead, if nothing needs its results or something else can provide them
   (`dead_writes.py`).
3. A conditional of functions whose results are read takes its other branch, if that has no effect.
4. Any other write that returns results that nothing else can provide has no gate, and is reported.
5. Values that a step takes from the batch are checked themselves: they are written if all values
   that are written together are finite (`finite_values.py`).
6. A histogram of gradients reads 0 in place of values that aren't finite.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.quiet import quiet_branch
from graphmp.graph.structure.calls import BRANCHES, functions_by_name
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BOOL
from graphmp.policy.reason import FINITE_CHECK, SKIP_GATE, Reason
from graphmp.scaling.gates.dead_writes import DeadWrites
from graphmp.scaling.gates.finite_values import FINITE, OWN_SCOPE, FiniteValues
from graphmp.scaling.gates.neutral_values import NeutralValues, neutral
from graphmp.scaling.gates.write_editor import WriteEditor
from graphmp.scaling.losses.training_graph import TrainingGraph

_SELECTED = Reason(SKIP_GATE, "the old value unless the gradients are finite")
_BEGUN = Reason(SKIP_GATE, "zeros unless the gradients are finite")
_QUIET = Reason(SKIP_GATE, "the branch without effects unless the gradients are finite")
_SHOWN = Reason(FINITE_CHECK, "a histogram takes 0 for what is not finite")
# Why a write isn't gated.
IMPOSSIBLE = (
    "a skipped step runs it all the same: other nodes read its results, and nothing can stand in"
    " for them"
)


class GateInsertion:
    """Inserts gates into one graph.

    Attributes:
        impossible: writes that can't be gated, because their results would be missing.
    """

    def __init__(self, editor: Editor, graph: TrainingGraph):
        """`editor` edits the graph that `graph` describes."""
        self._editor, self._graph = editor, graph
        self._writes = WriteEditor(editor, graph)
        self._values = NeutralValues(self._writes)
        self._dead = DeadWrites(self._writes, self._values)
        self._finite = FiniteValues(self._writes)
        self._library = functions_by_name(graph.meta_graph.graph_def)
        self.impossible: List[str] = []

    def by_flag(self, name: str, flag: Port, begins: bool = False) -> None:
        """Gate a write by a flag, a scalar bool; one that begins a sum writes zeros instead."""
        scope = "%s/skip/%s" % (flag.node.rsplit("/", 1)[0], name)
        if begins:
            self._values.zeros_unless(name, flag, scope, _BEGUN)
        else:
            self._gate(name, flag, scope, _SELECTED)

    def by_flag_and_value(self, name: str, flag: Port, groups: Sequence[Tuple[str, ...]]) -> None:
        """Gate a write by a flag, and by whether all values that groups of writes take are finite.

        The first group is its own; others may lie in branches in which it doesn't.
        """
        self.by_flag(name, self._finite.both(flag, self._finite.for_write(name, groups), name))

    def by_value(self, name: str, groups: Sequence[Tuple[str, ...]]) -> None:
        """Gate a write by whether all values that groups of writes take are finite; the same."""
        flag = self._finite.for_write(name, groups)
        self._gate(name, flag, "%s/%s" % (OWN_SCOPE, name), FINITE)

    def all_finite(self, names: Tuple[str, ...]) -> Port:
        """Whether all values that some writes take are finite; before any of them is gated."""
        return self._finite.all_finite(names)

    def in_loop(self, name: str) -> None:
        """Write each element only if it is finite.

        The values of a loop leave it only at its end.
        """
        law = neutral(self._graph.view.nodes[name].op)
        if law is None or not self._graph.is_float(self._graph.view.inputs(name)[law.slot]):
            self.impossible.append(name)
            return
        finite = self._finite.each(name, law.slot)
        self._values.unless_each(name, finite, "%s/%s" % (OWN_SCOPE, name), FINITE)

    def histogram(self, name: str) -> None:
        """Replace values that aren't finite by 0 for a HistogramSummary.

        Its kernel refuses them, which would end the run in a step that is to be skipped.
        """
        value, scope = self._writes.now(name, 1), "graphmp/histograms/" + name
        dtype, add = self._writes.dtype(name, 1), self._writes.add
        finite = add(scope + "/is_finite", "IsFinite", [value], name, _SHOWN, T=dtype)
        zeros = add(scope + "/zeros", "ZerosLike", [value], name, _SHOWN, T=dtype)
        either = [finite, value, zeros]
        shown = add(scope + "/selected", "Select", either, name, _SHOWN, T=dtype)
        self._editor.connect(name, 1, shown)

    def all_of(self, flags: List[Port]) -> Port:
        """The conjunction of flags."""
        result = flags[0]
        for flag in flags[1:]:
            name = flags[0].node.rsplit("/", 1)[0] + "/skip/all"
            reason = Reason(SKIP_GATE, "a step of several losses")
            result = self._editor.add(name, "LogicalAnd", [result, flag], reason)
        return result

    def any_of(self, flags: List[Port]) -> Port:
        """The disjunction of flags."""
        result = flags[0]
        for flag in flags[1:]:
            name, reason = "graphmp/loss_scale/skip/any", "one of the losses trains"
            result = self._editor.add(name, "LogicalOr", [result, flag], Reason(SKIP_GATE, reason))
        return result

    def finish(self) -> None:
        """Make what lives in place of writes that die, once all are gated."""
        self._dead.finish()

    def _gate(self, name: str, flag: Port, scope: str, reason: Reason) -> None:
        if neutral(self._graph.view.nodes[name].op) is not None:
            self._values.unless(name, flag, scope, reason)
        elif self._dead.may_die(name):
            self._dead.unless(name, flag, scope)
        elif self._quiet_side(name):
            self._take_quiet_side(name, flag, scope)
        else:
            self.impossible.append(name)

    def _quiet_side(self, name: str) -> str:
        """The one branch of a conditional of functions that has no effect; else empty."""
        node = self._graph.view.nodes[name]
        quiet = quiet_branch(node, self._library, self._graph.op_defs.get)
        return quiet if quiet and self._graph.dtype(self._writes.now(name, 0)) == BOOL else ""

    def _take_quiet_side(self, name: str, flag: Port, scope: str) -> None:
        """Let a conditional take the branch that has no effect unless a flag is true."""
        predicate, op, add = self._writes.now(name, 0), "LogicalAnd", self._writes.add
        if self._quiet_side(name) == BRANCHES[0]:
            flag, op = add(scope + "/skipped", "LogicalNot", [flag], name), "LogicalOr"
        taken = add(scope + "/taken", op, [flag, predicate], name, _QUIET)
        self._editor.connect(name, 0, taken)
