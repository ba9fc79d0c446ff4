"""The parameters of a conversion: read off its nodes, and compared with those that were asked for."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.dtypes import HALF
from graphmp.graph.mark import read_mark
from graphmp.verify.body import Body
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, PROVED, Claim

_NAME = "parameters"


def read_off(body: Body) -> Dict[str, Any]:
    """What a converted graph says by its nodes, by the names of the flags of `graphmp convert`; a list where several parts of it differ."""
    dynamic = [scale.parameters for scale in body.scales.dynamic]
    used = {step.scale for step in body.erasure.steps.values() if step is not None}
    fixed = sorted(float(scale) for scale in used - {scale.variables[0] for scale in body.scales.dynamic})
    found: Dict[str, Any] = {"loss_scale": ["dynamic"] * bool(dynamic) + [_short(scale) for scale in fixed] or ["none"]}
    for key in sorted(set().union(*dynamic)):
        found[key] = sorted({row[key] for row in dynamic})
    found["clip_norm"] = sorted({clip.norm for clip in body.clips.by_factor.values()}) or [0.0]
    found["compute_dtype"] = sorted(_half_types(body)) or ["float32"]
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def _short(number: float) -> str:
    return "%g" % number


def _half_types(body: Body) -> Iterator[str]:
    nodes = body.sides.after.view.nodes
    found = {node.attr["DstT"].type for name, node in nodes.items() if node.op == "Cast" and name in body.sides.added} & set(HALF)
    return (tf.as_dtype(number).name for number in found)


def parameters_claim(converted: tf.MetaGraphDef, found: Mapping[str, Any], expected: Optional[Mapping[str, Any]]) -> Claim:
    """Compares what was read off with what was asked for, or, where nobody says, with what the conversion's mark says."""
    mark = read_mark(converted)
    wanted = expected if expected is not None else mark["flags"] if mark is not None else None
    text = ", ".join("%s %s" % (key, value) for key, value in found.items())
    if wanted is None:
        return Claim(_NAME, NOT_APPLICABLE, "nobody says what was asked for; found: %s" % text)
    source = "asked for" if expected is not None else "claimed by the graph's mark"
    wrong = [(key, wanted[key]) for key in found if key in wanted and not _same(key, found[key], wanted[key], found)]
    if wrong:
        return Claim(_NAME, FAILED, "; ".join("%s is %s, %s is %s" % (key, found[key], source, value) for key, value in wrong))
    return Claim(_NAME, PROVED, "as %s: %s" % (source, text))


def _same(key: str, found: Any, wanted: Any, every: Mapping[str, Any]) -> bool:
    if wanted in (None, "") or (key == "compute_dtype" and found == "float32") or (key == "clip_norm" and every["loss_scale"] == "none"):
        return True  # left open, or there was nothing to convert or to train
    if key == "loss_scale":
        return found == "none" or str(found) == str(wanted) or (str(wanted) != "dynamic" and found == _short(float(wanted)))
    return not isinstance(found, list) and found == wanted
