"""Classes of faults that are kept out of the verifier's development.

Whoever works on it neither reads nor runs these.

They are a fifth of all classes, of every kind. `tools/mutate.py --held_out` plants them, and shows
how the verifier does on faults that it was not made for.
"""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from mutants.added import float_edges, on_an_edge
from mutants.attributes import changed
from mutants.classes import fault, pick
from mutants.gates import other_value
from mutants.ops import exchanged
from mutants.plant import Plant
from mutants.scaling import once_more
from mutants.several import together
from mutants.subject import FLOAT32, Slot, Subject
from mutants.updating import own_assigns
from mutants.wiring import reads_another


@fault
def unscaled_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """A reader of an unscaled gradient reads it divided once more."""
    return once_more(subject, random, subject.unscales)


@fault
def any_finite_is_enough(subject: Subject, random: Any) -> Optional[Plant]:
    """One finite gradient or element is enough."""
    name = pick(random, [name for name in subject.own if subject.view.nodes[name].op == "All"])
    if name is None:
        return None
    plant = Plant(subject)
    plant.node(name).op = "Any"
    return plant.said("%s is Any of %s", name, subject.read(Slot(name, 0)))


@fault
def gate_applies_anothers_value(subject: Subject, random: Any) -> Optional[Plant]:
    """On a good step a variable takes another value of the same shape."""
    return other_value(subject, random, 1)


@fault
def clip_by_another_norm(subject: Subject, random: Any) -> Optional[Plant]:
    """What gradients are multiplied by is another number of the clip."""
    scalars = [
        s
        for s in subject.slots(subject.clips)
        if subject.shape(subject.read(s)) == () and subject.dtype(subject.read(s)) == FLOAT32
    ]
    slot = pick(random, scalars)
    return reads_another(
        subject, random, slot, lambda port: port.node in subject.clips, "{node} reads"
    )


@fault
def state_is_assigned_anothers_value(subject: Subject, random: Any) -> Optional[Plant]:
    """The scale or a count is assigned another number of graphmp's."""
    name = pick(random, own_assigns(subject))
    return reads_another(
        subject, random, Slot(name, 1) if name else None, subject.is_own, "{node} assigns"
    )


@fault
def another_output_is_read(subject: Subject, random: Any) -> Optional[Plant]:
    """An input reads another output of the same node."""
    slots = [
        slot
        for slot in subject.slots(list(subject.view.nodes))
        if len(getattr(subject.signature(subject.read(slot).node), "outputs", ())) > 1
    ]
    slot = pick(random, slots)
    if slot is None:
        return None
    port = subject.read(slot)
    other = random.choice(
        [o for o in range(len(subject.signature(port.node).outputs)) if o != port.output]
    )
    plant = Plant(subject)
    plant.connect(slot, Port(port.node, other))
    return plant.said(
        "input %d of %s reads %s in place of %s", slot.slot, slot.node, Port(port.node, other), port
    )


@fault
def two_control_edges_dropped(subject: Subject, random: Any) -> Optional[Plant]:
    """All control edges of a node are dropped."""
    names = [name for name in subject.view.nodes if len(subject.view.controls(name)) > 1]
    name = pick(random, names)
    if name is None:
        return None
    plant = Plant(subject)
    for other in subject.view.controls(name):
        plant.wait_no_longer(name, other)
    return plant.said("%s no longer waits for any of %d", name, len(subject.view.controls(name)))


@fault
def transposed(subject: Subject, random: Any) -> Optional[Plant]:
    """A matmul transposes what it should not."""
    return changed(
        subject, random, subject.view.nodes, ("transpose_a", "transpose_b", "adj_x", "adj_y")
    )


@fault
def write_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """A write writes something else."""
    return exchanged(
        subject, random, [name for name in subject.state.writes if name in subject.view.nodes]
    )


@fault
def bounded_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read bounded by 1."""

    def made(plant: Plant, port: Port) -> Port:
        dtype = plant.subject.dtype(port)
        return plant.add(
            "loss_scale/bounded",
            "Minimum",
            [port, plant.constant("loss_scale/bound", 1.0, dtype)],
            T=dtype,
        )

    return on_an_edge(subject, random, float_edges(subject), made, "bounded by 1")


@fault
def cast_truncates(subject: Subject, random: Any) -> Optional[Plant]:
    """A cast to half precision truncates in place of rounding."""
    name = pick(
        random, [n for n in subject.casts if "Truncate" in subject.view.nodes[n].attr or True]
    )
    if name is None:
        return None
    plant = Plant(subject)
    attribute = plant.node(name).attr["Truncate"]
    attribute.b = not attribute.b
    return plant.said("%s has Truncate %s", name, attribute.b)


@fault
def names_in_checkpoint_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A Saver writes or reads a tensor under another name."""
    names = [
        subject.read(Slot(n, 1)).node
        for n, node in subject.view.nodes.items()
        if node.op in ("SaveV2", "Save", "RestoreV2")
    ]
    name = pick(random, [n for n in names if subject.view.nodes[n].op == "Const"])
    if name is None:
        return None
    plant = Plant(subject)
    tensor = plant.node(name).attr["value"].tensor
    listed = [bytes(text) for text in tf.make_ndarray(tensor).ravel()]
    place = random.randrange(len(listed))
    before, listed[place] = listed[place], listed[place] + b"_other"
    tensor.CopyFrom(
        tf.make_tensor_proto(listed, tf.string, [len(listed)] if tensor.tensor_shape.dim else [])
    )
    return plant.said("%s names %s otherwise", name, before.decode("utf-8", "replace"))


@fault
def function_result_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A function returns two of its results for each other."""
    pairs = []
    for number, function in enumerate(subject.converted.graph_def.library.function):
        arguments = list(function.signature.output_arg)
        pairs += [
            (number, a.name, b.name)
            for a in arguments
            for b in arguments
            if a.name < b.name and a.type == b.type != 0
        ]
    found = pick(random, pairs)
    if found is None:
        return None
    plant = Plant(subject)
    function = plant.graph.graph_def.library.function[found[0]]
    one, other = function.ret[found[1]], function.ret[found[2]]
    function.ret[found[1]], function.ret[found[2]] = other, one
    return plant.said("%s returns %s and %s for each other", function.signature.name, one, other)


@fault
def three_faults(subject: Subject, random: Any) -> Optional[Plant]:
    """Three faults."""
    return together(subject, random, 3)


@fault
def norm_of_scaled_gradients(subject: Subject, random: Any) -> Optional[Plant]:
    """The norm is of a gradient as it is before it is unscaled."""
    slots = [
        slot for slot in subject.slots(subject.clips) if subject.read(slot).node in subject.unscales
    ]
    slot = pick(random, slots)
    if slot is None:
        return None
    plant, scaled = Plant(subject), subject.read(Slot(subject.read(slot).node, 0))
    plant.connect(slot, scaled)
    return plant.said("%s reads %s, still scaled", slot.node, scaled)


@fault
def control_edge_moved(subject: Subject, random: Any) -> Optional[Plant]:
    """A node waits for another node than it did."""
    edges = [(name, other) for name in subject.view.nodes for other in subject.view.controls(name)]
    edge = pick(random, edges)
    if edge is None:
        return None
    name, other = edge
    behind = subject.descendants(name)
    new = pick(
        random,
        [
            n
            for n in subject.view.nodes
            if n not in behind and n != other and subject.frame(n) == subject.frame(other)
        ],
    )
    if new is None:
        return None
    plant = Plant(subject)
    plant.wait_no_longer(name, other)
    plant.wait(name, new)
    return plant.said("%s waits for %s in place of %s", name, new, other)


@fault
def storage_shared(subject: Subject, random: Any) -> Optional[Plant]:
    """Two variables of one type and shape hold the same storage."""
    alike: Any = {}
    for name in [*subject.variables, *subject.own_variables]:
        node = subject.view.nodes[name]
        alike.setdefault(
            (node.op, node.attr["dtype"].type, node.attr["shape"].SerializeToString()), []
        ).append(name)
    names = pick(random, [found for found in alike.values() if len(found) > 1])
    if names is None:
        return None
    plant = Plant(subject)
    one, other = random.sample(names, 2)
    theirs = plant.node(other).attr["shared_name"]
    theirs.s = theirs.s or other.encode()
    plant.node(one).attr["shared_name"].s = theirs.s
    return plant.said("%s shares the storage of %s", one, other)


@fault
def update_applied_twice(subject: Subject, random: Any) -> Optional[Plant]:
    """A copy of an update runs after it, below graphmp/."""
    name = pick(
        random,
        [
            name
            for name in subject.updates
            if subject.view.control_consumers(name) and not subject.frame(name)
        ],
    )
    if name is None:
        return None
    plant, node = Plant(subject), subject.view.nodes[name]
    again = plant.add("loss_scale/" + name, node.op, node.input, **dict(node.attr))
    plant.wait(again.node, name)
    plant.wait(random.choice(subject.view.control_consumers(name)), again.node)
    return plant.said("%s runs twice", name)


@fault
def node_bypassed(subject: Subject, random: Any) -> Optional[Plant]:
    """Who reads a node reads what the node reads."""
    name = pick(
        random,
        [n for n in subject.view.nodes if subject.view.inputs(n) and subject.view.consumers(n)],
    )
    slot = name and pick(random, subject.readers(Port(name, 0)))
    kind = name and subject.kind(Port(name, 0))
    inputs: List[Port] = [
        port
        for port in (subject.view.inputs(name) if name else ())
        if kind is not None and subject.kind(port) == kind
    ]
    port = pick(random, inputs)
    if not slot or port is None:
        return None
    plant = Plant(subject)
    plant.connect(slot, port)
    return plant.said("%s reads %s past %s", slot.node, port, name)


@fault
def inputs_of_two_nodes_exchanged(subject: Subject, random: Any) -> Optional[Plant]:
    """Two nodes that the conversion touched read each other's inputs."""
    slots = subject.slots([*subject.rewired, *subject.outside])
    one = pick(random, slots)
    kind = one and subject.kind(subject.read(one))
    others = [
        s
        for s in slots
        if one and kind and s.node != one.node and subject.read(s) != subject.read(one)
    ]
    other = pick(random, [s for s in others if subject.kind(subject.read(s)) == kind])
    if not other or not one:
        return None
    plant = Plant(subject)
    plant.connect(one, subject.read(other))
    plant.connect(other, subject.read(one))
    return plant.said(
        "%s and %s read %s and %s for each other",
        one.node,
        other.node,
        subject.read(one),
        subject.read(other),
    )
