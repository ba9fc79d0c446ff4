"""Faults of ops: one replaced by another of the same signature."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import Subject

_ALIKE = (
    (
        "Add",
        "AddV2",
        "Sub",
        "Mul",
        "RealDiv",
        "Maximum",
        "Minimum",
        "SquaredDifference",
        "Div",
        "FloorDiv",
        "Pow",
    ),
    ("LogicalAnd", "LogicalOr"),
    ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
    ("All", "Any"),
    ("Sum", "Mean", "Prod", "Max", "Min"),
    (
        "Abs",
        "Neg",
        "Square",
        "Sqrt",
        "Rsqrt",
        "Exp",
        "Log",
        "Tanh",
        "Relu",
        "Sigmoid",
        "Identity",
        "ZerosLike",
        "OnesLike",
        "Softplus",
        "Elu",
    ),
    ("IsFinite", "IsNan", "IsInf"),
    ("AssignAdd", "AssignSub", "Assign"),
    ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"),
    ("BiasAdd",),
    ("ReluGrad", "TanhGrad", "SigmoidGrad", "SqrtGrad", "SoftplusGrad", "EluGrad"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    ("ApplyGradientDescent", "AssignSub"),
    ("ScatterAdd", "ScatterSub", "ScatterUpdate"),
    ("L2Loss",),
    ("MaxPool", "AvgPool"),
    ("Floor", "Ceil", "Rint"),
)
_GROUPS = {op: group for group in _ALIKE for op in group}


def exchanged(subject: Subject, random: Any, names: Sequence[str]) -> Optional[Plant]:
    """One of some nodes is replaced by another op on the same inputs."""
    name = pick(random, [name for name in names if alike(subject, subject.view.nodes[name])])
    if name is None:
        return None
    plant, op = Plant(subject), random.choice(alike(subject, subject.view.nodes[name]))
    node = plant.node(name)
    said = "%s is %s in place of %s" % (name, op, node.op)
    node.op = op
    known = {attribute.name for attribute in subject.defs.get(op).attr}
    for key in [key for key in node.attr if not key.startswith("_") and key not in known]:
        del node.attr[key]
    return plant.said("%s", said)


def alike(subject: Subject, node: Any) -> List[str]:
    """Ops with the same input and output types as a node."""
    mine = subject.defs.get(node.op)
    found = []
    for op in _GROUPS.get(node.op, ()):
        other = subject.defs.get(op)
        if op == node.op or other is None or mine is None:
            continue
        types = [attribute.name for attribute in other.attr if attribute.type == "type"]
        same = len(other.input_arg) == len(mine.input_arg) and len(other.output_arg) == len(
            mine.output_arg
        )
        if same and all(
            key in node.attr and subject.defs.allows(op, key, node.attr[key].type) for key in types
        ):
            found.append(op)
    return found


@fault
def op_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """An op of the original is replaced."""
    return exchanged(
        subject, random, [name for name in subject.before.nodes if name in subject.view.nodes]
    )


@fault
def own_op_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """An op added by graphmp is replaced."""
    return exchanged(subject, random, subject.outside)
