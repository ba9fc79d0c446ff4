"""Classes of faults that are kept out of the verifier's development.

Whoever works on it neither reads nor runs these.

They are a fifth of all classes, of every kind. `tools/mutate.py --held_out` plants them, and shows
how the verifier does on faults that it was not made for.
"""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import SWITCHES
from mutants.added import float_edges, on_an_edge, unary
from mutants.attributes import changed
from mutants.casts import BFLOAT16, FLOAT16
from mutants.classes import fault, pick
from mutants.gates import other_value
from mutants.ops import exchanged
from mutants.plant import Plant
from mutants.scaling import once_more
from mutants.several import together
from mutants.subject import BOOL, FLOAT32, Slot, Subject
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
    slots = [Slot(name, 1) for name in subject.selects + subject.merges]
    return other_value(subject, random, slots)


@fault
def gate_multiplies(subject: Subject, random: Any) -> Optional[Plant]:
    """A gate multiplies by its flag, as 0 or 1, in place of selecting: 0 times infinity is NaN."""
    gradients = subject.view.descendants(subject.unscales, control=False)
    gates = [(name, 0, 1) for name in subject.selects] + [(n, 1, 0) for n in subject.switches]
    found = pick(
        random,
        [
            (name, subject.read(Slot(name, flag)), subject.read(Slot(name, new)))
            for name, flag, new in gates
            if subject.is_float(subject.read(Slot(name, new)))
            and subject.read(Slot(name, new)).node in gradients
            and subject.shape(subject.read(Slot(name, flag))) == ()
        ],
    )
    if found is None:
        return None
    name, flag, new = found
    plant, dtype = Plant(subject), subject.dtype(new)

    def times(condition: Port, value: Port) -> Port:
        number = plant.add("loss_scale/skip/number", "Cast", [condition], SrcT=BOOL, DstT=dtype)
        return plant.add("loss_scale/skip/product", "Mul", [number, value], T=dtype)

    product = times(flag, new)
    if name in subject.selects:
        turned = plant.add("loss_scale/skip/turned", "LogicalNot", [flag])
        old = times(turned, subject.read(Slot(name, 2)))
        product = plant.add("loss_scale/skip/sum", "Add", [product, old], T=dtype)
    for output in (0, 1):
        plant.read_instead(subject.readers(Port(name, output)), product)
    return plant.said("who read %s read %s times 0 or 1", name, new)


@fault
def clip_by_another_norm(subject: Subject, random: Any) -> Optional[Plant]:
    """The factor of gradients is another number of the clip."""
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
def shifted_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read with 1/1024 added."""

    def made(plant: Plant, port: Port) -> Port:
        dtype = plant.subject.dtype(port)
        term = plant.constant("loss_scale/term", 2.0**-10, dtype)
        return plant.add("loss_scale/shifted", "Add", [port, term], T=dtype)

    return on_an_edge(subject, random, float_edges(subject), made, "plus 1/1024")


@fault
def size_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """A value is read without its sign."""
    return on_an_edge(subject, random, float_edges(subject), unary("Abs"), "without its sign")


@fault
def sign_on_an_edge(subject: Subject, random: Any) -> Optional[Plant]:
    """The sign of a value is read in its place."""
    return on_an_edge(subject, random, float_edges(subject), unary("Sign"), "as its sign")


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
def old_copy_is_read(subject: Subject, random: Any) -> Optional[Plant]:
    """A half-precision copy of a variable is kept, but a step changes it too early or never."""
    found = pick(random, _cast_variables(subject))
    if found is None:
        return None
    cast, variable, start = found
    inits = [n for n in subject.view.control_consumers(start) if subject.view.nodes[n].op == "NoOp"]
    readers = [slot for slot in subject.readers(Port(cast, 0)) if not subject.frame(slot.node)]
    if not inits or not readers:
        return None
    plant, dtype = Plant(subject), subject.dtype(Port(cast, 0))
    copy = _variable_like(plant, variable, dtype)
    initial = subject.read(Slot(start, 1))
    value = plant.add(
        "copies/initial_value", "Cast", [initial], SrcT=subject.dtype(initial), DstT=dtype
    )
    first = _assign(plant, copy, value, dtype)
    for name in inits:
        plant.wait(name, first.node)
    is_handle = plant.peek(copy.node).op == "VarHandleOp"
    read = (
        plant.add("copies/read", "ReadVariableOp", [copy], dtype=dtype)
        if is_handle
        else plant.add("copies/read", "Identity", [copy], T=dtype)
    )
    plant.read_instead(readers, read)
    ends = {slot.node for slot in readers}
    before = subject.view.ancestors(ends)
    updates = [
        name
        for name in subject.updates
        if variable in subject.state.written(name)
        and name not in before
        and not subject.frame(name)
    ]
    if (
        not updates
        or any(subject.before.nodes[n].op in SWITCHES for n in before & subject.before.nodes.keys())
        or random.random() < 0.5
    ):
        return plant.said("who read %s read %s, which never changes", cast, copy)
    # It is assigned what the step began with: after its readers, and before the update.
    late = _assign(plant, copy, Port(cast, 0), dtype)
    for name in sorted(ends & subject.view.ancestors(updates)):
        plant.wait(late.node, name)
    for name in updates:
        plant.wait(name, late.node)
    return plant.said("who read %s read %s, which is a step late", cast, copy)


def _cast_variables(subject: Subject) -> List[Any]:
    """Casts of variables to half precision, each with its variable and what initialises that."""
    starts = {
        subject.read(Slot(name, 0)).node: name
        for name in sorted(subject.state.initializers)
        if name in subject.view.nodes and len(subject.view.inputs(name)) > 1
    }
    written = {variable for name in subject.writes for variable in subject.state.written(name)}
    found = []
    for cast in subject.casts:
        variable = subject.state.variable(subject.read(Slot(cast, 0)).node)
        if (
            subject.dtype(Port(cast, 0)) in (FLOAT16, BFLOAT16)
            and variable in starts
            and variable in written
            and not subject.frame(cast)
        ):
            found.append((cast, variable, starts[variable]))
    return found


def _variable_like(plant: Plant, variable: str, dtype: int) -> Port:
    """Add a variable of a variable's shape and another dtype."""
    node = plant.subject.view.nodes[variable]
    left_out = ("dtype", "shared_name", "_class", "_output_shapes")
    attributes = {key: value for key, value in node.attr.items() if key not in left_out}
    copy = plant.add("copies/" + variable, node.op, dtype=dtype, **attributes)
    plant.node(copy.node).attr["shared_name"].s = copy.node.encode()
    return copy


def _assign(plant: Plant, variable: Port, value: Port, dtype: int) -> Port:
    """Add an assignment of a value."""
    if plant.peek(variable.node).op == "VarHandleOp":
        return plant.add("copies/write", "AssignVariableOp", [variable, value], dtype=dtype)
    return plant.add("copies/write", "Assign", [variable, value], T=dtype)


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
