"""Faults that are planted in a graph are found by its audit and repaired."""

from __future__ import annotations

import json
import math

import pytest

import graphmp
from graphmp import patterns
from graphmp.audit.options import AuditOptions
from graphmp.audit.repair.fix import Fixer, half_nodes
from graphmp.audit.repair.repair import KeepRule, Repair
from graphmp.audit.run import audit
from graphmp.config import Config
from graphmp.graph.structure.view import GraphView
from tests.support.audited import TOLERANCE, found, graph_of, repaired
from tests.support.planted import FAULTS

# What half precision spoils; the others convert so that they agree.
SPOILED = [("activation", {}), ("epsilon", {}), ("long_sum", {})]


# Repairs of what overflows and of one sum; a division by zero overflows too.
REPAIRED = [
    pytest.param(*each, marks=[pytest.mark.slow] if each[0] == "epsilon" else [])
    for each in SPOILED
]


VANISHING = [("tiny_gradients", {"loss_scale": "none"}), ("tiny_gradients", {"loss_scale": 8.0})]


def two_edges_from(meta_graph, names):
    view, near = GraphView(meta_graph.graph_def), set(names)
    for _ in range(2):
        near |= {port.node for name in near for port in view.inputs(name)} | {
            c.node for name in near for c in view.consumers(name)
        }
    return near


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {fault for fault, _ in SPOILED}))
def test_what_converts_well_agrees(fault, data):
    """Among them a mask that is subtracted, which infinity masks too, gradients at 1e-9 under a
    dynamic loss scale that begins high, and row numbers, which stay float32.
    """
    options = {"loss_scale_initial": 2.0**40} if fault == "tiny_gradients" else {}
    _, audited = found(fault, data, **options)
    assert audited.agrees, audited.to_json()
    assert audited.losses[0].skipped == 0 and audited.losses[0].difference < 0.005
    assert not any(finding.severity[0] for finding in audited.findings) or fault == "mask"


@pytest.mark.parametrize("fault, options", SPOILED + VANISHING)
def test_what_half_precision_spoils_is_seen(fault, options, data):
    _, audited = found(fault, data, **options)
    assert not audited.agrees and audited.suspects


@pytest.mark.parametrize(
    "fault, first", [("activation", "fault/big"), ("epsilon", "fault/truediv")]
)
def test_where_it_is_not_finite_first_is_where_the_fault_is(fault, first, data):
    _, audited = found(fault, data)
    assert audited.first_not_finite.range.row.name.startswith(first)
    assert (
        json.loads(audited.to_json())["first_not_finite"] == audited.first_not_finite.range.row.name
    )


@pytest.mark.parametrize("fault, options", REPAIRED)
def test_the_repair_keeps_what_is_guilty(fault, options, data):
    conversion, _ = found(fault, data, **options)
    repair = repaired(fault, data, **options)
    kept = [rule.node for rule in repair.rules]
    assert repair.passes and kept and not repair.loss_scale
    guilty = [
        node.name
        for node in conversion.original.graph_def.node
        if node.name.startswith(("fault/", "gradients/fault/"))
    ]
    assert set(kept) <= two_edges_from(conversion.original, guilty)
    assert len(kept) <= 2
    half = half_nodes(conversion)
    assert kept == [node for node in half if node in kept]
    assert (
        repair.runs < 2 * math.log2(len(half)) + len(kept) * math.log2(len(half)) + 1
    )  # one to validate it


def test_a_repair_tries_no_longer_rules_than_are_accepted(data, monkeypatch):
    """Together the names of half-precision nodes are longer than one rule may be."""
    conversion, audited = found("long_sum", data)
    monkeypatch.setattr(patterns, "LONGEST", 120)
    repair = Fixer(conversion, Config.make(), data, TOLERANCE, [].append).repair(audited)
    assert repair.passes and len(repair.rules) == 1


@pytest.mark.parametrize("fault, options", REPAIRED)
def test_the_repaired_conversion_agrees(fault, options, data, tmp_path):
    """By the policy file that is written; on other batches too."""
    (before, _), repair = found(fault, data, **options), repaired(fault, data, **options)
    (tmp_path / "kept.policy").write_text(repair.policy_lines())
    conversion = graphmp.convert(
        graph_of(fault), op_policy=str(tmp_path / "kept.policy"), **options
    )
    assert {rule.node for rule in repair.rules}.isdisjoint(half_nodes(conversion))
    assert audit(conversion, data, TOLERANCE).agrees
    assert audit(conversion, AuditOptions(steps=2, seed=5), TOLERANCE).agrees
    half = tuple(sum(each.report["half_ops"].values()) for each in (before, conversion))
    assert (repair.half_before, repair.half_after) == half
    assert (
        repair.matmuls_after
        == conversion.report["coverage"]["converted_ops"]
        <= repair.matmuls_before
    )


@pytest.mark.parametrize("fault, options", VANISHING)
def test_where_gradients_vanish_the_loss_scale_is_the_repair(fault, options, data):
    _, audited = found(fault, data, **options)
    repair = repaired(fault, data, **options)
    assert (repair.rules, repair.passes, repair.runs) == ([], True, 2)
    assert float(repair.loss_scale) == audited.losses[0].advice.scale > 2**30
    assert (
        audited.losses[0].advice.flushed_now > 0.1 > 0.001 > audited.losses[0].advice.flushed_scaled
    )
    conversion = graphmp.convert(graph_of(fault), loss_scale=float(repair.loss_scale))
    assert audit(conversion, data, TOLERANCE).agrees
    assert "--loss_scale=%s" % repair.loss_scale in repair.to_text("kept.policy", "model.meta")


def test_a_repair_that_is_not_found_says_so(data):
    """Nothing agrees to within less than nothing."""
    conversion, audited = found("activation", data)
    repair = Fixer(conversion, Config.make(), data, -1.0, lambda runs: None).repair(audited)
    assert not repair.passes and repair.rules == []
    assert "found none" in repair.to_text(
        "kept.policy", "model.meta"
    ) and "wrote" not in repair.to_text("kept.policy", "model.meta")


@pytest.mark.parametrize("rounds, passes", [(1, True), (2, True), (3, False)])
def test_a_repair_is_extended_by_what_other_batches_want(rounds, passes, data):
    """Each of the first batches wants a node more; the steps of all rounds are different ones."""
    conversion, audited = found("activation", data)
    half = half_nodes(conversion)
    firsts = []

    class WantsMore(Fixer):
        def _passes(self, kept, first):
            firsts.append(first)
            return set(half[: 1 + min(rounds, first // data.steps)]) <= kept

    repair = WantsMore(conversion, Config.make(), data, TOLERANCE, [].append).repair(audited)
    assert (repair.passes, len(repair.rules)) == (passes, rounds + passes)
    assert set(firsts) == {number * data.steps for number in range(2 + rounds - (not passes))}
    said = repair.to_text("kept.policy", "model.meta")
    failed = "found none, 3 nodes kept in float32 agree on some batches and not on others; "
    assert (failed in said) != passes and ("wrote" in said) == passes


def test_a_node_that_other_batches_want_leaves_the_first_ones_right(data):
    """With the second node the first batches want the third one too."""
    conversion, audited = found("activation", data)
    one, two, three = half_nodes(conversion)[:3]

    class Hurt(Fixer):
        def _passes(self, kept, first):
            return two in kept if first else one in kept and (two not in kept or three in kept)

    repair = Hurt(conversion, Config.make(), data, TOLERANCE, [].append).repair(audited)
    assert repair.passes and [rule.node for rule in repair.rules] == [one, two, three]


@pytest.mark.unit
def test_a_repair_that_was_cut_short_says_so():
    repair = Repair([KeepRule("a", None), KeepRule("b", None)], True, 100, 9, 7, 3, 2, cut=True)
    assert repair.policy_lines() == "keep_float32 ^a$\nkeep_float32 ^b$\n"
    assert repair.to_text("kept.policy", "model.meta").splitlines()[:2] == [
        "repair       2 nodes kept in float32; agrees on the next batches too; 100 conversions tried, the"
        " most: fewer nodes may do",
        "keep         a",
    ]


def test_what_a_repair_says(data):
    repair = repaired("long_sum", data)
    assert (
        repair.policy_lines()
        == "keep_float32 ^fault/MatMul$  # %d ops fewer in half\n" % repair.rules[0].lost
    )
    lines = repair.to_text("kept.policy", "model.meta").splitlines()
    assert (
        lines[0]
        == "repair       1 node kept in float32; agrees on the next batches too; %d conversions tried"
        % repair.runs
    )
    assert lines[-1] == "next         graphmp convert model.meta --op_policy=kept.policy"


@pytest.mark.unit
def test_a_repair_without_rules_names_no_file_for_the_next_command():
    lines = Repair([], True, 2, 9, 9, 3, 3).to_text("kept.policy", "model.meta").splitlines()
    assert lines == [
        "repair       none is needed; agrees on the next batches too; 2 conversions tried",
        "wrote        nothing: there is no rule for kept.policy",
        "next         graphmp convert model.meta",
    ]


@pytest.mark.unit
@pytest.mark.parametrize(
    "rules, scale, words",
    [
        ([], "", "--loss_scale=none --op_policy=own.policy"),
        ([], "128", "--op_policy=own.policy --loss_scale=128"),
        ([KeepRule("n", 1)], "", "--loss_scale=none '--op_policy=my kept.policy'"),
    ],
)
def test_the_next_command_has_the_flags_and_the_repair(rules, scale, words):
    repair = Repair(rules, True, 2, 9, 9, 3, 3, scale)
    flags = ["--compute_dtype=bfloat16", "--loss_scale=none", "--op_policy=own.policy"]
    last = repair.to_text("my kept.policy", "my model.meta", flags).splitlines()[-1]
    start = "next         graphmp convert 'my model.meta' --compute_dtype=bfloat16 "
    assert last == start + words
