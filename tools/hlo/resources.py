"""Replacement of reference variables by resource variables: XLA supports no references.

1. VariableV2 -> VarHandleOp, under its own name.
2. An op on references -> the corresponding op on resources, named in IRREGULAR or else `Resource`
   and its name: ApplyAdam(var, m, v, ...) -> ResourceApplyAdam. If its reference is the output of
   another write, it takes the handle, and waits for that write.
3. A reference read as a value -> a new ReadVariableOp, which waits for all other inputs of its
   reader too, because a reference is read when its reader runs.
4. Attributes are kept if the new op has them; T of the reference may be named dtype there.
"""

from __future__ import annotations

from typing import AbstractSet, Mapping, NamedTuple, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import CONTROL, GraphView, Port
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.tf_hooks.op_defs import OpDefs, Signature

IRREGULAR = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
    "IsVariableInitialized": "VarIsInitializedOp",
    "Variable": "VarHandleOp",
    "VariableV2": "VarHandleOp",
}


class _Reference(NamedTuple):
    """The variable of a reference, and the write that returned it, or "" for the variable's own."""

    variable: str
    write: str


def with_resource_variables(graph_def: tf.GraphDef, op_defs: OpDefs) -> tf.GraphDef:
    """A copy of a graph with resource variables only; names are unchanged.

    Raises:
        GraphmpError: GMP020 for an op on a reference without a corresponding op on a resource.
    """
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    _Rewrite(GraphView(graph_def), op_defs, Editor(result)).apply()
    return result


class _Rewrite:
    """The conversion of one graph: `view` is the original, `editor` changes the copy."""

    def __init__(self, view: GraphView, op_defs: OpDefs, editor: Editor):
        self._view, self._op_defs, self._editor = view, op_defs, editor

    def apply(self) -> None:
        for name, node in self._view.nodes.items():
            signature = self._op_defs.signature(node)
            if signature is not None:
                self._inputs(name, signature)
                if any(port.is_ref for port in (*signature.inputs, *signature.outputs)):
                    self._namesake(name, signature)

    def _inputs(self, name: str, signature: Signature) -> None:
        for slot, (port, kind) in enumerate(zip(self._view.inputs(name), signature.inputs)):
            reference = self._reference(port)
            if reference is None:
                continue
            if kind.is_ref:
                self._editor.connect(name, slot, Port(reference.variable, 0))
                self._editor.wait_for(name, filter(None, [reference.write]))
            else:
                self._editor.connect(name, slot, self._read(reference, name, kind.dtype))

    def _read(self, reference: _Reference, reader: str, dtype: int) -> Port:
        inputs = (
            port.node
            for port in self._view.inputs(reader)
            if self._view.nodes[port.node].op not in VARIABLE_OPS
        )
        after = [
            Port(node, CONTROL) for node in dict.fromkeys((*self._view.controls(reader), *inputs))
        ]
        return self._editor.add(
            "%s/ReadVariableOp" % reader,
            "ReadVariableOp",
            [Port(reference.variable, 0), *after],
            dtype=dtype,
        )

    def _reference(self, port: Port) -> Optional[_Reference]:
        """The reference at an output; None if the output is a value."""
        write = ""
        while port.output >= 0:
            node = self._view.nodes[port.node]
            signature = self._op_defs.signature(node)
            if signature is None or not signature.output(port.output).is_ref:
                return None
            if node.op in VARIABLE_OPS:
                return _Reference(port.node, write)
            write = write or port.node
            port = self._view.inputs(port.node)[0]
        return None

    def _namesake(self, name: str, signature: Signature) -> None:
        """Turn an op on references into the corresponding op on resources."""
        node = self._editor.nodes[name]
        definition = self._op_defs.get(IRREGULAR.get(node.op, "Resource" + node.op))
        if definition is None or not any(
            a.type == tf.resource.as_datatype_enum
            for a in (*definition.input_arg, *definition.output_arg)
        ):
            text = (
                "node %s: %s takes a reference to a variable, and no op of TensorFlow %s does "
                "the same to a resource variable, which XLA wants"
            )
            raise GraphmpError("GMP020", text % (name, node.op, tf.__version__))
        kept = {a.name for a in definition.attr}
        if "dtype" in kept and "dtype" not in node.attr and "T" in node.attr:
            node.attr["dtype"].CopyFrom(node.attr["T"])
        for attribute in [key for key in node.attr if key not in kept]:
            del node.attr[attribute]
        if (
            node.op in VARIABLE_OPS and not node.attr["shared_name"].s
        ):  # handles without a name share one variable
            node.attr["shared_name"].s = name.encode("utf-8")
        node.op = definition.name


def reads_first(graph_def: tf.GraphDef) -> None:
    """Order each read of a variable before the writes that no edge orders it with.

    A session mostly runs them in this order; XLA takes any. A pair whose order would close a cycle
    is left unordered.
    """
    view = GraphView(graph_def)
    nodes = {node.name: node for node in graph_def.node}
    before = {
        name: {*(port.node for port in view.inputs(name)), *view.controls(name)}
        for name in view.nodes
    }
    for variable in [node.name for node in graph_def.node if node.op == "VarHandleOp"]:
        users = sorted({consumer.node for consumer in view.consumers(variable)})
        reads = [name for name in users if nodes[name].op in _READS]
        for write in (name for name in users if nodes[name].op not in _READS):
            ahead = _closure(before, write)
            for read in reads:
                if read not in ahead and write not in _closure(before, read):
                    nodes[write].input.append("^" + read)
                    before[write].add(read)


_READS = frozenset(
    ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp", "VariableShape")
)


def _closure(before: Mapping[str, AbstractSet[str]], name: str) -> Set[str]:
    """A node and all its dependencies."""
    seen, waiting = {name}, [name]
    while waiting:
        fresh = before[waiting.pop()] - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen
