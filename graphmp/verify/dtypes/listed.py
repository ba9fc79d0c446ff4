"""Half precision that the conversion's own policy keeps in float32.

The policy is that of the flags that were asked for, or else of the converted graph's mark: the
shipped lists, and what `--force_compute` names. Nothing is looked at if nobody says what was asked
for, with an `--op_policy` of one's own, or with `--engine_strict`, which repairs nothing.

1. Ops on the list deny. Not the sums of gradient code, most of which add nothing up; nor any other
   sum that adds nothing up, if what it reads or what reads it may be in half precision.
2. Softmax, LogSoftmax and Sigmoid that lead to a loss or an output, in the main graph: no matmul or
   convolution of the forward pass depends on them.
3. If the rewrite converted: arithmetic of the forward pass on what ops of 1 give, with only such
   arithmetic in between: `loss * weights` ahead of a mean. Results that are bounded end it.
4. Likewise, ops on no list other than casts, but for all-reduces that were asked for.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, Mapping, Optional, Set

from graphmp.graph.shapes.shapes import recorded_size
from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.patterns import matches
from graphmp.policy.dtypes import HALF, dtype_text
from graphmp.policy.op_sets import (
    ARGUMENT,
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    RESULT,
    SWITCHES,
)
from graphmp.policy.policy import UNLISTED, Policy
from graphmp.policy.traits import BOUNDED, BOUNDED_OFF_ZERO, FORGETS_VALUES, LAST_ACTIVATIONS
from graphmp.verify.sides import Fault, Sides, fetched, keeps_names
from graphmp.wording import with_article

_LOOPS = ENTERS | EXITS | MERGES | NEXT_ITERATIONS | SWITCHES
_TYPED_BY_OTHERS = ("Cast", ARGUMENT, RESULT)
_ENDS = BOUNDED | FORGETS_VALUES | _LOOPS


def listed_faults(
    sides: Sides, copies: Mapping[str, str], flags: Optional[Mapping[str, Any]]
) -> Iterator[Fault]:
    """Such ops in one body.

    Args:
        sides: the body.
        copies: added nodes that copy a node of the original, with that.
        flags: the flags of the conversion; None if nobody says which.
    """
    if flags is None or flags.get("op_policy") or flags.get("engine_strict"):
        return
    found = _Listed(sides, flags)
    for name, dtypes in sorted({**sides.lists_with_half, **sides.became_half}.items()):
        original = copies.get(name, name)
        if original in sides.before.view.nodes and found.is_kept(original, dtypes[0]):
            text = "is %s, and %s computes in float32 by the policy of this conversion"
            op = with_article(sides.before.view.nodes[original].op)
            yield Fault(name, text % (dtype_text(dtypes[0]), op))


class _Listed:
    """Tells which nodes of the original stay float32."""

    def __init__(self, sides: Sides, flags: Mapping[str, Any]):
        self._sides, self._view = sides, sides.before.view
        self._forced = flags.get("force_compute") or ()
        self._allreduce_half = bool(flags.get("allreduce_half"))
        self._behind: Dict[str, AbstractSet[str]] = {}
        self._starts: Dict[str, AbstractSet[str]] = {}

    def is_kept(self, name: str, dtype: int) -> bool:
        op = self._view.nodes[name].op
        if matches(self._forced, name):
            return False
        policy = Policy.default(dtype_text(dtype))
        if name in self._behind_denied(dtype_text(dtype)):
            return True
        if policy.category(op) == UNLISTED and not self._is_open(op):
            return True
        if op in policy.deny:
            return op != "Sum" or self._is_kept_sum(name, policy, dtype_text(dtype))
        is_last = op in LAST_ACTIVATIONS and name not in self._gradients
        return is_last and not self._sides.before.function and name not in self._ahead

    def _is_open(self, op: str) -> bool:
        """Whether an op on no list may be half precision: it has the types of what is beside it."""
        return (
            op in _TYPED_BY_OTHERS
            or op in self._sides.before.library
            or self._allreduce_half
            or not keeps_names(self._sides.after.meta_graph)
        )

    def _is_kept_sum(self, name: str, policy: Policy, dtype: str) -> bool:
        """Whether a Sum adds something up, or only float32 is before and behind it."""
        if name in self._gradients:
            return False
        kept = self._behind_denied(dtype) | self._denied(dtype) | self._fetched
        free = policy.allow | policy.infer | policy.clear
        beside = {each.node for each in self._view.consumers(name)} - self._gradients
        beside.add(self._view.inputs(name)[0].node)
        among = all(each in kept or self._view.nodes[each].op not in free for each in beside)
        return (among and len(beside) > 1) or not self._is_indifferent(name)

    def _is_indifferent(self, name: str) -> bool:
        """Whether a Sum adds nothing up: its result is as large as what it reads."""
        sizes = [
            recorded_size(self._view.nodes[port.node], port.output)
            for port in (self._view.inputs(name)[0], Port(name, 0))
        ]
        return None not in sizes and sizes[0] == sizes[1]

    def _behind_denied(self, dtype: str) -> AbstractSet[str]:
        """Infer ops of the forward pass behind denied ones, through infer and clear ops alone.

        Floating-point values lead there: what an index or a test chooses is of its own size.
        """
        if not keeps_names(self._sides.after.meta_graph):
            return frozenset()
        if dtype not in self._behind:
            self._behind[dtype] = self._followed(dtype)
        return self._behind[dtype]

    def _denied(self, dtype: str) -> AbstractSet[str]:
        """Denied ops of the forward pass whose results may be large."""
        if dtype not in self._starts:
            apart = self._gradients | self._fetched
            denied = Policy.default(dtype).deny - BOUNDED_OFF_ZERO
            self._starts[dtype] = {
                name
                for name, node in self._view.nodes.items()
                if node.op in denied and name not in apart and not matches(self._forced, name)
            }
        return self._starts[dtype]

    def _followed(self, dtype: str) -> AbstractSet[str]:
        nodes, starts, policy = self._view.nodes, self._denied(dtype), Policy.default(dtype)
        is_float = self._sides.before.is_float

        def goes_on(name: str) -> bool:
            op = nodes[name].op
            return name in starts or (
                op in policy.infer | policy.clear
                and op not in _ENDS
                and name not in self._gradients
                and not matches(self._forced, name)
            )

        def readers(name: str) -> Set[str]:
            consumers = self._view.consumers(name) if goes_on(name) else ()
            return {each.node for each in consumers if is_float(Port(name, each.output))}

        found = reached(starts, readers)
        return {name for name in found - starts - self._gradients if nodes[name].op in policy.infer}

    @once
    def _gradients(self) -> AbstractSet[str]:
        return gradient_nodes(self._view)

    @once
    def _fetched(self) -> AbstractSet[str]:
        return fetched(self._sides.before.meta_graph)

    @once
    def _ahead(self) -> AbstractSet[str]:
        """The nodes of the forward pass that a matmul or convolution of it depends on."""
        gradients = self._gradients
        allow = frozenset().union(*(Policy.default(dtype_text(half)).allow for half in HALF))
        starts = {
            name
            for name, node in self._view.nodes.items()
            if node.op in allow and name not in gradients
        }
        return self._view.traced(starts, lambda name: name not in gradients)
