"""Options that change nothing: rules that match nothing, mostly typos, and idle flags.

Idle are those of a dynamic loss scale or of half precision where there is none.
"""

from __future__ import annotations

import difflib
from typing import AbstractSet, Dict, Iterable, Iterator, List, Tuple

from graphmp.config import Config, in_words
from graphmp.errors import warning
from graphmp.patterns import limited_time, pattern
from graphmp.policy.policy import op_rules
from graphmp.scaling.losses.allreduce import is_reduce
from graphmp.tf_hooks.internals import is_op

_NODE_RULES = ("keep_float32", "force_compute")
_OF_DYNAMIC = (
    "loss_scale_initial",
    "loss_scale_growth_interval",
    "loss_scale_growth_factor",
    "loss_scale_backoff_factor",
    "loss_scale_min",
    "count_skipped_steps",
)
_NO_REDUCE = "--allreduce_half changes nothing: the graph has no all-reduce"
_OF_HALF = ("keep_float32", "force_compute", "op_policy", "ranges", "costs", "allreduce_half")


def without_effect(config: Config, nodes: Iterable[Tuple[str, str]]) -> List[Dict[str, str]]:
    """Warnings GMP121, one for each rule, and one for each flag without what it is about.

    Args:
        config: the options: --keep_float32, --force_compute, the lines of --op_policy, the scale's.
        nodes: name and op type of the graph's nodes, those of functions included.
    """
    idle = list(_of_no_scale(config))
    if config.compute_dtype == "float32":
        return idle + list(_of_no_half(config))
    patterns, op_lines = list(_patterns(config)), list(op_rules(config.op_policy))
    if not patterns and not op_lines and not config.allreduce_half:
        return idle
    listed = list(nodes)
    names, ops = {name for name, _ in listed}, {op for _, op in listed}
    if config.allreduce_half and not any(map(is_reduce, ops)):
        idle.append(warning("GMP121", "", _NO_REDUCE))
    with limited_time():
        rows = [
            _no_node(rule) for rule, text in patterns if not any(map(pattern(text).search, names))
        ]
    return idle + rows + [_no_op(rule, op, ops) for rule, op in op_lines if op not in ops]


def _of_no_scale(config: Config) -> Iterator[Dict[str, str]]:
    """Flags that tell how a scale adapts, where it doesn't."""
    scale = config.loss_scale if isinstance(config.loss_scale, str) else "fixed"
    if scale == "dynamic":
        return
    for name in _OF_DYNAMIC:
        value = getattr(config, name)
        if value != getattr(Config, name):
            text = "%s changes nothing: the loss scale is %s; --loss_scale=dynamic adapts it"
            yield warning("GMP121", "", text % (in_words(name, value), scale))


def _of_no_half(config: Config) -> Iterator[Dict[str, str]]:
    """Options about half precision, where there is none."""
    given = config.as_flags()
    for name in _OF_HALF:
        if given.get(name):
            text = "%s changes nothing: --compute_dtype=float32 computes nothing in half precision"
            yield warning("GMP121", "", text % in_words(name, given[name]))


def _patterns(config: Config) -> Iterator[Tuple[str, str]]:
    """The rules in the user's spelling, each with its regular expression."""
    for flag in _NODE_RULES:
        yield from (("--%s=%s" % (flag, pattern), pattern) for pattern in getattr(config, flag))
    yield from op_rules(config.op_policy, "keep_float32")


def _no_node(rule: str) -> Dict[str, str]:
    return warning(
        "GMP121",
        "",
        "%s matches no node of the graph: names are searched for this regular expression" % rule,
    )


def _no_op(rule: str, op: str, ops: AbstractSet[str]) -> Dict[str, str]:
    if is_op(op):
        return warning("GMP121", "", "%s changes nothing: the graph has no %s" % (rule, op))
    alike = {name.lower(): name for name in sorted(ops)}
    close = difflib.get_close_matches(op.lower(), list(alike), 1)
    meant = "; the graph has %s" % alike[close[0]] if close else ""
    return warning(
        "GMP121", "", "%s changes nothing: there is no op of that name%s" % (rule, meant)
    )
