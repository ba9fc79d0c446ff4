"""Inserting measurements: each tensor adds to its row of two tables, also inside while loops.

One call measures up to 16 tensors of similar size, adjacent in the graph, since a call costs more
than a small tensor. Tensors of a call wait for each other, so that

1. only tensors that always run share a call: each tensor in a loop or on one side of a branch has a
   call of its own;
2. together they have at most MOST_ELEMENTS, by recorded shapes: a large tensor is reduced at once.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.audit.measure.reduction import signs
from graphmp.audit.measure.statistics import COLUMNS, SHARED, call, measuring_function
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import frames, outputs_frame
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT32, FLOAT64
from graphmp.policy.formats import Format
from graphmp.policy.op_sets import ENTERS, EXITS, MERGES

PREFIX = SCOPE + "/measurement"  # not used by any graph that is measured
SUMS, MAXIMA = PREFIX + "/sums", PREFIX + "/maxima"
TOGETHER = (16, 4, 1)  # tensors in a call: few different numbers, since each is a function
MOST_ELEMENTS = 2**17
LEAST_ELEMENTS = 2**10
_WITHOUT_CONTROL = MERGES | EXITS | {"LoopCond"}  # must not wait inside a loop


class MeasuredTensor(NamedTuple):
    """A tensor to measure.

    Attributes:
        text: its input string.
        dtype: its DataType.
        scale: the input string of its factor, empty for 1.
        elements: its number of elements at most.
        compared: whether it is only compared with another: its sketch, and whether it is finite.
    """

    text: str
    dtype: int
    scale: str = ""
    elements: int = 1
    compared: bool = False


class Instrument:
    """The measurements of one graph.

    Attributes:
        target: the op to run for those outside of while loops; the others run with their loops.
        left_out: indices of tensors that can't be measured: in a loop that doesn't read them in the
            same iteration.
    """

    def __init__(self, graph_def: tf.GraphDef, format_: Format, measured: List[MeasuredTensor]):
        """Add the measurements to the graph.

        Args:
            graph_def: the graph, which is changed.
            format_: the half-precision format.
            measured: the tensors.
        """
        self._graph_def = graph_def
        self._format = format_
        self._measured = measured
        self._view = GraphView(graph_def)
        self._frames = frames(self._view)
        self._parallel = {
            node.attr["frame_name"].s.decode("utf-8"): node.attr["parallel_iterations"].i
            for node in graph_def.node
            if node.op in ENTERS
        }
        self._entered: Dict[Tuple[str, Tuple[str, ...]], str] = {}
        self._functions: Set[Tuple[bool, int]] = set()
        self.left_out: List[int] = []
        self._add_tables(len(measured))
        self._one = self._constant("one", 1.0, tf.float32)
        self._signs = self._constant("signs", signs(), tf.float32)
        self.target = self._measure_all()

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

    def _measure_all(self) -> str:
        """Add all calls; return an op that runs those outside of loops."""
        alone, together, calls = conditional(self._view), [], []
        for number, each in enumerate(self._measured):
            path = self._path(each.text)
            waiting = self._waiting(parse_input(each.text).node, path) if path else ""
            if waiting:
                self._view.nodes[waiting].input.append("^" + self._measure([number], path))
            elif path:
                self.left_out.append(number)
            elif parse_input(each.text).node in alone:
                calls.append(self._measure([number], ()))
            else:
                together.append(number)
        calls += [self._measure(numbers, ()) for numbers in self._groups(together)]
        node = self._graph_def.node.add(name=PREFIX + "/measured", op="NoOp")
        node.input.extend("^" + name for name in calls)
        return str(node.name)

    def _path(self, text: str) -> Tuple[str, ...]:
        """The while frames that contain a tensor."""
        return outputs_frame(self._view, parse_input(text).node)

    def _waiting(self, name: str, path: Tuple[str, ...]) -> str:
        """A consumer of a tensor in the same frame that can wait for its measurement.

        Empty if none.
        """
        readers = (consumer.node for consumer in self._view.consumers(name))
        return next(
            (
                r
                for r in readers
                if self._frames.get(r) == path
                and self._view.nodes[r].op not in _WITHOUT_CONTROL | ENTERS
            ),
            "",
        )

    def _groups(self, numbers: Iterable[int]) -> Iterator[List[int]]:
        """Tensors of one call each, by index.

        They have one scale and kind and similar sizes; their number is one of TOGETHER.
        """
        alike: Dict[Tuple[str, bool, int], List[int]] = {}
        for number in numbers:
            each = self._measured[number]
            alike.setdefault(
                (each.scale, each.compared, max(each.elements, LEAST_ELEMENTS).bit_length()), []
            ).append(number)
        for group in alike.values():
            while group:
                fits = max(
                    1, MOST_ELEMENTS // max(self._measured[number].elements for number in group)
                )
                count = next(count for count in TOGETHER if count <= min(fits, len(group)))
                yield group[:count]
                del group[:count]

    def _measure(self, numbers: List[int], path: Tuple[str, ...]) -> str:
        """Add a call, and its function if it is the first of its kind; return the call's name."""
        first = self._measured[numbers[0]]
        kind = first.compared, len(numbers)
        if kind not in self._functions:
            self._functions.add(kind)
            self._graph_def.library.function.add().CopyFrom(measuring_function(self._format, *kind))
        rows = self._constant("rows_%d" % numbers[0], numbers, tf.int32)
        texts = (first.scale or self._one, self._signs, SUMS, MAXIMA, rows)
        shared = [self._enter(text, dtype, path) for text, dtype in zip(texts, SHARED.values())]
        node = call(
            "%s/measure_%d" % (PREFIX, numbers[0]),
            first.compared,
            [self._float32(number) for number in numbers],
            shared,
        )
        self._graph_def.node.add().CopyFrom(node)
        return str(node.name)

    def _float32(self, number: int) -> str:
        each = self._measured[number]
        if each.dtype == FLOAT32:
            return each.text
        node = self._graph_def.node.add(name="%s/float32_%d" % (PREFIX, number), op="Cast")
        node.input.append(each.text)
        node.attr["SrcT"].type = each.dtype
        node.attr["DstT"].type = FLOAT32
        return str(node.name)

    def _enter(self, text: str, dtype: int, path: Tuple[str, ...]) -> str:
        """A value from outside of all loops, passed into nested ones."""
        if not path:
            return text
        key = (text, path)
        if key not in self._entered:
            outside = self._enter(text, dtype, path[:-1])
            node = self._graph_def.node.add(
                name="%s/enter_%d" % (PREFIX, len(self._entered)), op="Enter"
            )
            node.input.append(outside)
            node.attr["T"].type = dtype
            node.attr["frame_name"].s = path[-1].encode("utf-8")
            node.attr["is_constant"].b = True
            node.attr["parallel_iterations"].i = self._parallel[path[-1]]
            self._entered[key] = str(node.name)
        return self._entered[key]
