"""Flags that would change the dtype of a unit: candidates by its reason, each tried out."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any, Dict, Iterator, List, NamedTuple, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy import policy as policies
from graphmp.policy.policy import Policy
from graphmp.policy.reason import NO_KERNEL, RANGE_GUARD, user_rule
from graphmp.rewrite.painting.paint import Paint
from graphmp.rewrite.pipeline import Decisions, decide
from graphmp.rewrite.units import TypedGraph

_RULES = ("keep_float32", "force_compute", "fetch")  # flags that name nodes
_OTHER = {"float16": "bfloat16", "bfloat16": "float16"}
_OF_THE_DTYPE = (RANGE_GUARD, NO_KERNEL)  # reasons that may not exist in the other half precision


class Flag(NamedTuple):
    """A change that gives a unit another dtype.

    Attributes:
        text: the flag as a shell takes it, or in words.
        option: whether `text` can be added to a command line.
        nodes: the number of nodes that it changes in all.
        remark: its cost, if that is more than rounding.
    """

    text: str
    option: bool
    nodes: int
    remark: str = ""


class _Candidate(NamedTuple):
    text: str
    option: bool
    config: Config
    policy: Policy
    remark: str = ""


class Alternatives:
    """Tries flags on one graph."""

    def __init__(self, meta_graph: tf.MetaGraphDef, config: Config, policy: Policy):
        """Nothing is decided yet."""
        self._meta_graph = meta_graph
        self._config = config
        self._policy = policy

    def flags(self, decisions: Decisions, body: str, number: int, source: int) -> List[Flag]:
        """The flags that change a unit, found by trial.

        Args:
            decisions: those on the body without the flags.
            body: the name of the function, empty for the main graph.
            number: the unit.
            source: the unit that led to its dtype.
        """
        found = []
        for candidate in self._candidates(decisions, number, source):
            after = decide(self._meta_graph, candidate.config, candidate.policy)[body]
            if after.placed[number].colour != decisions.placed[number].colour:
                nodes = len(_changed_nodes(decisions, after.placed))
                found.append(Flag(candidate.text, candidate.option, nodes, candidate.remark))
        return found

    def _candidates(self, decisions: Decisions, number: int, source: int) -> Iterator[_Candidate]:
        graph, reason = decisions.graph, decisions.placed[source].reason
        rules = [(flag, value) for flag in _RULES for value in getattr(self._config, flag)]
        rule = next((rule for rule in rules if user_rule(*rule) == reason), None)
        if rule is not None:
            yield self._without(*rule)
        if decisions.is_half(number):
            yield self._with("keep_float32", exactly(graph, number))
            yield self._with_line("deny", graph.node(number).op)
            return
        if reason.kind in _OF_THE_DTYPE and self._config.compute_dtype in _OTHER:
            dtype = _OTHER[self._config.compute_dtype]
            config = replace(self._config, compute_dtype=dtype)
            yield _Candidate(
                "--compute_dtype=%s" % dtype, True, config, policies.load(dtype, config.op_policy)
            )
        yield from (
            self._forced(decisions, unit)
            for unit in dict.fromkeys((number, source))
            if not _is_misfit(decisions, unit)
        )
        if self._policy.wants_float32(graph.node(source).op):
            yield self._with_line("infer", graph.node(source).op)

    def _forced(self, decisions: Decisions, number: int) -> _Candidate:
        candidate = self._with("force_compute", exactly(decisions.graph, number))
        guarded = decisions.placed[number].reason.kind == RANGE_GUARD
        return (
            candidate._replace(
                remark="what %s can't hold becomes infinite or 0" % self._config.compute_dtype
            )
            if guarded
            else candidate
        )

    def _with(self, flag: str, pattern: str) -> _Candidate:
        return _Candidate(
            option(flag, pattern),
            True,
            self._changed(flag, (*getattr(self._config, flag), pattern)),
            self._policy,
        )

    def _without(self, flag: str, value: str) -> _Candidate:
        rest = tuple(v for v in getattr(self._config, flag) if v != value)
        return _Candidate(
            "without %s" % option(flag, value), False, self._changed(flag, rest), self._policy
        )

    def _changed(self, flag: str, values: Tuple[str, ...]) -> Config:
        changes: Dict[str, Any] = {flag: values}
        return replace(self._config, **changes)

    def _with_line(self, category: str, op: str) -> _Candidate:
        line = "%s %s" % (category, op)
        return _Candidate(
            "--op_policy=FILE with the line `%s`" % line,
            False,
            self._config,
            self._policy.with_text(line),
        )


def option(flag: str, value: str) -> str:
    """A flag as a shell takes it."""
    return "--%s=%s" % (flag, shlex.quote(value))


def exactly(graph: TypedGraph, number: int) -> str:
    """The regular expression that only matches a unit's node."""
    return "^%s$" % re.escape(graph.units[number].node)


def _is_misfit(decisions: Decisions, number: int) -> bool:
    """Whether a unit is a constant that half precision can't hold.

    Forcing it would change its value.
    """
    kind = decisions.placed[number].reason.kind
    return decisions.graph.node(number).op == "Const" and kind == RANGE_GUARD


def _changed_nodes(decisions: Decisions, placed: List[Paint]) -> Set[str]:
    """Nodes of a body with a unit of another colour than before."""
    units = zip(decisions.units(), placed)
    return {unit.node for (unit, before), after in units if after.colour != before.colour}
