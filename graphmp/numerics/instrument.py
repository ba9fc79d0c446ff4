"""Putting measurements into a graph: each measured tensor adds to its row of two tables, in while loops too."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.building import SCOPE
from graphmp.graph.dtypes import FLOAT32, FLOAT64, INT32, RESOURCE
from graphmp.graph.frames import ENTERS, EXITS, frames
from graphmp.graph.view import GraphView, parse_input
from graphmp.numerics.measure import COLUMNS, call, measuring_function
from graphmp.policy.formats import Format

PREFIX = SCOPE + "/audit"
SUMS, MAXIMA = PREFIX + "/sums", PREFIX + "/maxima"
_WITHOUT_CONTROL = frozenset(("Merge", "RefMerge", "LoopCond", "Exit", "RefExit"))  # what must not wait inside a loop


class Measured(NamedTuple):
    """A tensor to measure: its input string, its DataType, and the input string of what it is multiplied by first, empty for 1."""

    text: str
    dtype: int
    scale: str


class Instrument:
    """The measurements of one graph.

    Attributes:
        targets: for each of the tensors the op to run; empty for one in a while loop, which runs with the loop, or one that can't be measured.
        left_out: numbers of those that can't be: in a loop where nothing reads them in the same step of it.
    """

    def __init__(self, graph_def: tf.GraphDef, format_: Format, measured: List[Measured]):
        """Adds the measurements to the graph.

        Args:
            graph_def: the graph, which is changed.
            format_: what is counted against.
            measured: the tensors.
        """
        self._graph_def = graph_def
        self._view = GraphView(graph_def)
        self._frames = frames(self._view)
        self._parallel = {
            node.attr["frame_name"].s.decode("utf-8"): node.attr["parallel_iterations"].i for node in graph_def.node if node.op in ENTERS
        }
        self._entered: Dict[Tuple[str, Tuple[str, ...]], str] = {}
        self.targets: List[str] = []
        self.left_out: List[int] = []
        self._add_tables(len(measured))
        graph_def.library.function.add().CopyFrom(measuring_function(format_))
        self._one = self._constant("one", 1.0, tf.float32)
        for number, each in enumerate(measured):
            self.targets.append(self._measure(number, each))

    def _add_tables(self, rows: int) -> None:
        for name, dtype, shape in ((SUMS, FLOAT64, [rows, COLUMNS]), (MAXIMA, FLOAT32, [rows])):
            node = self._graph_def.node.add(name=name, op="VarHandleOp")
            node.attr["dtype"].type = dtype
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
            node.attr["shared_name"].s = name.encode("utf-8")

    def _constant(self, name: str, value: Any, dtype: Any) -> str:
        node = self._graph_def.node.add(name="%s/%s" % (PREFIX, name), op="Const")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
        return str(node.name)

    def _measure(self, number: int, each: Measured) -> str:
        """Adds one measurement; returns the op to run."""
        port = parse_input(each.text)
        path = self._frames.get(port.node, ())
        path = path[:-1] if self._view.nodes[port.node].op in EXITS else path
        waiting = self._waiting(port.node, path) if path else ""
        if path and not waiting:
            self.left_out.append(number)
            return ""
        name = "%s/measure_%d" % (PREFIX, number)
        row = self._enter(self._constant("row_%d" % number, number, tf.int32), INT32, path)
        tables = [self._enter(table, RESOURCE, path) for table in (SUMS, MAXIMA)]
        scale = self._enter(each.scale or self._one, FLOAT32, path)
        self._graph_def.node.add().CopyFrom(call(name, self._float32(number, each), scale, row, tables))
        if not path:
            return name
        self._nodes[waiting].input.append("^" + name)
        return ""

    @property
    def _nodes(self) -> Any:
        return self._view.nodes

    def _waiting(self, name: str, path: Tuple[str, ...]) -> str:
        """A node of the same frame that reads a tensor, and can be made to wait for its measurement; empty where there is none."""
        readers = (consumer.node for consumer in self._view.consumers(name))
        return next((r for r in readers if self._frames.get(r) == path and self._nodes[r].op not in _WITHOUT_CONTROL | ENTERS), "")

    def _float32(self, number: int, each: Measured) -> str:
        if each.dtype == FLOAT32:
            return each.text
        node = self._graph_def.node.add(name="%s/float32_%d" % (PREFIX, number), op="Cast")
        node.input.append(each.text)
        node.attr["SrcT"].type = each.dtype
        node.attr["DstT"].type = FLOAT32
        return str(node.name)

    def _enter(self, text: str, dtype: int, path: Tuple[str, ...]) -> str:
        """A value from outside of all loops, brought into nested ones."""
        if not path:
            return text
        key = (text, path)
        if key not in self._entered:
            outside = self._enter(text, dtype, path[:-1])
            node = self._graph_def.node.add(name="%s/enter_%d" % (PREFIX, len(self._entered)), op="Enter")
            node.input.append(outside)
            node.attr["T"].type = dtype
            node.attr["frame_name"].s = path[-1].encode("utf-8")
            node.attr["is_constant"].b = True
            node.attr["parallel_iterations"].i = self._parallel[path[-1]]
            self._entered[key] = str(node.name)
        return self._entered[key]
