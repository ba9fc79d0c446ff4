"""Initial values: what runs the initialisers of what the scales keep."""

from __future__ import annotations

from typing import Dict, Iterable, Optional, Set

from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.verify.scales.checkpoints import Checkpoints
from graphmp.verify.scales.scales import Scales
from graphmp.verify.sides import Sides
from graphmp.verify.skips.formulas import mentioned
from graphmp.verify.skips.gates import Gates


class Initialising:
    """Whether nodes initialise whole scales."""

    def __init__(self, sides: Sides, scales: Scales, gates: Gates, checkpoints: Checkpoints):
        self._sides, self._scales, self._gates, self._checkpoints = (
            sides,
            scales,
            gates,
            checkpoints,
        )
        self._before, self._after = sides.before.view, sides.after.view

    def starts_a_part(self, name: str, original: str) -> bool:
        """Whether a node, or what stands for it, initialises a part of what the scales keep."""
        return (
            self._initialises(name, original)
            and not self._is_whole(name, original)
            and not self._is_part(name)
        )

    def _initialises(self, name: str, original: str) -> bool:
        """Whether a node initialises state of scales, or variables of the original as a group."""
        initializers = self._sides.before.state.initializers
        is_group = self._before.nodes[original].op == "NoOp" and not initializers.isdisjoint(
            self._before.controls(original)
        )
        return (is_group and bool(self._scales.initial)) or bool(
            self._initial(self._after.controls(name))
        )

    def _initial(self, names: Iterable[str]) -> Set[str]:
        found = map(self._checkpoints.initialises, names)
        return {variable for variable in found if variable in self._scales.initial}

    def _is_whole(self, node: str, name: str) -> bool:
        """Whether a node initialises whole scales, and leaves none out that it should initialise.

        It may wait for groups that initialise some of them, one for each device. An init op that
        was made ahead of a loss knows none of its variables, nor of its scale's. `name` is the
        node of the original that it stands for.
        """
        started = self._initial(self._after.ancestors([node]))
        scales = {nodes[0]: set(nodes) for nodes in self._scales.nodes_of_states() if nodes}
        whole = set().union(*(nodes for nodes in scales.values() if nodes & started))
        if started != whole or name not in self._before.nodes:
            return started == set(self._scales.initial)
        initializers = self._sides.before.state.initializers
        run = self._before.ancestors([name]) & initializers
        left = self._initialised(initializers) - self._initialised(run)
        return all(
            self._trained.get(self._scales.handles.name(Port(first, 0)) or "", set()) & left
            for first, nodes in scales.items()
            if not nodes <= started
        )

    def _initialised(self, initializers: Iterable[str]) -> Set[Optional[str]]:
        variable = self._sides.before.state.variable
        return {variable(self._before.inputs(name)[0].node) for name in initializers}

    @once
    def _trained(self) -> Dict[str, Set[Optional[str]]]:
        """The variables whose writes each scale gates, slots too, by the scale's name."""
        found: Dict[str, Set[Optional[str]]] = {}
        for write, gates in self._gates.of.items():
            variables = self._sides.before.state.written(write)
            for scale in frozenset().union(*(mentioned(gate.flag) for gate in gates)):
                found.setdefault(scale, set()).update(variables)
        return found

    def _is_part(self, name: str) -> bool:
        """Whether a node is grouped with others, one for each device, that initialise the rest."""
        groups = [
            group
            for group in self._after.control_consumers(name)
            if self._after.nodes[group].op == "NoOp"
        ]
        return bool(groups) and all(self._is_whole(group, group) for group in groups)
