"""The graphs of a bench: the original, its conversion, and the result of TensorFlow's own pass.

All three run the same updates.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.bench import grappler
from graphmp.bench.bench import FLOAT32, GRAPHMP, TENSORFLOW, TUNED
from graphmp.bench.processes.timed_session import TrainingFile
from graphmp.config import Config
from graphmp.conversion.built_graph import Identity, convert_graph
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.quiet import quiet_stderr
from graphmp.conversion.stages import Stages
from graphmp.glass import guarded
from graphmp.graph.io.messages import serialize
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.dtypes import is_in_half
from graphmp.recipe.refusal import first_line
from graphmp.report.training import fetchable, nothing_trains
from graphmp.tuning.given import predicted

_NOTHING = (
    "its pass converted nothing; to bfloat16 it never does on a CPU without AVX512 instructions"
)
_HERE = re.compile(r"/(?:device:)?(CPU|GPU):(\d+)$", re.IGNORECASE)


class Graphs(NamedTuple):
    """The graphs by variant, and why one is missing."""

    trainings: Dict[str, TrainingFile]
    missing: Dict[str, str]


def check_costs(flags: Mapping[str, Any]) -> None:
    """Refuse a file of costs before a graph is read for it.

    Args:
        flags: those of the conversion.

    Raises:
        GraphmpError: as `predicted` of `tuning/given.py`.
    """
    predicted(flags["costs"], flags["compute_dtype"])


def by_costs(conversion: Conversion, path: str) -> Conversion:
    """The same graph converted by a file of costs, with the same flags otherwise.

    Raises:
        GraphmpError: GMP027 if the costs are of another half precision; as `graphmp.convert`.
    """
    config = replace(Config.make(**conversion.report["flags"]), costs=path, engine="rewrite")
    identity = Identity(conversion.report["source"], conversion.report["source_sha256"], "by costs")
    return convert_graph(conversion.before, identity, config, Stages(lambda stage: None), [])


def make(
    conversion: Conversion, folder: pathlib.Path, tuned: Optional[Conversion] = None
) -> Graphs:
    """Write the graphs into a folder.

    Args:
        conversion: of the graph.
        folder: for the files.
        tuned: the same by costs.

    Raises:
        GraphmpError: GMP023 if no training was found.
    """
    report = conversion.report
    if not report["losses"]:
        raise nothing_trains(report["source"])
    found = {FLOAT32: conversion.original, GRAPHMP: conversion.meta_graph}
    if tuned is not None:
        found[TUNED] = tuned.meta_graph
    why = grappler.why_missing(report["compute_dtype"])
    if not why:
        try:
            with quiet_stderr():
                data = guarded(
                    lambda: serialize(_own_pass(conversion.original, report["compute_dtype"])),
                    "rewriting the graph by its own pass",
                    conversion.original.graph_def,
                )
            rewritten = tf.MetaGraphDef.FromString(data)
            if is_in_half(rewritten.graph_def):
                found[TENSORFLOW] = rewritten
            else:
                why = _NOTHING
        except Exception as error:  # TensorFlow raises errors of any type
            why = "its pass fails: %s: %s" % (type(error).__name__, first_line(error))
    targets = step_targets(GraphView(conversion.original.graph_def), report["losses"])
    return Graphs(
        {
            name: write(meta_graph, targets, folder / (name + ".meta"))
            for name, meta_graph in found.items()
        },
        {TENSORFLOW: why},
    )


def write(meta_graph: tf.MetaGraphDef, targets: Set[str], path: pathlib.Path) -> TrainingFile:
    """Write a graph for the devices of this machine, and return how it trains.

    Args:
        meta_graph: the graph.
        targets: nodes of a step; those that the graph lacks are ignored.
        path: the file.
    """
    local = tf.MetaGraphDef()
    local.CopyFrom(meta_graph)
    for node in local.graph_def.node:
        node.device = local_device(node.device)
    path.write_bytes(serialize(local))
    view = GraphView(local.graph_def)
    return TrainingFile(
        str(path),
        sorted(targets & set(view.nodes)),
        sorted(State(local, view).initializers & set(view.nodes)),
    )


def local_device(device: str) -> str:
    """A device without job and task, which are of another machine.

    `/job:ps/task:1/device:GPU:3` becomes `/device:GPU:3`.
    """
    found = _HERE.search(device)
    return "/device:%s:%s" % (found.group(1).upper(), found.group(2)) if found else ""


def _own_pass(original: tf.MetaGraphDef, compute_dtype: str) -> tf.MetaGraphDef:
    """TensorFlow's rewrite with the original's devices; the pass needs all nodes on one device.

    The original's collections are kept too.
    """
    result = grappler.convert(original, compute_dtype)
    devices = {node.name: node.device for node in original.graph_def.node}
    for node in result.graph_def.node:
        node.device = devices.get(node.name, "")
    for key, collection in original.collection_def.items():
        result.collection_def[key].CopyFrom(collection)
    return result


def step_targets(view: GraphView, losses: List[Dict[str, Any]]) -> Set[str]:
    """Fetches of a step.

    Updates, adaptation of loss scales, and gradients that a script feeds back.

    Args:
        view: the original graph.
        losses: a report's.
    """
    found: Set[str] = set()
    for loss in losses:
        if not fetchable([loss]):
            found |= set(loss["train_ops"]) & set(view.nodes)  # running them adapts the scale
            continue
        updates = {name for name in loss["updates"] if name in view.nodes}
        gradients = {parse_input(text).node for text in loss["gradients"]} & set(view.nodes)
        found |= updates | (set() if view.ancestors(updates) & gradients else gradients)
        found |= {loss["scale"].rsplit("/", 1)[0] + "/update/step"} if loss["scale"] else set()
    return found
