"""Variables that a skipped step of a converted graph may change, by the edges of that graph.

1. The state of loss scales.
2. Writes before the loss's flag, which depends on them: of finite values, all of one flag or none.
3. Integers that count steps: behind gradients taken out of accumulators, or the global step if
   skipped steps are counted.
4. Variables outside the model's state (no global variable), and those that something other than
   training also writes.
5. Variables trained by another loss, or written after that loss's update, if only one of them
   overflows.
6. Sums of gradients, where a write begins one: it writes zeros.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.executed.scales import Dynamic, FoundScales
from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.dtypes import BOOL, FLOATS


class Allowed:
    """The writes of a step of a converted graph, and their dependencies."""

    def __init__(self, found: FoundScales, train: Iterable[str], counts_skipped: bool):
        """Computes everything on demand.

        Args:
            found: the graph, with its scales.
            train: the ops of a step.
            counts_skipped: whether the global step counts skipped steps.
        """
        self._found, self._side, self._view, self._state = (
            found,
            found.after,
            found.after.view,
            found.after.state,
        )
        self._train = list(train)
        self._runs = {name: self._view.ancestors([name]) for name in self._train}
        self._step = set().union(*self._runs.values())
        self._counts_skipped = counts_skipped
        self.own = frozenset(name for scale in found.dynamic for name in scale.variables)

    @once
    def writes(self) -> List[str]:
        """The writes of a step."""
        return [name for name in self._state.writes if name in self._step]

    def writers(self, variable: str) -> List[str]:
        """The writes of a variable in a step."""
        return [name for name in self.writes if variable in self._state.written(name)]

    def before_flags(self, scales: Sequence[Dynamic]) -> Set[str]:
        """The variables of rule 2.

        Written before the flags of these scales, not by their gradients.
        """
        taking = set().union(*(self._taking[scale.variables[0]] for scale in scales))
        ahead = self._view.ancestors({port.node for scale in scales for port in scale.checked})
        return (
            self._variables(name for name in self.writes if name in ahead and name not in taking)
            - self.own
        )

    def other_runs(self, scales: Sequence[Dynamic]) -> Set[str]:
        """The variables that runs without gradients of these scales write."""
        return self._variables(
            set(self.writes) - self._run_with({scale.variables[0] for scale in scales})
        )

    def unchanged(self, scales: Sequence[Dynamic]) -> Set[str]:
        """The variables that must not change if gradients of these scales are infinite."""
        names = {scale.variables[0] for scale in scales}
        others = [
            scale.variables[0] for scale in self._found.dynamic if scale.variables[0] not in names
        ]
        taking = set().union(*(self._taking[name] for name in names)) - set().union(
            *(self._taking[name] for name in others)
        )
        wanted = self._run_with(names)
        if others:
            after = set().union(*(self._behind[name] for name in names)) - set().union(
                *(self._behind[name] for name in others)
            )
            wanted = {name for name in wanted if name in taking or name in after}
        free = (
            self.before_flags(scales) | self._counters() | self._no_state() | self._run_by_others()
        )
        free -= self._variables(name for name in taking if not self._is_counter(name))
        free |= self._variables(self._found.begun)
        return (
            self._variables(wanted) - free - self.own - self._variables(set(self.writes) - wanted)
        )

    def _run_with(self, scales: AbstractSet[str]) -> Set[str]:
        """The writes of the runs in which gradients of some scales occur."""
        sources = {name for scale in scales for name in self._sources[scale]}
        return {
            name
            for run in self._runs.values()
            if not sources.isdisjoint(run)
            for name in self.writes
            if name in run
        }

    @once
    def _taking(self) -> Dict[str, Set[str]]:
        """For each scale the writes that its gradients reach by data, not through other writes."""
        return {
            scale: self._reached(nodes) & set(self.writes) for scale, nodes in self._sources.items()
        }

    @once
    def _behind(self) -> Dict[str, Set[str]]:
        """For each scale the descendants of its gradients."""
        return {scale: self._view.descendants(nodes) for scale, nodes in self._sources.items()}

    @once
    def _sources(self) -> Dict[str, List[str]]:
        """For each scale the ancestors of its gradients."""
        return {
            scale.variables[0]: [source.node for source in self._found.sources(scale)]
            for scale in self._found.dynamic
        }

    def _reached(self, starts: Iterable[str]) -> Set[str]:
        """Nodes that depend on some nodes by data, without flags and a variable's later values."""
        seen: Set[str] = set()
        waiting = list(starts)
        writes = set(self.writes)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in writes:
                waiting += [
                    c.node
                    for c in self._view.consumers(name)
                    if self._side.dtype(Port(name, c.output)) != BOOL
                ]
        return seen

    def _variables(self, writes: Iterable[str]) -> Set[str]:
        return {variable for name in writes for variable in self._state.written(name)}

    def _counters(self) -> Set[str]:
        return self._variables(name for name in self.writes if self._is_counter(name))

    def _is_counter(self, name: str) -> bool:
        """Rule 3."""
        whole = all(self._dtype(variable) not in FLOATS for variable in self._state.written(name))
        if not whole:
            return False
        if self._counts_skipped and self._state.written(name) & self._global_steps:
            return True
        return any(
            "Accumulator" in self._view.nodes[other].op for other in self._view.ancestors([name])
        )

    @once
    def _global_steps(self) -> AbstractSet[str]:
        listed = self._state.collected(tf.GraphKeys.GLOBAL_STEP) or set()
        return set(listed) | {
            name for name in self._view.nodes if name.rpartition("/")[2] == "global_step"
        }

    def _no_state(self) -> Set[str]:
        listed = self._state.collected(tf.GraphKeys.GLOBAL_VARIABLES)
        return set() if listed is None else self._variables(self.writes) - set(listed)

    def _run_by_others(self) -> Set[str]:
        """Variables with a write that depends on no gradient and isn't only used by training."""
        trained = set().union(*self._behind.values())
        ends = trained | self._view.ancestors(self._train)
        found = []
        for name in self.writes:
            if name not in trained:
                after = self._view.descendants([name])
                last = [
                    n
                    for n in after
                    if not self._view.consumers(n) and not self._view.control_consumers(n)
                ]
                found += [name] * any(n not in ends and not self._state.variable(n) for n in last)
        return self._variables(found)

    def _dtype(self, variable: str) -> int:
        node = self._view.nodes[variable]
        return int(node.attr["dtype"].type) if "dtype" in node.attr else 0
