"""Clipping by a global norm: the products with a factor, and the values of the norm."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Iterator, NamedTuple, Optional, Set

from graphmp.graph.structure.gradient_code import gradient_code
from graphmp.graph.structure.view import GraphView, Port
from graphmp.verify.scales.scales import Scales
from graphmp.verify.sides import Fault, Sides
from graphmp.verify.structure.matcher import Bindings, Matcher


class Clip(NamedTuple):
    """One clip.

    Attributes:
        norm: the largest norm after it.
        of: the outputs of which the norm is taken.
    """

    norm: float
    of: FrozenSet[Port]


class Clips:
    """The clips of a converted graph.

    Attributes:
        by_factor: each clip by the output that is its factor.
        multiplied: the nodes that multiply a gradient by a factor, with that.
        nodes: the nodes that compute factors.
    """

    def __init__(self, sides: Sides, matcher: Matcher):
        self._sides, self._matcher = sides, matcher
        self._view: GraphView = sides.after.view
        self._factors: Dict[Port, Optional[Clip]] = {}
        self.by_factor: Dict[Port, Clip] = {}
        self.multiplied: Dict[str, Port] = {}
        self.nodes: Set[str] = set()

    def clipped(self, port: Port) -> Optional[Port]:
        """The unclipped value of an output; None if it isn't clipped."""
        inputs = self._view.inputs(port.node)
        if (
            self._view.nodes[port.node].op != "Mul"
            or port.node not in self._sides.added
            or self._view.controls(port.node)
        ):
            return None
        factor = self._matcher.plain(inputs[1])
        clip = self._clip(factor)
        if clip is None or self._matcher.plain(inputs[0]) not in clip.of:
            return None
        self.by_factor[factor] = clip
        self.multiplied[port.node] = factor
        return inputs[0]

    def plain(self, port: Port) -> Port:
        """The output behind copies."""
        return self._matcher.plain(port)

    def _clip(self, factor: Port) -> Optional[Clip]:
        if factor not in self._factors:
            self._factors[factor] = self._read(factor)
        return self._factors[factor]

    def _read(self, factor: Port) -> Optional[Clip]:
        found = self._matcher.match("clip", factor)
        of = self._squared(found) if found is not None else None
        if found is None or of is None:
            return None
        self._explain(found)
        return Clip(found["NORM"], of)

    def _squared(self, found: Bindings) -> Optional[FrozenSet[Port]]:
        """The outputs of which a norm is taken; for a norm of norms, those of the inner norms."""
        every: Set[Port] = set()
        for port in found["squares"]:
            square = self._matcher.match("square", port)
            if square is None:
                return None
            self._explain(square)
            inner = self._matcher.match("norm", square["x"])
            of = self._squared(inner) if inner is not None else frozenset((square["x"],))
            if of is None:
                return None
            self._explain(inner or {})
            every |= of
        return frozenset(every)

    def _explain(self, found: Bindings) -> None:
        self.nodes |= set(self._matcher.keep(found).get("", ()))


def clip_faults(
    sides: Sides, scales: Scales, clips: Clips, unscaled: Iterable[Port]
) -> Iterator[Fault]:
    """Gradients that reach a write past a clip, and norms of values other than the clipped ones.

    Args:
        sides: the body.
        scales: its scales.
        clips: its clips.
        unscaled: outputs that were divided by a loss scale.
    """
    view, state = sides.after.view, sides.after.state
    multiplied: Dict[Clip, Set[Port]] = {}
    for name, factor in clips.multiplied.items():
        multiplied.setdefault(clips.by_factor[factor], set()).add(clips.plain(view.inputs(name)[0]))
    for clip, clipped in multiplied.items():
        for port in sorted(clip.of - clipped):
            yield Fault(port.node, "counts in the norm of a clip, and is not clipped by it")
    yield from _parted(sides, clips)
    past = _past(sides, scales, clips, unscaled)
    for name in sorted(past & set(state.writes)):
        if not state.written(name) & scales.variables and "Accumulator" not in view.nodes[name].op:
            yield Fault(name, "takes a gradient that is not clipped")
    for name in sorted(_fetched(sides, clips)):
        yield Fault(
            name, "gives a clipped gradient to whoever fetches it, and is there for nothing else"
        )


def _parted(sides: Sides, clips: Clips) -> Iterator[Fault]:
    """Gradients of one step that are clipped by several norms, each of a part of them.

    They come of one call of tf.gradients, or a write takes them together.
    """
    view, writes = sides.after.view, set(sides.after.state.writes)
    scopes = {
        name: scope for scope, names in gradient_code(sides.before.view).items() for name in names
    }
    of_calls: Dict[str, Clip] = {}
    of_writes: Dict[str, Clip] = {}
    for name, factor in sorted(clips.multiplied.items()):
        clip = clips.by_factor[factor]
        behind = view.traced([name], lambda other: other not in scopes)
        given = {port.node for each in behind for port in view.inputs(each)}
        calls = sorted({scopes[other] for other in given & scopes.keys()})
        if any(of_calls.setdefault(call, clip) != clip for call in calls):
            yield Fault(name, "clips a gradient, and not together with others of its loss")
        found = view.followed(
            [name], lambda other: other not in writes and other not in clips.multiplied
        )
        readers = {consumer.node for each in found for consumer in view.consumers(each)}
        for write in sorted(readers & writes):
            if of_writes.setdefault(write, clip) != clip:
                yield Fault(write, "takes gradients that are not clipped together")


def _fetched(sides: Sides, clips: Clips) -> Iterator[str]:
    """Unread copies of a clipped gradient, such as the original's gradients end with.

    They read it directly or through added nodes.
    """
    view = sides.after.view
    by_added = view.followed(clips.multiplied, lambda name: name in sides.added)
    for name in {
        consumer.node for each in by_added for consumer in view.consumers(each)
    } - sides.added:
        if (
            view.nodes[name].op == "Identity" and view.controls(name) and not view.consumers(name)
        ):  # tf.gradients makes them wait for each other
            yield name


def _past(sides: Sides, scales: Scales, clips: Clips, unscaled: Iterable[Port]) -> Set[str]:
    """Nodes reached by data from unscaled gradients and inputs of norms, not through a clip."""
    view = sides.after.view
    starts = [*unscaled, *(port for clip in clips.by_factor.values() for port in clip.of)]
    aside = {*clips.multiplied, *clips.nodes, *scales.nodes}
    return view.followed(
        (c.node for port in starts for c in view.consumers(port.node)),
        lambda name: name not in aside,
    )
