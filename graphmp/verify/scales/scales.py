"""The loss scales of a converted graph, found by their state machines, not by names."""

from __future__ import annotations

import pathlib
from typing import Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Set

from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import FLOAT32, FLOATS, INT32, INT64
from graphmp.policy.op_sets import ENTERS, OVERWRITES
from graphmp.verify.scales.checks import Checks
from graphmp.verify.scales.handles import DynamicState, Handles, of_argument
from graphmp.verify.sides import Sides, attribute
from graphmp.verify.structure.calls import BodyCalls
from graphmp.verify.structure.matcher import Bindings, Matcher
from graphmp.verify.structure.patterns import read_templates

TEMPLATES = read_templates(pathlib.Path(__file__).resolve().parent / "templates.txt")
_PARAMETERS = {
    "INITIAL": "loss_scale_initial",
    "MIN": "loss_scale_min",
    "GROWTH": "loss_scale_growth_factor",
    "BACKOFF": "loss_scale_backoff_factor",
    "INTERVAL": "loss_scale_growth_interval",
}


class DynamicScale(NamedTuple):
    """A dynamic loss scale.

    Attributes:
        state: its variables, by the names of handles.py.
        values: outputs that are the scale, as read in a step.
        checked: the outputs that its flag checks.
        flags: outputs that are the flag, after the scale has been adapted.
        finite: the output that is the flag, before that.
        adapted: the nodes that wait for the scale's update.
        parameters: flags of `graphmp convert` and their values.
    """

    state: DynamicState
    values: FrozenSet[Port]
    checked: FrozenSet[Port]
    flags: FrozenSet[Port]
    finite: Port
    adapted: FrozenSet[str]
    parameters: Dict[str, float]

    @property
    def name(self) -> str:
        """The name of the variable that holds it."""
        return self.state.variables[0]


class Scales:
    """All loss scales of one body.

    Attributes:
        handles: the variables that it refers to.
        checks: what its flags check.
        dynamic: those that it adapts.
        states: their states, and those of functions that it calls.
        skipping: the calls of functions that skip steps, with the names of their scales.
        adapting: the names of these scales, and of those that the body is given.
        initial: the initial values of their variables that belong to the body, by node.
        variables: all nodes that refer to their variables.
        nodes: the nodes that store and adapt them.
    """

    def __init__(self, sides: Sides, matcher: Matcher, calls: BodyCalls):
        self._sides, self._matcher, self._calls, self._view = (
            sides,
            matcher,
            calls,
            sides.after.view,
        )
        self.handles = Handles(sides, matcher)
        self.checks = Checks(sides, matcher, calls)
        self.initial: Dict[str, float] = {}
        self.dynamic: List[DynamicScale] = list(self._dynamic())
        self.skipping: Dict[str, Set[str]] = {}
        self.states = self._all_states()
        names = frozenset(name for state in self.states for name in state.variables)
        self.variables = self.handles.nodes(names)
        self.adapting = {state.variables[0] for state in self.states}
        self.adapting |= {
            of_argument(name)
            for name in sides.more_arguments
            if sides.after.is_float(Port(name, 0))
        }
        if not sides.after.function:
            self._declare()
        self.nodes = frozenset(matcher.kept) - {
            port.node for scale in self.dynamic for port in scale.values
        }

    def _all_states(self) -> List[DynamicState]:
        """The state of the scales of the body, and of called functions that it is passed to."""
        found = [scale.state for scale in self.dynamic]
        for call in self._calls:
            for function in call.functions:
                bound = self._calls.bound(call, function)
                names = {of_argument(name): self.handles.name(port) for name, port in bound.items()}
                for state in function.states:
                    variables = tuple(str(names.get(name, name)) for name in state.variables)
                    found.append(DynamicState(variables, state.initial))  # type: ignore[arg-type]
                    self.skipping.setdefault(call.name, set()).add(variables[0])
        return list(dict.fromkeys(found))

    def _declare(self) -> None:
        """Find the variables of the main graph that are used by handles.

        Each has one role in one scale.
        """
        seen: Set[str] = set()
        for state in self.states:
            for place, name in enumerate(state.variables):
                initial = state.initial if place == 0 else 0.0
                own = [
                    node
                    for node in self.handles.named(name)
                    if not self._sides.after.frames.get(node)
                ]
                if name in seen or len(own) != 1 or not self._declared(own[0], initial):
                    self._sides.fault(
                        name,
                        "is handed on as a variable of a loss scale, and is none, or of several",
                    )
                else:
                    self.initial[own[0]] = initial
                seen.add(name)

    def nodes_of_states(self) -> List[List[str]]:
        """The nodes of the variables of each scale."""
        return [
            [
                node
                for name in state.variables
                for node in self.handles.named(name)
                if node in self.initial
            ]
            for state in self.states
        ]

    def named_at(self, name: str, bound: Mapping[str, Port]) -> Optional[str]:
        """The name in this body of a function's scale. `bound`: the inputs of the function."""
        port = next(
            (port for argument, port in bound.items() if of_argument(argument) == name), None
        )
        if port is None:
            return name
        return self.at(port) if self._sides.after.is_float(port) else self.handles.name(port)

    def at(self, port: Port) -> Optional[str]:
        """The scale that an output is, also cast or in loops: its variable's name, or a number.

        Or None.
        """
        port = self._behind(port)
        for scale in self.dynamic:
            if port in scale.values:
                return scale.name
        if port.node in self._sides.more_arguments and self._sides.after.is_float(port):
            return of_argument(port.node)
        number = self._matcher.scalar(port)
        if (
            number is None
            or not 0 < number < float("inf")
            or self._sides.after.dtype(port) not in FLOATS
        ):
            return None
        self._matcher.used.add(port.node)
        return repr(number)

    def _behind(self, port: Port) -> Port:
        while True:
            port = self._matcher.plain(port)
            node = self._view.nodes[port.node]
            constant = node.op in ENTERS and attribute(node, "is_constant").b
            enters = constant and port.node in self._sides.added
            if self._view.controls(port.node) or not (enters or self._sides.is_cast(port.node)):
                return port
            self._matcher.used.add(port.node)
            port = self._view.inputs(port.node)[0]

    def _dynamic(self) -> Iterator[DynamicScale]:
        for name in self._view.nodes:
            if name in self._sides.added and self._view.nodes[name].op in OVERWRITES:
                found = self._matcher.match("writes_scale", Port(name, 0))
                if found is not None:
                    found["writes_scale"] = Port(name, 0)
                    whole = self._whole(found)
                    if whole is not None:
                        yield whole

    def _whole(self, found: Bindings) -> Optional[DynamicScale]:
        """The scale that an Assign is part of, if it is complete."""
        adapted = []
        for name in self._view.control_consumers(found["writes_scale"].node):
            match = self._matcher.take("adapted", Port(name, 0), found)
            if match is not None:
                found = match
                adapted.append(name)
        flags = [
            Port(name, 0)
            for name in self._sides.added_readers(found["finite"])
            if self._is_flag(name, found)
        ]
        values = self._values(found)
        checked = self.checks.of(found["finite"])
        state = self._state(found)
        if (
            state is None
            or not self._has_types(found)
            or not adapted
            or not values
            or checked is None
            or not self._largest(found, checked)
        ):
            return None
        self._matcher.keep(found)
        parameters = {flag: found[key] for key, flag in _PARAMETERS.items()}
        return DynamicScale(
            state,
            frozenset(values),
            checked,
            frozenset(flags),
            found["finite"],
            frozenset(adapted),
            parameters,
        )

    def _values(self, found: Bindings) -> List[Port]:
        """The outputs that a step reads as the scale; a first step has others."""
        if "first_step" not in found:
            return [found["current"]]
        return [
            Port(name, 0)
            for name in self._sides.added_readers(found["current"])
            if self._matcher.take("in_step", Port(name, 0), found)
        ]

    def _state(self, found: Bindings) -> Optional[DynamicState]:
        """The three variables of a scale's state; None if something else is used as one."""
        names = [self.handles.name(found[key]) for key in ("scale", "good", "skipped")]
        if None in names or len(set(names)) < len(names):
            return None
        self._matcher.used.update(found[key].node for key in ("scale", "good", "skipped"))
        return DynamicState(tuple(map(str, names)), found["INITIAL"])  # type: ignore[arg-type]

    def _has_types(self, found: Bindings) -> bool:
        """Whether a scale is float32, which holds all its values, and whole numbers count."""
        good = self._sides.after.dtype(found["new_good"])
        return self._sides.after.dtype(found["current"]) == FLOAT32 and good in (INT32, INT64)

    def _is_flag(self, name: str, found: Bindings) -> bool:
        """Whether a node has the value of a flag after the scale has been adapted."""
        return (
            bool(self._view.controls(name))
            and self._matcher.take("flag", Port(name, 0), found) is not None
        )

    def _declared(self, name: str, initial: float) -> bool:
        """Whether a variable is a scalar whose uses are all known: its initialiser, and matches."""
        if (
            self._view.controls(name)
            or self.handles.is_the_models(name)
            or attribute(self._view.nodes[name], "shared_name").s not in (b"", name.encode())
        ):
            return False
        self._matcher.used.add(name)
        for reader in self._sides.added_readers(Port(name, 0)):
            found = self._matcher.match("initial", Port(reader, 0), {"v": Port(name, 0)})
            if found is not None and found["INITIAL"] == initial:
                self._matcher.keep(found)
        return True

    def _largest(self, found: Bindings, checked: FrozenSet[Port]) -> bool:
        """Whether a first step measures the largest absolute value of outputs that always run.

        What is checked must be among them.
        """
        if found.get("sizes_taken"):
            return self._taken(found, checked)
        if not found.get("sizes"):
            return True
        looked = [self._of_dtype(port, found) for port in found["sizes"]]
        return None not in looked and self._to_look_at(checked, found) <= {
            self._behind(port) for ports in looked for port in ports or ()
        }

    def _to_look_at(self, checked: FrozenSet[Port], found: Bindings) -> Set[Port]:
        """Those of some outputs that a first step must measure, before their casts."""
        return set(map(self._behind, self.checks.beside(checked, found["finite"])))

    def _taken(self, found: Bindings, checked: FrozenSet[Port]) -> bool:
        """The same, if all measured outputs are in one branch."""
        looked: Set[Port] = set()
        for port in found["sizes_taken"]:
            matched = self._matcher.match(
                "largest_taken", port, {"first_step": found["first_step"]}
            )
            matched = matched or self._matcher.match(
                "least", port, {"first_step": found["first_step"]}
            )
            if matched is None or (
                "x" in matched and not self.checks.lives_with(matched["x"], found["finite"])
            ):
                return False
            self._matcher.keep(matched)
            looked.update([matched["x"]] if "x" in matched else [])
        return self._to_look_at(checked, found) <= set(map(self._behind, looked))

    def _of_dtype(self, port: Port, found: Bindings) -> Optional[List[Port]]:
        matched = self._matcher.take("largest_of_dtype", port, {"first_step": found["first_step"]})
        if matched is None:
            return None
        looked = [self._of_one(each, found) for each in matched["sizes"]]
        return None if None in looked else [port for ports in looked for port in ports or ()]

    def _of_one(self, port: Port, found: Bindings) -> Optional[FrozenSet[Port]]:
        """The outputs that one size is of: of one, or of several that are joined."""
        matched = self._matcher.match("largest_of_one", port, {"first_step": found["first_step"]})
        if matched is None or not self.checks.lives_with(matched["x"], found["finite"]):
            return None
        self._matcher.keep(matched)
        joined = self._matcher.match("rows_of", matched["x"])
        return frozenset((matched["x"],)) if joined is None else self.checks.of_row(matched["x"])
