"""Look-ups: the number of rows, classes or positions for the integers that an op reads."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

from graphmp.feeds.shapes import Shapes
from graphmp.feeds.uses import ValueUse, carried_from, integer
from graphmp.feeds.wanted import Shape
from graphmp.graph.shapes.shapes import dimensions_of
from graphmp.graph.structure.view import Port


def looked_up(shapes: Shapes, use: ValueUse) -> Shape:
    """Exclusive bounds of a value at a use, None where unknown; None if nothing is looked up."""
    rule = _LOOKS_UP.get((use.node.op, use.slot))
    return rule(shapes, use) if rule else None


def _rows(shapes: Shapes, use: ValueUse) -> Shape:
    """Gather: the rows of the table, along the axis."""
    table = _table(shapes, use)
    inputs = shapes.view.inputs(use.node.name)
    axis = (integer(shapes.view, inputs[2]) or 0) if len(inputs) > 2 else 0
    return table[axis:][:1] if table else None


def _positions(shapes: Shapes, use: ValueUse) -> Shape:
    """GatherNd: the dimensions that an index selects from."""
    table, indices = _table(shapes, use), shapes.of(use.port)
    return table[: indices[-1] if indices else None] if table else None


def _table(shapes: Shapes, use: ValueUse) -> Shape:
    """The shape of a table; for a resource, of its variable."""
    handle = shapes.view.nodes[carried_from(shapes.view, shapes.view.inputs(use.node.name)[0]).node]
    if not use.node.op.startswith("Resource"):
        return shapes.operand(use, 0)
    return dimensions_of(handle.attr["shape"].shape) if "shape" in handle.attr else None


def _result(shapes: Shapes, use: ValueUse) -> Shape:
    """Scattering: the dimensions of the result."""
    return shapes.of(Port(use.node.name, 0)) or None


def _first_of_result(shapes: Shapes, use: ValueUse) -> Shape:
    """Segments: the rows of the result."""
    return (shapes.of(Port(use.node.name, 0)) or ())[:1] or None


def _classes(shapes: Shapes, use: ValueUse) -> Shape:
    """Labels: the columns of the logits."""
    return (shapes.logits(use) or ())[-1:] or None


def _letters(shapes: Shapes, use: ValueUse) -> Shape:
    """Labels of a CTC loss: the columns of the logits, minus the blank."""
    return (
        tuple(None if columns is None else columns - 1 for columns in _classes(shapes, use) or ())
        or None
    )


def _depth(shapes: Shapes, use: ValueUse) -> Shape:
    """OneHot: its depth."""
    depth = integer(shapes.view, shapes.view.inputs(use.node.name)[1])
    return None if depth is None else (depth,)


def _candidates(shapes: Shapes, use: ValueUse) -> Shape:
    """Sampled losses: the classes that are sampled from."""
    return (int(use.node.attr["range_max"].i),) if "range_max" in use.node.attr else None


# By op type and input.
_LOOKS_UP: Dict[Tuple[str, int], Callable[[Shapes, ValueUse], Shape]] = {
    ("CTCLoss", 2): _letters,
    ("FixedUnigramCandidateSampler", 0): _candidates,
    ("Gather", 1): _rows,
    ("GatherNd", 1): _positions,
    ("GatherV2", 1): _rows,
    ("InTopK", 1): _classes,
    ("InTopKV2", 1): _classes,
    ("LearnedUnigramCandidateSampler", 0): _candidates,
    ("LogUniformCandidateSampler", 0): _candidates,
    ("OneHot", 0): _depth,
    ("ResourceGather", 1): _rows,
    ("ResourceGatherNd", 1): _positions,
    ("ScatterNd", 0): _result,
    ("SparseSoftmaxCrossEntropyWithLogits", 1): _classes,
    ("SparseToDense", 0): _result,
    ("ThreadUnsafeUnigramCandidateSampler", 0): _candidates,
    ("UniformCandidateSampler", 0): _candidates,
    ("UnsortedSegmentSum", 1): _first_of_result,
}
