"""Where data enters a graph: the ops whose outputs are fed if the graph runs without its script."""

from __future__ import annotations

from typing import Dict, Iterable, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView
from graphmp.graph.structure.walk import reached
from graphmp.policy.dtypes import VARIANT

_FED = "what the script feeds"
_DATASET = "the next element of a dataset"
_QUEUE = "an element of a queue that threads of the script fill"
_STAGED = "what was staged by an earlier run"
_PYTHON = "the result of a Python function, which runs in the script's process only"
_FILE = "what is read from a file"
_DEVICE = "what another device or host sends"
# Sources of whole sparse tensors: of indices, values and the dense shape.
SPARSE = ("DeserializeSparse", "TakeManySparseFromTensorsMap")

# What each brings, in words. PlaceholderWithDefault isn't one: it has a value.
SOURCES: Dict[str, str] = {
    "Placeholder": _FED,
    "PlaceholderV2": _FED,
    "DatasetToSingleElement": _DATASET,
    "DeserializeSparse": _DATASET,
    "IteratorGetNext": _DATASET,
    "IteratorGetNextAsOptional": _DATASET,
    "IteratorGetNextSync": _DATASET,
    "MultiDeviceIteratorGetNextFromShard": _DATASET,
    "OptionalGetValue": _DATASET,
    "BarrierTakeMany": _QUEUE,
    "QueueDequeue": _QUEUE,
    "QueueDequeueMany": _QUEUE,
    "QueueDequeueManyV2": _QUEUE,
    "QueueDequeueUpTo": _QUEUE,
    "QueueDequeueUpToV2": _QUEUE,
    "QueueDequeueV2": _QUEUE,
    "TakeManySparseFromTensorsMap": _QUEUE,
    "MapPeek": _STAGED,
    "MapUnstage": _STAGED,
    "MapUnstageNoKey": _STAGED,
    "OrderedMapPeek": _STAGED,
    "OrderedMapUnstage": _STAGED,
    "OrderedMapUnstageNoKey": _STAGED,
    "StagePeek": _STAGED,
    "Unstage": _STAGED,
    "EagerPyFunc": _PYTHON,
    "PyFunc": _PYTHON,
    "PyFuncStateless": _PYTHON,
    "ReadFile": _FILE,
    "ReaderRead": _FILE,
    "ReaderReadUpTo": _FILE,
    "ReaderReadUpToV2": _FILE,
    "ReaderReadV2": _FILE,
    "RecordInput": _FILE,
    "Skipgram": _FILE,
    "InfeedDequeue": _DEVICE,
    "InfeedDequeueTuple": _DEVICE,
}


def sources(view: GraphView, targets: Iterable[str]) -> List[str]:
    """The nodes that bring data from outside into a run of `targets`, in the order of the graph.

    Ancestors of a source aren't examined: if a queue's output is fed, the queue isn't filled. Those
    of a Python function are: it may change gradients, which a conversion looks at before.
    """
    run = needed(view, targets)
    return [name for name, node in view.nodes.items() if name in run and is_source(node)]


def needed(view: GraphView, targets: Iterable[str]) -> Set[str]:
    """The nodes that a run of `targets` needs, up to the sources, by data and control."""

    def before(name: str) -> List[str]:
        if is_source(view.nodes[name]) and not is_python(view.nodes[name]):
            return []
        return [port.node for port in view.inputs(name)] + list(view.controls(name))

    return reached(targets, before)


def is_python(node: tf.NodeDef) -> bool:
    """Whether a node is a source that calls a Python function."""
    return SOURCES.get(node.op) == _PYTHON and is_source(node)


def is_source(node: tf.NodeDef) -> bool:
    """Whether a node's op is a source.

    A Python function without results brings no data. A sparse tensor of a dataset's element is made
    of a variant, which can't be fed; one that is made of strings, which can, is computed.
    """
    if node.op == "DeserializeSparse":
        return "Tserialized" in node.attr and node.attr["Tserialized"].type == VARIANT
    return node.op in SOURCES and not ("Tout" in node.attr and not node.attr["Tout"].list.type)
