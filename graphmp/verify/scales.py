"""The loss scales of a converted graph, found by what their state machines are, not by names."""

from __future__ import annotations

import pathlib
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

from graphmp.graph.control_flow import ENTERS
from graphmp.graph.dtypes import FLOATS
from graphmp.graph.view import Port
from graphmp.verify.matcher import Bindings, Matcher, unusual
from graphmp.verify.patterns import read_templates
from graphmp.verify.sides import Sides, attribute

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
        variables: the names of its three variables: scale, good steps, skipped steps.
        values: outputs that are the scale, as a step reads it.
        checked: the outputs that its flag says to be finite.
        flags: outputs that say so once the scale has been adapted.
        parameters: flags of `graphmp convert` and their values.
    """

    variables: Tuple[str, str, str]
    values: FrozenSet[Port]
    checked: FrozenSet[Port]
    flags: FrozenSet[Port]
    parameters: Dict[str, float]

    @property
    def name(self) -> str:
        """The name of the variable that holds it."""
        return self.variables[0]


class Scales:
    """All loss scales of one body.

    Attributes:
        dynamic: those with a state.
        initial: the initial value of each variable of their states.
        nodes: the nodes that keep and adapt these.
    """

    def __init__(self, sides: Sides, matcher: Matcher):
        self._sides, self._matcher, self._view = sides, matcher, sides.after.view
        self.dynamic: List[DynamicScale] = list(self._dynamic())
        self.initial: Dict[str, float] = {}
        for scale in self.dynamic:
            self.initial.update(dict.fromkeys(scale.variables, 0.0))
            self.initial[scale.name] = scale.parameters["loss_scale_initial"]
        self.nodes = frozenset(matcher.kept) - {port.node for scale in self.dynamic for port in scale.values}

    def at(self, port: Port) -> Optional[str]:
        """Which scale an output is, cast and entered into loops or not: the name of its variable, or a number; None for anything else."""
        port = self._behind(port)
        for scale in self.dynamic:
            if port in scale.values:
                return scale.name
        number = self._matcher.scalar(port)
        if number is None or not 0 < number < float("inf") or self._sides.after.dtype(port) not in FLOATS:
            return None
        self._matcher.used.add(port.node)
        return repr(number)

    def _behind(self, port: Port) -> Port:
        while True:
            port = self._matcher.plain(port)
            node = self._view.nodes[port.node]
            constant = node.op in ENTERS and attribute(node, "is_constant").b
            cast = node.op == "Cast" and node.attr["SrcT"].type in FLOATS and node.attr["DstT"].type in FLOATS
            if port.node not in self._sides.added or not (constant or cast) or self._view.controls(port.node):
                return port
            self._matcher.used.add(port.node)
            port = self._view.inputs(port.node)[0]

    def _dynamic(self) -> Iterator[DynamicScale]:
        for name in self._view.nodes:
            if name in self._sides.added and self._view.nodes[name].op == "Assign":
                found = self._matcher.match("writes_scale", Port(name, 0))
                if found is not None:
                    whole = self._whole(found)
                    if whole is not None:
                        yield whole

    def _whole(self, found: Bindings) -> Optional[DynamicScale]:
        """The scale that an Assign is part of, if all else that belongs to it is there."""
        flags = []
        for name in self._readers(found["finite"]):
            flag = self._matcher.match("flag", Port(name, 0), found) if self._view.controls(name) else None
            if flag is not None:
                found = self._matcher.keep(flag)
                flags.append(Port(name, 0))
        values = [found["current"]]
        if "first_step" in found:
            values = [Port(name, 0) for name in self._readers(found["current"]) if self._matcher.take("in_step", Port(name, 0), found)]
        checked = self.checked(found["finite"])
        if not flags or not values or checked is None or not self._largest(found, checked):
            return None
        for variable in ("scale", "good", "skipped"):
            if not self._declared(found[variable].node, found["INITIAL"] if variable == "scale" else 0.0):
                return None
        self._matcher.keep(found)
        parameters = {flag: found[key] for key, flag in _PARAMETERS.items()}
        variables = tuple(found[key].node for key in ("scale", "good", "skipped"))
        return DynamicScale(variables, frozenset(values), checked, frozenset(flags), parameters)

    def _readers(self, port: Port) -> List[str]:
        return [c.node for c in self._view.consumers(port.node) if c.output == port.output and c.node in self._sides.added]

    def _declared(self, name: str, initial: float) -> bool:
        """Whether a variable is a scalar, and all that takes it for itself is known: its initialiser, and what was matched."""
        node = self._view.nodes[name]
        if node.op != "VariableV2" or attribute(node, "shape").shape.dim or name not in self._sides.added or unusual(node, {"shape": []}):
            return False
        self._matcher.used.add(name)
        for reader in self._readers(Port(name, 0)):
            found = self._matcher.match("initial", Port(reader, 0), {"v": Port(name, 0)})
            if found is not None and found["INITIAL"] == initial:
                self._matcher.keep(found)
        return True

    def checked(self, port: Port) -> Optional[FrozenSet[Port]]:
        """The outputs that a flag says to be finite; None where it says anything else."""
        one = self._matcher.take("finite_of", port)
        if one is not None:
            return frozenset((one["x"],))
        every = self._matcher.take("all_finite", port)
        if every is None:
            return None
        found = [self.checked(flag) for flag in every["flags"]]
        return None if None in found else frozenset().union(*found)  # type: ignore[arg-type]

    def _largest(self, found: Bindings, checked: FrozenSet[Port]) -> bool:
        """Whether what a first step looks at is the largest absolute value of outputs that always run, what is checked among them."""
        if not found.get("sizes"):
            return True
        looked = [self._of_dtype(port, found) for port in found["sizes"]]
        return None not in looked and checked <= {port for ports in looked for port in ports or ()}

    def _of_dtype(self, port: Port, found: Bindings) -> Optional[List[Port]]:
        matched = self._matcher.take("largest_of_dtype", port)
        if matched is None:
            return None
        looked = [self._of_one(each, found) for each in matched["sizes"]]
        return None if None in looked else [port for port in looked if port is not None]

    def _of_one(self, port: Port, found: Bindings) -> Optional[Port]:
        matched = self._matcher.match("largest_of_one", port, {"first_step": found["first_step"]})
        if matched is None or self._sides.after.conditions.get(matched["x"].node):
            return None
        self._matcher.keep(matched)
        return Port(*matched["x"])
