"""Terms that half precision rounds away: a tiny multiple of a value, added to another one.

A sum in half precision is a multiple of its larger term's last digit: x + 1e-6 d is x. The
perturbation of virtual adversarial training ends so, and a derivative by finite differences.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Optional

from graphmp.graph.structure.values import number
from graphmp.graph.structure.view import GraphView, Port
from graphmp.naming import SCOPE
from graphmp.policy.op_sets import IDENTITIES, SUMS
from graphmp.rewrite.decisions import Decisions

# Half the distance between 1 and the next number.
_ROUNDED_AWAY = {"float16": 2.0**-11, "bfloat16": 2.0**-9}
_PASS_ON = IDENTITIES | {"Cast", "ExpandDims", "Reshape", "Squeeze", "StopGradient", "Transpose"}
_QUOTIENTS = ("Div", "RealDiv")


def faint_terms(decisions: Decisions, compute_dtype: str) -> Dict[str, float]:
    """Sums in half precision, or that are read in it, with the factor of a term that is lost.

    Outside gradient code: what a step adds to gradients may be as large as they are.
    """
    graph, half = decisions.graph, decisions.half_nodes()
    largest = _ROUNDED_AWAY.get(compute_dtype, 0.0)
    found: Dict[str, float] = {}
    for name, node in graph.view.nodes.items():
        if node.op not in SUMS | {"Sub"} or name in graph.gradients or name.startswith(SCOPE):
            continue
        factors = [_factor(graph.view, port) for port in graph.view.inputs(name)]
        faint = [each for each in factors if each is not None and 0 < each < largest]
        if faint and len(faint) < len(factors) and _meets(graph.view, name, half):
            found[name] = min(faint)
    return found


def _factor(view: GraphView, port: Port) -> Optional[float]:
    """The size of the constant that a term is multiplied by; None without one."""
    name = view.behind(port, _PASS_ON).node
    inputs = [number(view.nodes[view.behind(each, _PASS_ON).node]) for each in view.inputs(name)]
    if len(inputs) != 2 or inputs.count(None) != 1:
        return None
    if view.nodes[name].op == "Mul":
        return abs(next(each for each in inputs if each is not None))
    divisor = inputs[1] if view.nodes[name].op in _QUOTIENTS else None
    return abs(1 / divisor) if divisor else None


def _meets(view: GraphView, name: str, half: AbstractSet[str]) -> bool:
    """Whether a node, or a reader of what it gives, computes in half precision."""
    passed = view.followed([name], lambda n: n == name or view.nodes[n].op in _PASS_ON)
    readers = (consumer.node for each in passed for consumer in view.consumers(each))
    return name in half or not half.isdisjoint(readers)
