"""Proofs of the order in which gradients are treated: each loss scale is followed along the edges of a converted graph.

gradients -> float32 -> divided by the scale -> finite check -> clip -> applied or skipped.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.diff import roles
from graphmp.diff.changes import FAILED, NOT_CHECKED, PASSED, Check
from graphmp.diff.values import plural
from graphmp.graph.building import SCOPE
from graphmp.graph.dtypes import FLOATS, INVALID, compute_dtype
from graphmp.graph.state import State
from graphmp.graph.view import GraphView
from graphmp.hooks.op_definitions import op_definitions
from graphmp.policy.traits import DISCONTINUOUS, FORGETS_VALUES, homogeneity

_POWERS = frozenset(("inverse", "inverse_root", "root", "square"))
_TESTS = frozenset(("IsFinite", "IsInf", "IsNan"))


def scaling_checks(meta_graph: tf.MetaGraphDef, view: GraphView) -> Tuple[Check, ...]:
    """The proofs for one graph.

    Args:
        meta_graph: the converted graph.
        view: its main graph.
    """
    scaled = _Scaled(meta_graph, view)
    return (scaled.unscaled(), scaled.clip_after_unscale(), scaled.check_before_clip(), scaled.gated())


class _Scaled:
    """Follows loss scales along the edges of a converted graph."""

    def __init__(self, meta_graph: tf.MetaGraphDef, view: GraphView):
        self._view = view
        names = view.nodes.keys()
        ours = [name for name in names if "graphmp/loss_scale" in name]
        self._starts = [name for name in ours if roles.SCALED.search(name)]
        self._unscales = [name for name in ours if roles.UNSCALE.match(name)]
        self._clips = [name for name in ours if roles.CLIP.match(name)]
        self._finite = [name for name in ours if roles.ALL_FINITE.match(name)]
        touched = view.followed(self._starts, self._hands_on)
        self._unclear = {name for name in touched if self._combines(name, touched)}
        self._scaled = view.followed(self._starts, lambda name: name not in self._unclear and self._hands_on(name))
        self._writes = _writes(meta_graph, view) if ours else set()

    def _hands_on(self, name: str) -> bool:
        """Whether what a node gives grows with what it reads: an unscale ends that, and so does a comparison, a shape or an index."""
        node = self._view.nodes[name]
        ends = node.op in FORGETS_VALUES or node.op in DISCONTINUOUS or node.op in _TESTS
        return not ends and not roles.UNSCALE.match(name) and compute_dtype(node) in FLOATS + (INVALID,)

    def _combines(self, name: str, touched: AbstractSet[str]) -> bool:
        """Whether a node multiplies or divides scaled values by each other, or takes a root: how much of the scale is left, no edge tells."""
        if name.startswith(SCOPE + "/"):
            return False
        rule = homogeneity(self._view.nodes[name].op)
        slots = [slot for slot, port in enumerate(self._view.inputs(name)) if port.node in touched]
        divides = (rule == "quotient" and 1 in slots) or (rule == "solution" and 0 in slots)
        return rule in _POWERS or divides or (rule in ("product", "quotient") and len(slots) > 1)

    def unscaled(self) -> Check:
        """No scaled value reaches a variable."""
        if not self._starts:
            return self._none("loss scale cancels")
        reached = sorted(self._scaled & self._writes)
        if reached or not self._unscales:
            return Check("loss scale cancels", FAILED, "%s scaled: no unscale on the way" % plural(len(reached), "update"), tuple(reached))
        unclear = sorted(self._view.followed(self._unclear, self._hands_on) & self._writes)
        if unclear:
            text = "%s read products or roots of scaled values: their scale does not show in the edges" % plural(len(unclear), "update")
            return Check("loss scale cancels", NOT_CHECKED, text, tuple(unclear))
        text = "%s scaled; every way from there to a variable leads through one of %s" % (self._losses(), plural(len(self._unscales), "unscale"))
        return Check("loss scale cancels", PASSED, text, tuple(sorted(self._starts + self._unscales)))

    def clip_after_unscale(self) -> Check:
        """No clip reads a scaled value."""
        if not self._clips:
            return Check("clip after unscale", NOT_CHECKED, "graphmp put no clip into the graph")
        wrong = sorted(self._scaled & set(self._clips))
        if wrong:
            return Check("clip after unscale", FAILED, "%s a scaled gradient" % ("%d nodes of the clip read" % len(wrong)), tuple(wrong))
        return Check("clip after unscale", PASSED, "the clip reads unscaled gradients only", tuple(sorted(self._clips)))

    def check_before_clip(self) -> Check:
        """No finite check depends on a clip: one infinity makes every clipped gradient NaN."""
        if not self._clips or not self._finite:
            return Check("finite check before clip", NOT_CHECKED, "graphmp put no clip, or no finite check, into the graph")
        wrong = sorted(self._view.descendants(self._clips, control=False) & set(self._finite))
        if wrong:
            return Check("finite check before clip", FAILED, "%s clipped gradients" % ("%d finite checks read" % len(wrong)), tuple(wrong))
        return Check("finite check before clip", PASSED, "gradients are checked as they are unscaled, ahead of the clip", tuple(sorted(self._finite)))

    def gated(self) -> Check:
        """Whatever an unscaled gradient writes waits for the finite check."""
        if not self._finite or not self._unscales:
            return self._none("skipped steps", "the graph has no finite check")
        writes = self._view.descendants(self._unscales, control=False) & self._writes
        wrong = sorted(writes - self._view.descendants(self._finite))
        if wrong:
            return Check(
                "skipped steps", FAILED, "%s whether or not gradients are finite" % ("%d of %d writes run" % (len(wrong), len(writes))), tuple(wrong)
            )
        text = "all %s that depend on gradients wait for the finite check" % plural(len(writes), "write")
        return Check("skipped steps", PASSED, text, tuple(sorted(writes)))

    def _losses(self) -> str:
        scales = {re.search(r"loss_scale(_\d+)?/", name).group() for name in self._starts}  # type: ignore[union-attr]  # SCALED has matched
        return "1 loss" if len(scales) == 1 else "%d losses" % len(scales)

    def _none(self, name: str, text: str = "the graph has no loss scale") -> Check:
        return Check(name, NOT_CHECKED, text)


def _writes(meta_graph: tf.MetaGraphDef, view: GraphView) -> Set[str]:
    """The writes of the model's variables. What is pushed into an accumulator is checked where it is taken out."""
    written = (name for name in State(meta_graph, view, op_definitions(meta_graph)).writes if not name.startswith(SCOPE + "/"))
    return {name for name in written if "Accumulator" not in view.nodes[name].op}
