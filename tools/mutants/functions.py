"""Faults in the bodies of functions."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Tuple

from mutants.classes import fault, pick
from mutants.constants import add_to, times, value_of
from mutants.equivalence import COMMUTE
from mutants.ops import alike
from mutants.plant import Plant
from mutants.subject import FLOAT32, Subject


def _places(subject: Subject) -> Iterator[Tuple[int, int, str]]:
    for number, function in enumerate(subject.converted.graph_def.library.function):
        for place, node in enumerate(function.node_def):
            if node.op == "Const" and node.attr["dtype"].type == FLOAT32:
                yield number, place, "constant"
            elif node.op == "Const" and node.attr["value"].tensor.dtype in (3, 9):
                yield number, place, "whole number"
            if len([text for text in node.input if text.startswith("^")]):
                yield number, place, "control"
            if (
                len(node.input) > 1
                and len(set(node.input[:2])) == 2
                and not node.input[1].startswith("^")
                and node.op not in COMMUTE
            ):
                yield number, place, "order"
            if alike(subject, node):
                yield number, place, "op"


@fault
def function_body_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A constant, an op, the order of two inputs or a control edge in a function is changed."""
    found = pick(random, list(_places(subject)))
    if found is None:
        return None
    number, place, how = found
    plant = Plant(subject)
    function = plant.graph.graph_def.library.function[number]
    node = function.node_def[place]
    before = str(node.op)
    if how == "constant":
        times(node, 2.0)
    elif how == "whole number":
        if not value_of(node).size:
            return None
        add_to(node, 1)
    elif how == "control":
        control = random.choice([text for text in node.input if text.startswith("^")])
        node.input[:] = [text for text in node.input if text != control]
    elif how == "order":
        node.input[0], node.input[1] = node.input[1], node.input[0]
    else:
        node.op = random.choice(alike(subject, node))
    return plant.said(
        "in %s, %s of %s (%s) is another", function.signature.name, how, node.name, before
    )
