"""Values of scaled gradient code that sessions fetch and feed: as the script built them.

1. A fetched value is divided by the scale of its step, in float32: by the division that the
   conversion has, or by one that is added.
2. A fed value is multiplied by the scale where gradient code reads on. All else gets it as it is,
   also the casts to the original's dtype.
3. A run that is fed gradients, or what is made of them, may not need gradient code that its finite
   check and the measure of a first step read. Then both look at what is fed.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import ancestors, is_half
from graphmp.graph.structure.view import Port
from graphmp.naming import SIBLING
from graphmp.scaling.insertion.as_built import AsBuilt, Scaled
from graphmp.session.live.cloning.stand_ins import StandIns
from graphmp.session.live.not_finite.watch import WATCH_SCOPE
from graphmp.session.live.run_key import cut
from graphmp.tf_hooks.internals import outside

_MEASURE = "%s_of/largest"  # of a first step, by what it replaces


class Feed(NamedTuple):
    """A tensor to feed: the value times a power of a scale, None for a power of 0."""

    tensor: Any
    scale: Optional[Any] = None
    power: int = 0

    def of(self, value: Any, number: Callable[[Any], float]) -> Any:
        """The value to feed; `number` returns the value of a scale."""
        if not isinstance(value, np.ndarray) or not self.tensor.dtype.is_floating:
            return value
        with np.errstate(over="ignore"):
            if self.scale is not None:
                value = value * value.dtype.type(number(self.scale) ** self.power)
            return value.astype(self.tensor.dtype.base_dtype.as_numpy_dtype)


class Feeding(NamedTuple):
    """The tensors to feed for some tensors of the original.

    Attributes:
        feeds: those of each of them.
        behind: the places of those that gradient code computes, or that are made of gradients.
        flags: results of finite checks: whether what is fed there is finite.
        measures: the largest gradients that first steps measure: what is fed there.
        cut: names of the tensors that are fed though the graph could compute them.
    """

    feeds: Sequence[Sequence[Feed]]
    behind: Sequence[int] = ()
    flags: Sequence[Any] = ()
    measures: Sequence[Any] = ()
    cut: FrozenSet[str] = frozenset()

    @property
    def tensors(self) -> List[Any]:
        """All of them."""
        return [feed.tensor for feeds in self.feeds for feed in feeds] + [
            *self.flags,
            *self.measures,
        ]

    def values(self, given: Sequence[Any], number: Callable[[Any], float]) -> List[Any]:
        """The values to feed, one for each of `tensors`.

        Args:
            given: the values for the original's tensors.
            number: returns the value of a scale.
        """
        found = [
            feed.of(value, number) for feeds, value in zip(self.feeds, given) for feed in feeds
        ]
        behind = [np.asarray(given[place], np.float32) for place in self.behind]
        largest = np.max([0.0, *(np.abs(value).max() for value in behind if value.size)])
        finite, measured = np.array(np.isfinite(largest)), np.array(largest, np.float32)
        return [*found, *[finite] * len(self.flags), *[measured] * len(self.measures)]


class GradientValues:
    """The values of scaled gradient code of one conversion."""

    def __init__(self, stand_ins: StandIns, as_built: Sequence[AsBuilt] = ()):
        """Nothing is added to the graph yet.

        Args:
            stand_ins: the conversion's clones.
            as_built: what it knows of each loss.
        """
        self._stand_ins, self._as_built = stand_ins, as_built
        self._originals = stand_ins.originals()
        self._nodes: AbstractSet[str] = frozenset().union(*(each.nodes for each in as_built))
        self._divided: Dict[Port, Any] = {}
        self._follows: Dict[str, bool] = {}  # for each op that was fed
        self._feedings: Dict[Any, Feeding] = {}

    def fetched(self, tensor: Any) -> Any:
        """The tensor to fetch in place of a tensor."""
        port = Port(tensor.op.name, tensor.value_index)
        for each in self._as_built:
            if port in each.fetched:
                return self._unscaled(tensor.graph, each, each.fetched[port])
        return None

    def _unscaled(self, graph: Any, values: AsBuilt, scaled: Scaled) -> Any:
        found = self._tensor(graph, scaled.port)
        if not scaled.power:
            return found
        with outside(graph), own_scope(WATCH_SCOPE):
            if scaled.port not in self._divided:
                value = tf.cast(found, tf.float32) if is_half(found.dtype) else found
                scale = tf.cast(self._tensor(graph, Port(values.scale, 0)), value.dtype)
                self._divided[scaled.port] = tf.raw_ops.RealDiv(
                    x=value, y=tf.pow(scale, float(scaled.power)), name="unscaled"
                )
        return self._divided[scaled.port]

    def feeding(
        self,
        stand_ins: StandIns,
        tensors: Sequence[Any],
        ran: Sequence[Any],
        runs: Sequence[Any],
    ) -> Feeding:
        """The tensors to feed for some tensors of the original.

        Args:
            stand_ins: the conversion's clones, and those of later nodes.
            tensors: the original's.
            ran: the ops that the script runs and fetches from.
            runs: those that run in their stead.
        """
        if not stand_ins.names:
            return Feeding([[Feed(tensor)] for tensor in tensors])
        key = (stand_ins, *(tensor.name for tensor in tensors), *ran, *runs)
        if key not in self._feedings:
            feeds = [list(self._fed(stand_ins, tensor)) for tensor in tensors]
            fed = [feed.tensor for each in feeds for feed in each]
            behind = [place for place, t in enumerate(tensors) if self._follows_gradients(t)]
            flags, measures = self._cut(tensors, ran, runs, fed) if behind else ([], [])
            self._feedings[key] = Feeding(
                feeds, behind, flags, measures, cut([*fed, *flags, *measures])
            )
        return self._feedings[key]

    def _cut(
        self, tensors: Sequence[Any], ran: Sequence[Any], runs: Sequence[Any], fed: Sequence[Any]
    ) -> Tuple[List[Any], List[Any]]:
        """The finite checks and measures that need gradient code which the original wouldn't."""
        graph, named = tensors[0].graph, {tensor.name for tensor in fed}
        needed = {op.name for op in ancestors(ran, fed={tensor.name for tensor in tensors})}
        running = {op.name for op in ancestors(runs, fed=named)}

        def reads_more(values: AsBuilt, name: str) -> Iterator[Any]:
            if self._stand_ins.names.get(name) in running:
                op = self._stand_ins.named(graph, name)
                read = {self._original(each) for each in ancestors([op], fed=named)}
                if not read.isdisjoint(values.nodes - needed):
                    yield op.outputs[0]

        return (
            [t for each in self._as_built for t in reads_more(each, each.finite)],
            [t for each in self._as_built for t in reads_more(each, _MEASURE % each.largest)],
        )

    def _fed(self, stand_ins: StandIns, tensor: Any) -> Iterator[Feed]:
        for feed in self._stands(stand_ins, tensor):
            yield feed
            for cast in _casts_back(feed.tensor, tensor.dtype.base_dtype):
                yield feed._replace(tensor=cast)

    def _stands(self, stand_ins: StandIns, tensor: Any) -> Iterator[Feed]:
        """The tensors that have the value of one of the original, or a multiple of it."""
        graph, port = tensor.graph, Port(tensor.op.name, tensor.value_index)
        values = next((each for each in self._as_built if port in each.fed), None)
        if values is None:
            yield Feed(stand_ins.tensor(tensor))
            return
        for scaled in values.fed[port]:
            scale = self._tensor(graph, Port(values.scale, 0)) if scaled.power else None
            yield Feed(self._tensor(graph, scaled.port), scale, scaled.power)

    def _follows_gradients(self, tensor: Any) -> bool:
        name = tensor.op.name
        if name not in self._follows:
            self._follows[name] = bool(self._nodes) and not self._nodes.isdisjoint(
                op.name for op in ancestors([tensor.op])
            )
        return self._follows[name]

    def _original(self, op: Any) -> str:
        return self._originals.get(op.name, op.name)

    def _tensor(self, graph: Any, port: Port) -> Any:
        return self._stand_ins.named(graph, port.node).outputs[port.output]


def _casts_back(tensor: Any, dtype: Any) -> List[Any]:
    """The casts of a half-precision tensor to the dtype that the original has."""
    if not is_half(tensor.dtype) or tensor.dtype == dtype:
        return []
    casts = (op for op in tensor.consumers() if op.type == "Cast" and SIBLING.match(op.name))
    return [op.outputs[0] for op in casts if op.outputs[0].dtype == dtype]
