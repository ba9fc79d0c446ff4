"""The user's rules, checked against a graph built under the recipe."""

from __future__ import annotations

from typing import Any, Dict, List

from graphmp.config import Config
from graphmp.patterns import matches
from graphmp.policy import policy as policies
from graphmp.policy.reason import Reason, user_rule
from graphmp.rewrite.without_effect import without_effect


def options_without_effect(graph: Any, config: Config) -> List[Dict[str, str]]:
    """Warnings for the options that change nothing in a graph."""
    return without_effect(config, ((op.name, op.type) for op in graph.get_operations()))


def kept_by_rule(graph: Any, config: Config) -> Dict[str, Reason]:
    """Matmuls and convolutions that the user keeps in float32, by name, with the rule."""
    policy = policies.load(config.compute_dtype, config.op_policy)
    rules = {
        user_rule("keep_float32", pattern): pattern
        for pattern in config.keep_float32 + policy.keep_float32
    }
    rules.update(
        (user_rule("fetch", name), pattern)
        for name, pattern in zip(config.fetch, config.float32_nodes[len(config.keep_float32) :])
    )
    found = {}
    for op in graph.get_operations():
        if op.type in policies.tensor_core_ops():
            rule = next(
                (rule for rule, pattern in rules.items() if matches([pattern], op.name)), None
            )
            if rule or op.type not in policy.allow:
                found[op.name] = rule or user_rule("op_policy", config.op_policy)
    return found
