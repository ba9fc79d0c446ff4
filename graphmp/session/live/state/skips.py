"""The loss scales of a session, and the number of steps they skipped."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.loss_scale.scales import shown
from graphmp.session.live.cloning.stand_ins import StandIns

_PATIENCE_MS = 5000


def scale_state(
    session: Any, scales: Sequence[Dict[str, Any]], stand_ins: StandIns
) -> Tuple[int, List[float]]:
    """The number of skipped steps, and each dynamic loss scale, as a session has them now.

    Args:
        session: the session, which trains the converted graph.
        scales: rows of a report's `scales`.
        stand_ins: the clones.
    """
    rows = [row for row in scales if row["kind"] == "dynamic"]
    if not rows:
        return 0, []
    names = [shown(row)[part] for part in (1, 0) for row in rows]
    values = session.run(
        [stand_ins.named(session.graph, name).outputs[0] for name in names],
        options=tf.RunOptions(timeout_in_ms=_PATIENCE_MS),  # a server may be gone
    )
    return int(sum(values[: len(rows)])), [float(value) for value in values[len(rows) :]]
