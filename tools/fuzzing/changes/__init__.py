"""Plausible changes of graphs: sound in form, odd in meaning."""

from __future__ import annotations

import random
from typing import Any, Callable, List

from fuzzing.changes import edges, functions, state, surroundings, values

# In this order: a case is drawn by place.
CHANGES: List[Callable[[random.Random, Any], None]] = [
    values.attribute,
    state.collection,
    values.constants,
    edges.controls,
    edges.cut,
    surroundings.devices,
    values.dtype,
    edges.frame,
    functions.function,
    state.mark,
    surroundings.names,
    surroundings.op_list,
    edges.order,
    state.saver,
    values.shapes,
    state.signature,
    edges.swap,
    state.variable,
    surroundings.versions,
]
