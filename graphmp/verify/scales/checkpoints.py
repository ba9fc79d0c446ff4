"""Initialisers of the loss scales, and the nodes by which a Saver saves and restores them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from graphmp.graph.io.messages import parse
from graphmp.graph.structure.values import strings
from graphmp.graph.structure.view import Port, parse_input
from graphmp.policy.op_sets import RESTORES
from graphmp.verify.scales.scales import Scales
from graphmp.verify.sides import Sides
from graphmp.verify.structure.matcher import Matcher


class Checkpoints:
    """Recognises additions to Savers and init ops."""

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales):
        self._sides, self._matcher, self._initial = sides, matcher, scales.initial
        self._before, self._after = sides.before.view, sides.after.view

    def compare_saves(self, name: str, same: Callable[[Port, Port], bool]) -> None:
        """Report a SaveV2 that saves anything but the original's tensors and variables of scales.

        Args:
            name: the node.
            same: tells whether an output of the converted graph has the value of one of the
                original.
        """
        old, new = self._before.inputs(name), self._after.inputs(name)
        (old_names, new_names), (old_slices, new_slices) = (
            [
                strings(view.nodes[ports[slot].node])
                for view, ports in ((self._before, old), (self._after, new))
            ]
            for slot in (1, 2)
        )
        count = len(old_names)
        values, more = (
            new[3 : 3 + count],
            zip(new_names[count:], new_slices[count:], new[3 + count :]),
        )
        as_before = (
            new_names[:count] == old_names
            and new_slices[:count] == old_slices
            and len(new_names) == len(new_slices) == len(new) - 3
        )
        if not as_before or not all(
            same(n, o) for n, o in zip([new[0], *values], [old[0], *old[3:]])
        ):
            self._sides.fault(
                name, "saves something else, or under other names, than in the original"
            )
            return
        self._matcher.used.update(port.node for port in new[1:3])
        for text, shape_and_slice, port in more:
            if shape_and_slice or not self._is_saved(text, port):
                self._sides.fault(
                    name,
                    "saves %s under the name %s, which is no variable of a loss scale"
                    % (port, text),
                )

    def _is_saved(self, name: str, port: Port) -> bool:
        found = self._named(name)
        if found is None:
            return False
        variable = Port(found, 0)
        return (
            self._matcher.plain(port) == variable
            or self._matcher.take("read_as_it_is", port, {"v": variable}) is not None
            or self._matcher.take("saved", port, {"v": variable, "INITIAL": self._initial[found]})
            is not None
        )

    def _named(self, text: str) -> Optional[str]:
        """The variable of a scale that has a name in a checkpoint: its own, maybe below others."""
        if text in self._initial:
            return text
        return next((name for name in self._initial if text.endswith("/" + name)), None)

    def initialises(self, name: str) -> Optional[str]:
        """The variable that an added node initialises; None for other nodes."""
        found = self._matcher.match("initial", Port(name, 0)) if name in self._sides.added else None
        return found["v"].node if found is not None else None

    def is_init_op(self, name: str) -> bool:
        """Whether a node of the original groups initialisers and waits for no write of a step."""
        if self._before.nodes[name].op != "NoOp":
            return False
        state, before = self._sides.before.state, self._before.ancestors([name])
        return bool(before & state.initializers) and not before.intersection(state.writes)

    def listed(self, name: str) -> str:
        """The variable of a scale that a named tensor is or reads; else the tensor's node."""
        port = parse_input(name)
        for variable, number in self._initial.items() if port.node in self._sides.added else ():
            if (
                self._matcher.take("saved", port, {"v": Port(variable, 0), "INITIAL": number})
                is not None
            ):
                return variable
        return port.node

    def described(self, data: bytes) -> Optional[str]:
        """The variable of a scale that a VariableDef describes correctly; else None."""
        found = parse("tensorflow.VariableDef", data)
        names = (
            []
            if found is None
            else [
                found.variable_name,
                found.initializer_name,
                found.snapshot_name,
                found.initial_value_name,
            ]
        )
        ports = [parse_input(name) for name in names if parse_input(name).node in self._sides.added]
        if (
            len(ports) != 4
            or ports[0] != Port(ports[0].node, 0)
            or ports[0].node not in self._initial
        ):
            return None
        variable, initializer, snapshot, value = ports
        number = self._initial[variable.node]
        is_set = (
            self._matcher.match("initial", initializer, {"v": variable, "INITIAL": number})
            is not None
        )
        is_read = (
            self._matcher.plain(snapshot) == variable
            or self._matcher.take("read_as_it_is", snapshot, {"v": variable}) is not None
        )
        is_set = is_set and self._matcher.scalar(value) == number
        return variable.node if is_set and is_read and self._is_plain(found) else None

    def _is_plain(self, definition: Any) -> bool:
        """Whether a VariableDef is that of a whole variable of its kind, and not trainable."""
        variable = self._after.nodes[parse_input(definition.variable_name).node]
        return (
            not definition.trainable
            and not definition.HasField("save_slice_info_def")
            and definition.is_resource == (variable.op == "VarHandleOp")
        )

    def restores(self, name: str, extra: str) -> bool:
        """Whether an added node restores the scales from the model's checkpoint."""
        return self._restores_one(name, extra) or self._restores_what_is_there(name, extra)

    def _restores_one(self, name: str, extra: str) -> bool:
        """Whether it restores a variable of a scale as a Saver does others."""
        found = self._matcher.match("restored", Port(extra, 0))
        if found is None or found["v"].node not in self._initial:
            return False
        value = self._matcher.plain(found["value"])
        stored = self._matcher.match("stored", Port(value.node, 0))
        if stored is None or not self._is_prefix(name, stored["prefix"]):
            return False
        names, slices = (
            strings(self._after.nodes[stored[key].node]) for key in ("names", "slices")
        )
        stands = [self._named(text) for text in names[value.output :][:1]]
        if stands != [found["v"].node] or any(slices):
            return False
        if len(self._after.consumers(value.node)) < len(names):
            return False  # something is read from the checkpoint, and not restored
        self._matcher.keep(found)
        self._matcher.keep(stored)
        self._matcher.used.update(stored[key].node for key in ("names", "slices"))
        return True

    def _restores_what_is_there(self, name: str, extra: str) -> bool:
        found = self._matcher.match("restores", Port(extra, 0))
        if found is None or not self._is_prefix(name, found["prefix"]):
            return False
        self._matcher.keep(found)
        fresh = [self._matcher.take("fresh", port, found) for port in found["fresh"]]
        if any(
            match is None or self._initial.get(match["v"].node) != match["FIRST"] for match in fresh
        ):
            return False
        variables = sorted(match["v"].node for match in fresh if match is not None)
        return (
            bool(variables)
            and self._is_pattern_of(found["PATTERN"], variables[0])
            and self._kept(found) == variables
        )

    def _is_pattern_of(self, pattern: str, variable: str) -> bool:
        """Whether a regular expression finds a variable's name in the index of a checkpoint."""
        inner = pattern[3:-3]
        return pattern == "\\C*%s\\C*" % inner and bool(inner) and variable.endswith(inner)

    def _kept(self, found: Dict[str, Any]) -> Optional[List[str]]:
        """The variables that are restored by their own names."""
        variables = [self._variable(port, found) for port in found["kept"]]
        return None if None in variables else sorted(filter(None, variables))

    def _variable(self, port: Port, found: Dict[str, Any]) -> Optional[str]:
        match = self._matcher.match("kept", port, found)
        values = (
            self._matcher.match("values", Port(match["value"].node, 0), found)
            if match is not None
            else None
        )
        if match is None or values is None or not self._is_scalar(match["shape"]):
            return None
        names, slices = (
            strings(self._after.nodes[values[key].node]) for key in ("names", "slices")
        )
        constants = (match["shape"], values["names"], values["slices"])
        variable: str = match["v"].node
        if (
            names[match["value"].output :][:1] != [variable]
            or any(slices)
            or not all(self._runs_there(each, found) for each in constants)
        ):
            return None
        self._matcher.keep(match)
        self._matcher.keep(values)
        self._matcher.used.update(each.node for each in constants)
        return variable

    def _runs_there(self, constant: Port, found: Dict[str, Any]) -> bool:
        """Whether a constant runs only if a checkpoint has the scales."""
        controls = self._after.controls(constant.node)
        return (
            len(controls) == 1
            and self._matcher.match("there_alone", Port(controls[0], 0), found) is not None
        )

    def _is_scalar(self, shape: Port) -> bool:
        value = self._matcher.constant(shape)
        return value is not None and value.size == 0

    def _is_prefix(self, name: str, prefix: Port) -> bool:
        """Whether a node's own restore ops read the same checkpoint."""
        restores = [
            n for n in self._before.ancestors([name]) if self._before.nodes[n].op in RESTORES
        ]
        return any(self._before.inputs(n)[0] == prefix for n in restores)
