"""Faults of precision: another half-precision type, missing casts and superfluous ones."""

from __future__ import annotations

import re
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.values import constant
from graphmp.graph.structure.view import Port
from graphmp.policy.policy import UNLISTED, Policy
from mutants.classes import fault, pick
from mutants.plant import Plant
from mutants.subject import FLOAT32, FLOATS, Slot, Subject

FLOAT16, BFLOAT16 = tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum
_PRODUCT = re.compile("MatMul|Conv[23]D|DepthwiseConv|Einsum|LSTM|GRU|CudnnRNN")
_HALVES = {FLOAT16: BFLOAT16, BFLOAT16: FLOAT16}


def cast(plant: Plant, port: Port, source: int, target: int) -> Port:
    """Add a cast."""
    return plant.add("cast", "Cast", [port], SrcT=source, DstT=target)


def computed_in(subject: Subject, name: str, dtype: int) -> Optional[Plant]:
    """A node whose float attribute T is replaced, between casts; None if impossible."""
    node, signature = subject.view.nodes[name], subject.signature(name)
    if "T" not in node.attr or signature is None or not subject.defs.allows(node.op, "T", dtype):
        return None
    mine = node.attr["T"].type
    if (
        mine not in FLOATS
        or mine == dtype
        or any(p.is_ref for p in signature.inputs + signature.outputs)
    ):
        return None
    plant = Plant(subject)
    plant.node(name).attr["T"].type = dtype
    for slot, wanted in enumerate(signature.inputs):
        if wanted.attribute == "T":
            plant.connect(
                Slot(name, slot), cast(plant, subject.read(Slot(name, slot)), mine, dtype)
            )
    for output, given in enumerate(signature.outputs):
        readers = subject.readers(Port(name, output))
        if given.attribute == "T" and readers:
            plant.read_instead(readers, cast(plant, Port(name, output), dtype, mine))
    return plant.said("%s computes in %s", name, tf.as_dtype(dtype).name)


def _typed(subject: Subject, names: Any, dtypes: Any) -> List[str]:
    return [
        name
        for name in names
        if "T" in subject.view.nodes[name].attr
        and subject.view.nodes[name].attr["T"].type in dtypes
    ]


def _one(subject: Subject, random: Any, names: List[str], dtypes: List[int]) -> Optional[Plant]:
    name = pick(random, names)
    return None if name is None else computed_in(subject, name, random.choice(dtypes))


@fault
def computed_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A float32 op of the original computes in half precision where every policy forbids it.

    Such an op lies on the path of a variable's first value or of a checkpoint, in a loss, between
    an unscaling and an update, or between a variable's value and its update. Elsewhere, for example
    in the sum of a variable's gradient, a conversion may choose, and no proof can call it wrong.
    """
    return _one(
        subject,
        random,
        _typed(subject, sorted(_float32(subject) & subject.before.nodes.keys()), (FLOAT32,)),
        [FLOAT16, BFLOAT16],
    )


def _float32(subject: Subject) -> Set[str]:
    """Nodes that no policy has in half precision."""
    model = _model(subject)
    found = (
        _stored(subject)
        | _losses(subject)
        | _between(subject, subject.unscales, subject.updates, lambda name: name not in model)
    )
    for update in subject.updates:
        for variable in subject.state.written(update):
            alike = {
                name
                for name in subject.view.nodes
                if name not in model and subject.shape(Port(name, 0)) == _shape(subject, variable)
            }
            found |= _between(subject, [variable], [update], alike.__contains__)
    return found


def _shape(subject: Subject, variable: str) -> Tuple[int, ...]:
    return tuple(int(dim.size) for dim in subject.view.nodes[variable].attr["shape"].shape.dim)


def _stored(subject: Subject) -> Set[str]:
    """The nodes that compute first values, and those between variables and checkpoints."""
    view = subject.view
    restored = view.descendants(
        [n for n, node in view.nodes.items() if node.op == "RestoreV2"], control=False
    )
    saved = [name for name, node in view.nodes.items() if node.op == "SaveV2"]
    return view.ancestors(
        [*saved, *subject.initializers, *restored.intersection(subject.state.writes)],
        control=False,
    )


def _losses(subject: Subject) -> Set[str]:
    """The nodes of the losses, found from the readers of the scaled seeds."""
    readers = (slot.node for name in subject.seeds for slot in subject.readers(Port(name, 0)))
    named = {differentiated(name, subject.before.nodes.keys()) for name in readers}
    return {name for name in named if name is not None and subject.shape(Port(name, 0)) == ()}


def _model(subject: Subject) -> Set[str]:
    """Matmuls, convolutions and their readers, and the values computed by gradient code."""
    products = [name for name, node in subject.view.nodes.items() if _PRODUCT.search(node.op)]
    code = gradient_nodes(subject.before)
    return {
        *products,
        *(consumer.node for name in products for consumer in subject.view.consumers(name)),
        *(name for name in code if subject.view.nodes[name].op != "Identity"),
    }


def _between(
    subject: Subject, starts: Sequence[str], ends: Sequence[str], through: Callable[[str], bool]
) -> Set[str]:
    """The nodes on data paths between two sets of nodes, without these."""
    ahead = subject.view.followed(
        starts, lambda name: name in starts or (name not in ends and through(name))
    ) - set(starts)
    found: Set[str] = set()
    waiting = list(ends)
    while waiting:
        before = {port.node for port in subject.view.inputs(waiting.pop())} & ahead - found
        found |= before
        waiting.extend(before)
    return found


@fault
def own_computed_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op of the scale's arithmetic computes in half precision."""
    return _one(subject, random, _typed(subject, subject.own, (FLOAT32,)), [FLOAT16, BFLOAT16])


@fault
def computed_in_the_other_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision op computes in the other half-precision type."""
    name = pick(random, _typed(subject, subject.view.nodes, tuple(_HALVES)))
    return (
        None
        if name is None
        else computed_in(subject, name, _HALVES[subject.view.nodes[name].attr["T"].type])
    )


def _through(subject: Subject, random: Any, names: Any, dtypes: List[int]) -> Optional[Plant]:
    slots = [slot for slot in subject.slots(names) if subject.is_float(subject.read(slot))]
    slot = pick(random, slots)
    if slot is None:
        return None
    mine = subject.dtype(subject.read(slot))
    dtype = random.choice([other for other in dtypes if other != mine] or [FLOAT32])
    plant = Plant(subject)
    plant.connect(slot, cast(plant, cast(plant, subject.read(slot), mine, dtype), dtype, mine))
    return plant.said(
        "input %d of %s is rounded to %s", slot.slot, slot.node, tf.as_dtype(dtype).name
    )


@fault
def rounded_to_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An input that the conversion left unchanged is rounded to half precision and back."""
    return _through(subject, random, subject.before.nodes, [FLOAT16, BFLOAT16])


@fault
def own_rounded_to_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An input of a node added by graphmp is rounded to half precision and back."""
    return _through(subject, random, [*subject.outside, *subject.updates], [FLOAT16, BFLOAT16])


@fault
def cast_removed(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision op computes in float32, without the casts before and after it."""
    near = {slot.node for name in subject.casts for slot in subject.readers(Port(name, 0))}
    near |= {subject.read(Slot(name, 0)).node for name in subject.casts}
    name = pick(random, _typed(subject, sorted(near), tuple(_HALVES)))
    plant = None if name is None else computed_in(subject, name, FLOAT32)
    if plant is None:
        return None
    for slot in range(len(subject.view.inputs(name))):
        before = subject.read(Slot(name, slot)).node
        if before in subject.casts and subject.dtype(subject.read(Slot(before, 0))) == FLOAT32:
            plant.connect(Slot(name, slot), subject.read(Slot(before, 0)))
    for reader in subject.readers(Port(name, 0)):
        if reader.node in subject.casts and subject.dtype(Port(reader.node, 0)) == FLOAT32:
            plant.read_instead(subject.readers(Port(reader.node, 0)), Port(name, 0))
    return plant.said("without the casts beside it")


def _in_half(subject: Subject, name: str, key: str) -> Plant:
    """A node whose result is made in float16, and cast to float32 where it is read."""
    plant = Plant(subject)
    plant.node(name).attr[key].type = FLOAT16
    readers = subject.readers(Port(name, 0))
    plant.read_instead(readers, cast(plant, Port(name, 0), FLOAT16, FLOAT32))
    return plant


@fault
def whole_numbers_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """Integers become float16, which holds them up to 2048, or are made of float16."""
    casts = [
        (name, key)
        for name, node in subject.before.nodes.items()
        if node.op == "Cast" and name in subject.view.nodes and subject.view.consumers(name)
        for key, other in (("DstT", "SrcT"), ("SrcT", "DstT"))
        if subject.view.nodes[name].attr[key].type == FLOAT32
        and subject.view.nodes[name].attr[other].type in (tf.int32, tf.int64)
    ]
    name, key = pick(random, casts) or ("", "")
    if not name:
        return None
    if key == "DstT":
        plant = _in_half(subject, name, key)
    else:
        plant = Plant(subject)
        plant.node(name).attr[key].type = FLOAT16
        read = subject.read(Slot(name, 0))
        plant.connect(Slot(name, 0), cast(plant, read, FLOAT32, FLOAT16))
    return plant.said("%s casts whole numbers in half precision", name)


@fault
def random_numbers_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """Random numbers are drawn in float16."""
    names = [
        name
        for name in subject.before.nodes
        if name in subject.view.nodes
        and subject.view.nodes[name].op
        in ("RandomStandardNormal", "RandomUniform", "TruncatedNormal")
        and subject.view.nodes[name].attr["dtype"].type == FLOAT32
    ]
    name = pick(random, names)
    return None if name is None else _in_half(subject, name, "dtype").said("%s is half", name)


@fault
def constant_lost_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op computes in half precision with a constant that becomes 0 or infinite there."""
    names = [
        name
        for name in _typed(
            subject, sorted(subject.before.nodes.keys() & subject.view.nodes.keys()), (FLOAT32,)
        )
        if any(_is_lost(subject, port.node) for port in subject.view.inputs(name))
    ]
    return _one(subject, random, names, [FLOAT16])


def _is_lost(subject: Subject, name: str) -> bool:
    node = subject.view.nodes[name]
    value = constant(node) if node.op == "Const" else None
    if value is None or value.dtype != np.float32:
        return False
    size = np.abs(value[np.isfinite(value)])
    return bool(np.any((size > 65504) | ((size > 0) & (size <= 2.0**-25))))


@fault
def only_moved_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is rounded to half precision where it is only moved: labels that are reshaped."""
    model = gradient_nodes(subject.before)
    names = [
        name
        for name in _typed(subject, sorted(subject.before.nodes.keys() - model), (FLOAT32,))
        if subject.view.nodes[name].op in ("ExpandDims", "Reshape", "Squeeze", "Transpose")
        and subject.view.consumers(name)
    ]
    return _one(subject, random, names, [FLOAT16])


@fault
def float64_is_rounded(subject: Subject, random: Any) -> Optional[Plant]:
    """A float64 value is rounded to float32 and back."""
    double = tf.float64.as_datatype_enum
    slots = [
        slot
        for slot in subject.slots(sorted(subject.before.nodes.keys() & subject.view.nodes.keys()))
        if subject.kind(subject.read(slot)) is not None
        and subject.dtype(subject.read(slot)) == double
        and not subject.is_reference(subject.read(slot))
    ]
    slot = pick(random, slots)
    if slot is None:
        return None
    plant = Plant(subject)
    narrow = cast(plant, subject.read(slot), double, FLOAT32)
    plant.connect(slot, cast(plant, narrow, FLOAT32, double))
    return plant.said("input %d of %s is rounded to float32", slot.slot, slot.node)


@fault
def term_of_a_loss_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A sum over elements that is added to a loss is half precision."""
    view = subject.view
    adds = ("Add", "AddN", "AddV2", "Mul", "Sub")
    losses = _losses(subject)
    terms = view.traced(losses, lambda name: name in losses or view.nodes[name].op in adds)
    read = {
        port.node
        for name in terms & set(subject.before.nodes)
        for port in view.inputs(name)
        if view.nodes[name].op in adds
    }
    names = [name for name in read if view.nodes[name].op in ("L2Loss", "Mean", "Sum")]
    return _one(subject, random, _typed(subject, sorted(names), (FLOAT32,)), [FLOAT16])


@fault
def schedule_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A rate that depends on the number of steps is computed in half precision."""
    view = subject.before
    counts = [
        name
        for name in subject.variables
        if name in view.nodes and view.nodes[name].attr["dtype"].type in (tf.int32, tf.int64)
    ]
    others = [
        name
        for name, node in view.nodes.items()
        if node.op.startswith("Placeholder")
        or (name in subject.variables and name not in counts)
        or node.op in ("IteratorGetNext", "QueueDequeueV2", "QueueDequeueManyV2")
    ]
    found = view.descendants(counts, control=False) - view.descendants(others, control=False)
    ends = view.ancestors(subject.updates, control=False)
    names = sorted(found & ends & subject.view.nodes.keys() - set(subject.writes))
    return _one(subject, random, _typed(subject, names, (FLOAT32,)), [FLOAT16])


@fault
def fed_rate_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """A number that an update reads, made of fed numbers, is computed in half precision."""
    view = subject.before
    fed = {
        name
        for name, node in view.nodes.items()
        if node.op.startswith("Placeholder") and subject.shape(Port(name, 0)) == ()
    }
    wide = [
        name
        for name, node in view.nodes.items()
        if name not in fed and not view.inputs(name) and node.op != "Const"
    ]
    made = view.descendants(fed, control=False) - view.descendants(wide, control=False)
    ends = view.ancestors(subject.updates, control=False)
    names = sorted(made & ends & subject.view.nodes.keys() - set(subject.writes))
    return _one(subject, random, _typed(subject, names, (FLOAT32,)), [FLOAT16])


@fault
def count_of_a_loop_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """The count of a loop, or what it is compared with, is half precision."""
    view = subject.before
    names = [
        name
        for name, node in view.nodes.items()
        if node.op in ("Add", "AddV2", "Less", "Mul", "Sub")
        and name in subject.frames
        and {view.nodes[port.node].op for port in view.inputs(name)} <= {"Const", "Identity"}
        and not view.ancestors([name], control=False) & set(subject.variables)
    ]
    return _one(subject, random, _typed(subject, names, (FLOAT32,)), [FLOAT16])


@fault
def list_of_types_in_half(subject: Subject, random: Any) -> Optional[Plant]:
    """An op on no list of the policy gives float16 where it gave float32, by a list of types."""
    policy = Policy.default("float16")
    places = [
        (name, output)
        for name, node in subject.before.nodes.items()
        if name in subject.view.nodes and policy.category(node.op) == UNLISTED
        for output, kind in enumerate(node.attr["Tout"].list.type if "Tout" in node.attr else ())
        if kind == FLOAT32 and node.op not in ("If", "While", "PartitionedCall")
    ]
    found = pick(random, places)
    if found is None:
        return None
    name, output = found
    plant = Plant(subject)
    readers = subject.readers(Port(name, output))
    plant.node(name).attr["Tout"].list.type[output] = FLOAT16
    plant.read_instead(readers, cast(plant, Port(name, output), FLOAT16, FLOAT32))
    return plant.said("%s:%d is float16", name, output)
