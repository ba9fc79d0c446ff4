"""Faults of a graph's interface: placeholders, collections, Savers, signatures, variables."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import parse, serialize
from graphmp.graph.structure.view import parse_input
from mutants.classes import fault, pick
from mutants.edges import dropped
from mutants.plant import Plant
from mutants.subject import Slot, Subject
from mutants.wiring import reads_another


def collections(subject: Subject) -> List[str]:
    """The names of collections other than graphmp's own."""
    return sorted(key for key in subject.converted.collection_def if not key.startswith("graphmp"))


@fault
def placeholder_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """A placeholder has another shape, or another default value."""
    with_default = [
        n for n, node in subject.view.nodes.items() if node.op == "PlaceholderWithDefault"
    ]
    name = pick(
        random,
        with_default + [n for n, node in subject.view.nodes.items() if node.op == "Placeholder"],
    )
    if name is None:
        return None
    plant = Plant(subject)
    if name in with_default:
        other = pick(random, subject.alike(subject.read(Slot(name, 0)), name))
        if other is None:
            return None
        plant.connect(Slot(name, 0), other)
        return plant.said("%s has the default %s", name, other)
    shape = plant.node(name).attr["shape"].shape
    if shape.unknown_rank or not shape.dim:
        return None
    dim = random.choice(list(shape.dim))
    before, dim.size = dim.size, -1 if dim.size >= 0 else 8
    return plant.said("%s has a dimension %d in place of %d", name, dim.size, before)


@fault
def collection_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """An entry of a collection is missing, duplicated or replaced."""
    key = pick(random, collections(subject))
    if key is None:
        return None
    plant = Plant(subject)
    collection = plant.graph.collection_def[key]
    values = getattr(collection, collection.WhichOneof("kind") or "node_list").value
    if not len(values):
        return None
    listed, place = list(values), random.randrange(len(values))
    how = random.choice(["missing", "twice", "in another place"])
    listed = {
        "missing": listed[:place] + listed[place + 1 :],
        "twice": listed + [listed[place]],
        "in another place": listed[1:] + listed[:1],
    }[how]
    if collection.WhichOneof("kind") == "any_list":
        return None
    values[:] = listed
    return plant.said("an entry of the collection %s is %s", key, how)


@fault
def collection_dropped(subject: Subject, random: Any) -> Optional[Plant]:
    """A collection is missing."""
    key = pick(random, collections(subject))
    if key is None:
        return None
    plant = Plant(subject)
    del plant.graph.collection_def[key]
    return plant.said("there is no collection %s", key)


def saves(subject: Subject) -> List[str]:
    """The nodes that write checkpoints."""
    return [name for name, node in subject.view.nodes.items() if node.op in ("SaveV2", "Save")]


@fault
def saved_tensors_swapped(subject: Subject, random: Any) -> Optional[Plant]:
    """Two variables are saved under each other's names."""
    name = pick(random, saves(subject))
    first = 3 if name and subject.view.nodes[name].op == "SaveV2" else 2
    slots = subject.slots([name])[first:] if name else []
    one = pick(random, slots)
    other = one and pick(
        random,
        [
            s
            for s in slots
            if s != one and subject.dtype(subject.read(s)) == subject.dtype(subject.read(one))
        ],
    )
    if not other:
        return None
    plant = Plant(subject)
    plant.connect(one, subject.read(other))
    plant.connect(other, subject.read(one))
    return plant.said(
        "%s saves %s and %s for each other", name, subject.read(one), subject.read(other)
    )


@fault
def restored_tensors_swapped(subject: Subject, random: Any) -> Optional[Plant]:
    """A variable takes the value of another one from a checkpoint."""
    restores = {
        name
        for name, node in subject.view.nodes.items()
        if node.op in ("RestoreV2", "Restore", "RestoreSlice")
    }
    behind = (
        sorted(subject.view.descendants(restores, control=False) - restores) if restores else []
    )
    assigns = [
        Slot(n, 1) for n in behind if subject.view.nodes[n].op in ("Assign", "AssignVariableOp")
    ]
    one = pick(random, assigns)
    other = one and pick(
        random,
        [
            s
            for s in assigns
            if s != one and subject.dtype(subject.read(s)) == subject.dtype(subject.read(one))
        ],
    )
    if not other:
        return None
    plant = Plant(subject)
    plant.connect(one, subject.read(other))
    plant.connect(other, subject.read(one))
    return plant.said("%s and %s restore each other's values", one.node, other.node)


@fault
def initializer_left_out(subject: Subject, random: Any) -> Optional[Plant]:
    """An op that initialises variables leaves one out."""
    inits = set(subject.state.initializers) | {
        name for name in subject.own if name.endswith("/Assign")
    }
    edges = [
        (n, other)
        for n, node in subject.view.nodes.items()
        if node.op == "NoOp"
        for other in subject.view.controls(n)
        if other in inits
    ]
    return dropped(subject, random, edges, "no longer runs")


@fault
def variable_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """An initialiser gives a variable the initial value of another one."""
    inits = [
        name
        for name in subject.state.initializers
        if name in subject.view.nodes and len(subject.view.inputs(name)) > 1
    ]
    slot = pick(random, [Slot(name, 1) for name in sorted(inits)])
    return reads_another(
        subject, random, slot, lambda port: not subject.is_reference(port), "{node} assigns"
    )


@fault
def beside_the_nodes(subject: Subject, random: Any) -> Optional[Plant]:
    """Tags, asset files, the graph of objects or the versions of the GraphDef are others."""
    plant = Plant(subject)
    graph = plant.graph
    how = random.choice(["tags", "asset files", "objects", "producer", "consumer"])
    if how == "tags":
        graph.meta_info_def.tags.append("serve")
    elif how == "asset files":
        asset = graph.asset_file_def.add(filename="another")
        asset.tensor_info.name = "%s:0" % random.choice(sorted(subject.before.nodes))
    elif how == "producer":
        graph.graph_def.versions.producer -= 1
    elif how == "consumer":
        graph.graph_def.versions.min_consumer += 1
    elif hasattr(graph, "object_graph_def"):
        graph.object_graph_def.nodes.add()
    return plant.said("the %s are others", how)


@fault
def own_variable_described_otherwise(subject: Subject, random: Any) -> Optional[Plant]:
    """A variable of the scale is listed as trainable, as a part, or as one of another kind."""
    key = tf.GraphKeys.GLOBAL_VARIABLES
    listed = (
        subject.converted.collection_def[key].bytes_list.value
        if key in collections(subject)
        else ()
    )
    own = [place for place, data in enumerate(listed) if data.find(b"graphmp/") >= 0]
    place = pick(random, own)
    found = None if place is None else parse("tensorflow.VariableDef", listed[place])
    if found is None or not found.variable_name.startswith("graphmp/"):
        return None
    how = random.choice(["trainable", "a part", "of another kind"])
    if how == "trainable":
        found.trainable = True
    elif how == "a part":
        found.save_slice_info_def.full_name = "whole"
        found.save_slice_info_def.full_shape.append(1)
    else:
        found.is_resource = not found.is_resource
    plant = Plant(subject)
    plant.graph.collection_def[key].bytes_list.value[place] = serialize(found)
    return plant.said("%s is listed as %s", found.variable_name, how)


@fault
def context_changed(subject: Subject, random: Any) -> Optional[Plant]:
    """The context of a loop or a branch has another pivot, or lacks one of its contents."""
    kinds = {"cond_context": "CondContextDef", "while_context": "WhileContextDef"}
    keys = [
        key
        for key in collections(subject)
        if key in kinds and key in subject.original.collection_def
    ]
    key = pick(random, keys)
    if key is None:
        return None
    plant = Plant(subject)
    listed = plant.graph.collection_def[key].bytes_list.value
    place = random.randrange(len(listed))
    context = parse("tensorflow." + kinds[key], listed[place])
    inside = [
        name for name in context.values_def.values if name.split(":")[0] in subject.before.nodes
    ]
    if context.context_name not in str(subject.original.collection_def[key]) or not inside:
        return None
    if random.random() < 0.5:
        context.pivot_name = random.choice(
            [name for name in inside if name != context.pivot_name] or inside
        )
    else:
        context.values_def.values.remove(random.choice(inside))
    listed[place] = serialize(context)
    return plant.said("the context %s is another", context.context_name)


@fault
def node_renamed(subject: Subject, random: Any) -> Optional[Plant]:
    """A node of the original has another name, in a graph whose names the rewrite keeps."""
    if subject.engine != "rewrite":
        return None
    name = pick(random, sorted(subject.before.nodes.keys() & subject.view.nodes.keys()))
    if name is None:
        return None
    plant = Plant(subject)
    other = name + "_other"
    for node in plant.graph.graph_def.node:
        node.name = other if node.name == name else node.name
        for place, text in enumerate(node.input):
            if parse_input(text).node == name:
                node.input[place] = text.replace(name, other, 1)
    return plant.said("%s is called %s", name, other)
