"""Faults of precision against the policy, and of averages of what a model gives."""

from __future__ import annotations

from typing import Any, Optional

from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.policy.op_sets import ADD_ASSIGNS, ASSIGNS
from graphmp.policy.policy import UNLISTED, Policy
from mutants.casts import FLOAT16, computed_in
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import FLOAT32, Subject

_PASSED = ("Cast", "Identity", "Select", "SelectV2", "Switch")
_ARITHMETIC = ("Add", "AddV2", "Maximum", "Minimum", "Mul", "RealDiv", "Sub")


def _in_half(subject: Subject, random: Any, names: Any) -> Optional[Plant]:
    nodes = subject.view.nodes
    single = [
        name
        for name in names
        if name in nodes
        and "T" in nodes[name].attr
        and nodes[name].attr["T"].type == FLOAT32
        and not subject.frame(name)
    ]
    name = pick(random, sorted(single))
    return None if name is None else computed_in(subject, name, FLOAT16)


@fault
def denied_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op of the model that the policy keeps in float32 computes in float16."""
    code, denied = gradient_nodes(subject.before), Policy.default("float16").deny
    nodes = subject.before.nodes
    names = [name for name in nodes if nodes[name].op in denied and name not in code]
    return _in_half(subject, random, names)


@fault
def average_of_a_model_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """The difference between an average and what a model gives is half precision."""
    nodes = subject.view.nodes
    found = set()
    for write in subject.writes:
        if nodes[write].op not in ASSIGNS | ADD_ASSIGNS:
            continue
        through = {name for name in nodes if nodes[name].op in _ARITHMETIC + _PASSED} | {write}
        behind = subject.view.traced([write], through.__contains__)
        for variable in subject.state.written(write):
            ahead = subject.view.descendants([variable], control=False)
            found |= {name for name in behind & ahead if nodes[name].op in _ARITHMETIC}
    return _in_half(subject, random, found & subject.before.nodes.keys())


@fault
def unlisted_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op on no list computes in float16."""
    policy, nodes = Policy.default("float16"), subject.before.nodes
    names = [name for name in nodes if policy.category(nodes[name].op) == UNLISTED]
    return _in_half(subject, random, names)
