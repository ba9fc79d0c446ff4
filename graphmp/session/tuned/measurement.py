"""The costs of a graph's operations, from training steps of a session."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, Optional

from graphmp.graph.io.messages import serialize
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.report.facts import half_ops
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.steps import casts
from graphmp.session.steps.traced_tensors import tensors_in
from graphmp.session.steps.traces import Traces
from graphmp.session.tuned.tracing import Tracing
from graphmp.session.tuned.turn import nodes_of
from graphmp.tuning import files
from graphmp.tuning.costs import FLOAT32, HALF, Costs
from graphmp.tuning.machine import this_machine

_CASTS = 1.0  # seconds for timing casts alone
_SOURCE = "a session's training steps"


class Measurement:
    """The measurements of a graph's operations.

    Attributes:
        costs: their times; None until they are measured.
    """

    def __init__(self, by_bytes: LiveConversion, half: LiveConversion):
        """Nothing is measured yet.

        Args:
            by_bytes: the graph's conversion, with both graphs.
            half: the one with everything in half precision that may be, with both graphs.
        """
        self.costs: Optional[Costs] = None
        self._by_bytes = by_bytes
        self._half = half

    @contextlib.contextmanager
    def costs_file(
        self, steps: Tracing, compute_dtype: str, batch_size: Optional[int]
    ) -> Iterator[str]:
        """Make costs of traced steps; the path of a file of them, as long as it is needed.

        Args:
            steps: the traced steps.
            compute_dtype: of the conversion.
            batch_size: the first dimension of what they were fed; None if nothing was.
        """
        self.costs = self._measured(steps, compute_dtype, batch_size)
        with tempfile.TemporaryDirectory(prefix="graphmp_") as name:
            path = pathlib.Path(name) / "session.costs"
            path.write_bytes(files.dumps(self.costs))
            yield str(path)

    def _measured(self, steps: Tracing, dtype: str, batch_size: Optional[int]) -> Costs:
        assert self._by_bytes.original is not None and self._half.meta_graph is not None
        tensors: Dict[str, List[Any]] = {}
        for trace in steps.metadata():
            for name, row in tensors_in(trace).items():
                tensors.setdefault(name, row)
        traces = Traces(self._by_bytes.original, self._half.meta_graph, steps.targets(), tensors)
        originals = nodes_of(self._half).stand_ins.originals()
        traces.steps = {FLOAT32: steps.steps(FLOAT32, {}), HALF: steps.steps(HALF, originals)}
        traces.start, rows = casts.measure(dtype, traces.sizes(), _CASTS)
        traces.casts = [(to, elements, times) for to, elements, times in rows]
        traces.complete = True
        return traces.costs(this_machine(), dtype, _SOURCE, batch_size)


def differs(by_bytes: LiveConversion, by_times: LiveConversion) -> bool:
    """Whether a conversion by costs is another one, and computes in half precision.

    Args:
        by_bytes: the conversion by bytes, with both graphs.
        by_times: the one by costs, with both graphs.
    """
    assert by_bytes.meta_graph is not None and by_times.meta_graph is not None
    after = by_times.meta_graph.graph_def
    if not computes_in_half(by_times):
        return False
    before: Dict[str, bytes] = {
        node.name: serialize(node) for node in by_bytes.meta_graph.graph_def.node
    }
    same: List[bool] = [before.get(node.name) == serialize(node) for node in after.node]
    return not all(same) or len(same) != len(before)


def computes_in_half(conversion: LiveConversion) -> bool:
    """Whether a conversion, with both graphs, computes anything in half precision."""
    assert conversion.meta_graph is not None
    return not MOVES_NOTHING.issuperset(half_ops(conversion.meta_graph.graph_def))
