"""Audits of real steps: planted faults are seen and repaired, counts are NumPy's, and both graphs compute on the same values."""

from __future__ import annotations

import collections
import functools
import json
import math
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.dtypes import FLOAT16, FLOAT32
from graphmp.graph.view import GraphView, parse_input
from graphmp.numerics.rows import ACTIVATION, ACTIVATION_GRADIENT, ROLES, WEIGHT, WEIGHT_GRADIENT, Pair
from graphmp.policy.policy import Policy
from graphmp.runtime.audit.fix import Fixer, half_nodes
from graphmp.runtime.audit.options import Options
from graphmp.runtime.audit.run import MOST_MEASURED, audit, measured_steps
from tests.support import painting
from tests.support.audits import exponent_fields
from tests.support.models import MODELS, batch_for
from tests.support.planted import FAULTS, batches, planted
from tests.support.training import undecorated

STEPS, TOLERANCE = 2, 0.1
# What half precision spoils; the others convert so that they agree.
SPOILED = [("activation", {}), ("epsilon", {}), ("long_sum", {}), ("identifiers", {})]
VANISHING = [("tiny_gradients", {"loss_scale": "none"}), ("tiny_gradients", {"loss_scale": 8.0})]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The planted models' batches, as a file."""
    path = tmp_path_factory.mktemp("data") / "batches.npz"
    np.savez(str(path), **batches())
    return Options(data=str(path), steps=STEPS)


@functools.lru_cache(None)
def graph_of(fault):
    return planted(fault)


@functools.lru_cache(None)
def found(fault, data, **options):
    """The conversion of a planted model, and its audit."""
    conversion = graphmp.convert(graph_of(fault), **options)
    return conversion, audit(conversion, data, TOLERANCE)


@functools.lru_cache(None)
def repaired(fault, data, **options):
    conversion, audited = found(fault, data, **options)
    tried = []
    repair = Fixer(conversion, Config.make(**options), data, TOLERANCE, tried.append).repair(audited)
    assert tried == list(range(1, repair.runs + 1))
    return repair


def two_edges_from(meta_graph, names):
    view, near = GraphView(meta_graph.graph_def), set(names)
    for _ in range(2):
        near |= {port.node for name in near for port in view.inputs(name)} | {c.node for name in near for c in view.consumers(name)}
    return near


# -- planted faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {fault for fault, _ in SPOILED}))
def test_what_converts_well_agrees(fault, data):
    """Among them a mask that is subtracted, which infinity masks too, and gradients at 1e-9 under a dynamic loss scale that begins high."""
    options = {"loss_scale_initial": 2.0**40} if fault == "tiny_gradients" else {}
    _, audited = found(fault, data, **options)
    assert audited.agrees, audited.to_json()
    assert audited.losses[0].skipped == 0 and audited.losses[0].difference < 0.005
    assert not any(finding.severity[0] for finding in audited.findings) or fault == "mask"


@pytest.mark.parametrize("fault, options", SPOILED + VANISHING)
def test_what_half_precision_spoils_is_seen(fault, options, data):
    _, audited = found(fault, data, **options)
    assert not audited.agrees
    assert audited.suspects or fault == "identifiers"  # ids that are rounded overflow nothing


@pytest.mark.parametrize("fault, first", [("activation", "fault/big"), ("epsilon", "fault/truediv")])
def test_where_it_is_not_finite_first_is_where_the_fault_is(fault, first, data):
    _, audited = found(fault, data)
    assert audited.first_not_finite.range.row.name.startswith(first)
    assert json.loads(audited.to_json())["first_not_finite"] == audited.first_not_finite.range.row.name


@pytest.mark.parametrize("fault, options", SPOILED)
def test_the_repair_keeps_what_is_guilty(fault, options, data):
    conversion, _ = found(fault, data, **options)
    repair = repaired(fault, data, **options)
    kept = [rule.node for rule in repair.rules]
    assert repair.passes and kept and not repair.loss_scale
    guilty = [node.name for node in conversion.original.graph_def.node if node.name.startswith(("fault/", "gradients/fault/"))]
    assert set(kept) <= two_edges_from(conversion.original, guilty)
    assert len(kept) <= 2
    half = half_nodes(conversion)
    assert kept == [node for node in half if node in kept]
    assert repair.runs < 2 * math.log2(len(half)) + len(kept) * math.log2(len(half)) + 1  # one to validate it


@pytest.mark.parametrize("fault, options", SPOILED)
def test_the_repaired_conversion_agrees(fault, options, data, tmp_path):
    """By the policy file that is written; on other batches too."""
    repair = repaired(fault, data, **options)
    (tmp_path / "kept.policy").write_text(repair.policy_lines())
    conversion = graphmp.convert(graph_of(fault), op_policy=str(tmp_path / "kept.policy"), **options)
    assert {rule.node for rule in repair.rules}.isdisjoint(half_nodes(conversion))
    assert audit(conversion, data, TOLERANCE).agrees
    assert audit(conversion, Options(steps=2, seed=5), TOLERANCE).agrees
    assert (repair.half_before, repair.half_after) == tuple(
        sum(c.report["half_ops"].values()) for c in (graphmp.convert(graph_of(fault), **options), conversion)
    )
    assert repair.matmuls_after == conversion.report["coverage"]["converted_ops"] <= repair.matmuls_before


@pytest.mark.parametrize("fault, options", VANISHING)
def test_where_gradients_vanish_the_loss_scale_is_the_repair(fault, options, data):
    _, audited = found(fault, data, **options)
    repair = repaired(fault, data, **options)
    assert (repair.rules, repair.passes, repair.runs) == ([], True, 2)
    assert float(repair.loss_scale) == audited.losses[0].advice.scale > 2**30
    assert audited.losses[0].advice.flushed_now > 0.1 > 0.001 > audited.losses[0].advice.flushed_scaled
    conversion = graphmp.convert(graph_of(fault), loss_scale=float(repair.loss_scale))
    assert audit(conversion, data, TOLERANCE).agrees
    assert "--loss_scale=%s" % repair.loss_scale in repair.to_text("kept.policy", "model.meta")


def test_a_repair_that_is_not_found_says_so(data):
    """Nothing agrees to within less than nothing."""
    conversion, audited = found("activation", data)
    repair = Fixer(conversion, Config.make(), data, -1.0, lambda runs: None).repair(audited)
    assert not repair.passes and repair.rules == []
    assert "found none" in repair.to_text("kept.policy", "model.meta") and "wrote" not in repair.to_text("kept.policy", "model.meta")


def test_what_a_repair_says(data):
    repair = repaired("long_sum", data)
    assert repair.policy_lines() == "keep_float32 ^fault/MatMul$  # %d ops fewer in half\n" % repair.rules[0].lost
    lines = repair.to_text("kept.policy", "model.meta").splitlines()
    assert lines[0] == "repair       1 node kept in float32; agrees on fresh batches; %d conversions tried" % repair.runs
    assert lines[-1] == "next         graphmp convert model.meta --op_policy=kept.policy"


# -- what the painter learns of it ---------------------------------------------------------------------------------------


def test_ranges_keep_what_overflowed(data, tmp_path):
    conversion, audited = found("activation", data)
    (tmp_path / "audit.json").write_text(audited.to_json())
    overflowed = json.loads(audited.to_json())["overflowed"]
    assert {"fault/mul", "fault/Relu"} <= set(overflowed) <= set(half_nodes(conversion)) | {"fault/big/read"}
    again = graphmp.convert(graph_of("activation"), ranges=str(tmp_path / "audit.json"))
    view = GraphView(conversion.original.graph_def)
    readers = {consumer.node for name in overflowed for consumer in view.consumers(name)}
    assert (set(overflowed) | readers).isdisjoint(half_nodes(again))
    reasons = {node: row["reason"] for row in again.report["float32_nodes"] for node in row["nodes"]}
    assert reasons["fault/mul"].startswith("range guard: fault/") and reasons["fault/mul"].endswith(" overflowed in an audit")
    found_again = audit(again, data, TOLERANCE)
    assert found_again.agrees, [finding.range.row.name for finding in found_again.disagreeing]


@pytest.mark.parametrize(
    "text, code", [("", "GMP003"), ("{", "GMP003"), ("[]", "GMP002"), ('{"schema": "graphmp.audit/1"}', "GMP002"), (None, "GMP003")]
)
def test_ranges_that_are_none(text, code, tmp_path):
    path = tmp_path / "audit.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(GraphmpError, match="%s.*--ranges=" % code):
        graphmp.convert(graph_of("nothing"), ranges=str(path))


def test_policy_lines_that_keep_nodes():
    policy = Policy.default("float16").with_text("keep_float32 ^a/b$  # why\nkeep_float32 c\\.d+\n")
    assert policy.keep_float32 == ("^a/b$", "c\\.d+")
    assert Policy.from_text(policy.to_text()) == policy
    for line in ("keep_float32", "keep_float32 (", "keep_float32 a b"):
        with pytest.raises(GraphmpError, match=r"GMP010.*lines:2: found"):
            Policy.default("float16").with_text("# first\n" + line, "lines")


def test_policy_lines_act_in_the_rewrite(tmp_path):
    (tmp_path / "kept.policy").write_text("keep_float32 ^before/MatMul$\nkeep_float32 ^gradients/after\n")
    half = half_nodes(graphmp.convert(graph_of("nothing"), op_policy=str(tmp_path / "kept.policy")))
    kept = [name for name in half_nodes(graphmp.convert(graph_of("nothing"))) if name not in half]
    assert "before/MatMul" in kept and {"gradients/after/MatMul_grad/MatMul", "gradients/after/MatMul_grad/MatMul_1"} <= set(kept)
    assert "after/MatMul" in half and not any(name.startswith("gradients/after") for name in half)


def test_policy_lines_act_in_the_recipe(tmp_path, graph):
    (tmp_path / "kept.policy").write_text("keep_float32 one/MatMul$\n")

    @graphmp.mixed_precision(loss_scale="none", op_policy=str(tmp_path / "kept.policy"))
    def build(x):
        return tf.layers.dense(tf.layers.dense(x, 8, name="one"), 1, name="two")

    build(tf.placeholder(tf.float32, [4, 12]))
    dtypes = {op.name: op.get_attr("T") for op in graph.get_operations() if op.type == "MatMul"}
    assert [dtype for name, dtype in sorted(dtypes.items())] == [tf.float32, tf.float16], dtypes


# -- rows ----------------------------------------------------------------------------------------------------------------


def rows_of(meta_graph, **options):
    conversion = graphmp.convert(meta_graph, **options)
    return Pair(conversion.original, conversion.meta_graph, conversion.report["losses"]).rows()


def test_rows_stand_behind_all_that_they_depend_on():
    rows, view = rows_of(graph_of("mask")), GraphView(graph_of("mask").graph_def)
    assert sorted(row.order for row in rows) == list(range(len(rows)))
    for row in rows:
        before = view.ancestors([parse_input(row.name).node]) - {parse_input(row.name).node}
        assert all(other.order < row.order for other in rows if parse_input(other.name).node in before)


def test_rows_of_a_model():
    rows = {(row.name, row.role): row for row in rows_of(graph_of("nothing"))}
    roles = collections.defaultdict(set)
    for name, role in rows:
        roles[role].add(name)
    layers = [layer + "/" + part for layer in ("before", "after") for part in ("weight", "bias")]
    assert {re.sub("/(read|Read.*)$", "", name) for name in roles[WEIGHT]} == set(layers)
    assert roles[WEIGHT_GRADIENT] == {
        "gradients/%s/%s" % (layer, gradient) for layer in ("before", "after") for gradient in ("BiasAdd_grad/BiasAddGrad", "MatMul_grad/MatMul_1")
    }
    assert {"before/MatMul", "before/BiasAdd", "before/Relu", "after/MatMul", "after/BiasAdd"} <= roles[ACTIVATION]
    assert {"gradients/after/MatMul_grad/MatMul", "gradients/before/Relu_grad/ReluGrad"} <= roles[ACTIVATION_GRADIENT]
    assert set(roles) == set(ROLES) and roles[ACTIVATION].isdisjoint({"labels", "loss"})  # integers, and what nothing reads
    matmul = rows["before/MatMul", ACTIVATION]
    assert (matmul.op, matmul.converted, matmul.dtype, matmul.loss) == ("MatMul", "before/MatMul", FLOAT16, -1)
    assert rows["gradients/before/MatMul_grad/MatMul_1", WEIGHT_GRADIENT].loss == 0
    entropy = "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits"
    assert rows[entropy, ACTIVATION].dtype == rows[entropy + ":1", ACTIVATION].dtype == 0


@pytest.mark.parametrize(
    "name",
    ["accumulated", "batch_norm", "embedding", "float64", "gan", "partitioned", "recurrent_loop", "resource_variables", "shared_weight", "towers"],
)
def test_each_variable_is_one_weight_and_one_gradient(name):
    with tf.Graph().as_default() as graph:
        MODELS[name](undecorated)
        rows, variables = rows_of(graph), [variable.op.name for variable in tf.trainable_variables()]
    counts = collections.Counter(row.role for row in rows)
    assert len({(row.name, row.role) for row in rows}) == len(rows)
    assert counts[WEIGHT] == len(variables)
    assert counts[WEIGHT_GRADIENT] == len(variables) * (2 if name == "towers" else 1)  # there one a tower
    assert all(row.loss >= 0 for row in rows if "gradient" in row.role) and all(row.loss < 0 for row in rows if "gradient" not in row.role)
    assert all(row.converted for row in rows)


# -- numbers -------------------------------------------------------------------------------------------------------------

SCALE = 2.0**10


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """First values of the model without a fault, and what its tensors are in the first step."""
    prefix = str(tmp_path_factory.mktemp("checkpoint") / "model")
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(painting.copy_of(graph_of("nothing")))
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run([v.assign(np.linspace(-0.3, 0.5, v.shape.num_elements()).reshape(v.shape)) for v in tf.global_variables()])
            return saver.save(session, prefix)


def values_of(checkpoint, names, steps=1):
    """What the original computes in its first step; and the loss of each step of training it."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.train.import_meta_graph(painting.copy_of(graph_of("nothing"))).restore(session, checkpoint)
        feeds = [{name + ":0": values[step] for name, values in batches().items()} for step in range(steps)]
        first = session.run([name if ":" in name else name + ":0" for name in names], feeds[0])
        return first, [float(session.run(["loss:0", "train"], feed)[0]) for feed in feeds]


def test_counts_are_those_of_the_tensors(data, checkpoint):
    conversion = graphmp.convert(graph_of("nothing"), loss_scale=SCALE)
    audited = audit(conversion, Options(data=data.data, steps=1, checkpoint=checkpoint))
    ranges = [finding.range for finding in audited.findings]
    values, _ = values_of(checkpoint, [r.row.name for r in ranges])
    assert len(ranges) >= 20
    for r, value in zip(ranges, values):
        name, flat = r.row.name, np.ravel(value)
        scaled = flat * np.float32(SCALE if r.row.loss >= 0 else 1)
        half = scaled.astype(np.float16)
        assert (r.elements, r.counted, r.not_finite, r.original_not_finite) == (flat.size, flat.size, 0, 0), name
        assert r.overflow == np.isinf(half).sum() == 0, name
        assert abs(r.flushed - ((half == 0) & (scaled != 0)).sum()) <= 0.02 * flat.size, name  # kernels add up in an order of their own
        assert abs(r.subnormal - ((half != 0) & (np.abs(scaled) < 2.0**-14)).sum()) <= 0.02 * flat.size, name
        assert np.abs(r.exponents - exponent_fields(flat)).sum() <= 0.04 * flat.size, name
        assert r.largest == pytest.approx(np.abs(flat).max(), rel=1e-5), name
        assert r.norm == pytest.approx(np.linalg.norm(flat), rel=1e-5) or flat.size > 64, name
        assert r.error < 0.03 and (r.error > 0 or r.row.dtype != FLOAT16 or not flat.any()), name


def test_the_original_trains_and_the_converted_graph_stands_beside(data, checkpoint):
    audited = audit(graphmp.convert(graph_of("nothing")), Options(data=data.data, steps=6, checkpoint=checkpoint))
    _, losses = values_of(checkpoint, [], 4)
    (loss,) = audited.losses
    assert loss.original[:4] == pytest.approx(losses, rel=1e-5)
    assert loss.converted == pytest.approx(loss.original, rel=1e-3) and loss.converted != loss.original
    assert loss.loss == ["loss"] and len(loss.scales) == 6
    assert loss.original[4] < loss.original[0]  # batches begin anew after four, and it has learned


def test_steps_and_measured_steps(data):
    steps = []
    audited = audit(graphmp.convert(graph_of("nothing")), Options(data=data.data, steps=25), TOLERANCE, steps.append)
    assert (audited.steps, audited.measured, steps) == (25, 10, list(range(1, 26)))
    weight = next(finding.range for finding in audited.findings if finding.range.row.role == WEIGHT)
    assert weight.elements % 10 == 0 and all(seconds > 0 for seconds in audited.seconds.values())


@pytest.mark.parametrize(
    "steps, tensors, expected",
    [(25, 100, 10), (7, 100, 7), (50, 3000, 5), (50, 10**6, 3), (2, 10**6, 2), (1, 0, 1)],
)
def test_of_graphs_with_many_tensors_fewer_steps_are_measured(steps, tensors, expected):
    found = measured_steps(steps, tensors)
    assert len(found) == expected <= MOST_MEASURED and (found[0], found[-1]) == (0, steps - 1)


def test_a_fixed_scale_that_is_too_high(data):
    """No step is skipped; gradients are not finite, and the scale that is advised repairs it."""
    _, audited = found("nothing", data, loss_scale=2.0**60)
    (loss,) = audited.losses
    assert not audited.agrees and loss.skipped == 0 and loss.scales == [2.0**60] * STEPS
    assert audited.offenders and loss.difference < 0.01
    assert repaired("nothing", data, loss_scale=2.0**60).loss_scale == "%d" % loss.advice.scale < "7"


def test_a_dynamic_scale_that_stays_too_high_is_seen_as_skipped_steps(data):
    _, audited = found("nothing", data, loss_scale_initial=2.0**60, loss_scale_min=2.0**60)
    (loss,) = audited.losses
    assert not audited.agrees and loss.skipped == STEPS and loss.scales == [2.0**60] * STEPS


def test_a_dynamic_scale_begins_where_the_first_step_says(data):
    _, audited = found("nothing", data, loss_scale_initial=2.0**60)
    assert audited.agrees and audited.losses[0].skipped == 0 and audited.losses[0].scales[0] < 2.0**30


def test_json(data):
    _, audited = found("activation", data)
    value = json.loads(audited.to_json())
    assert value["schema"] == "graphmp.audit/1" and value["arithmetic"] == "simulated" and value["agrees"] is False
    assert [row["name"] for row in value["tensors"]] == [finding.range.row.name for finding in audited.findings]
    assert value["losses"][0]["difference"] is None and value["losses"][0]["converted"] == [None] * STEPS
    worst = value["tensors"][0]
    assert worst["overflow_share"] == worst["overflow"] / worst["counted"] and worst["flag"].startswith("--keep_float32='^")
    for row in value["tensors"]:
        assert sum(row["exponents"]) == row["counted"] and row["role"] in ROLES
        assert row["reason"] and bool(row["flag"]) == row["half"]
    for role, sums in value["roles"].items():
        rows = [row for row in value["tensors"] if row["role"] == role]
        assert (sums["tensors"], sums["half"]) == (len(rows), sum(row["half"] for row in rows))
        assert sums["overflow"] == sum(row["overflow"] for row in rows if row["half"])
        assert sum(sums["exponents"]) == sum(row["counted"] for row in rows)
    severities = [finding.severity for finding in audited.findings]
    assert severities == sorted(severities, reverse=True)


# -- other graphs --------------------------------------------------------------------------------------------------------


def of_model(model, **options):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        model()
        return audit(graphmp.convert(graph, **options), Options(steps=2, batch_size=8))


def dropped_out():
    """Dropout and noise, outside of loops and in one, and in a function: what they draw decides on most of the loss."""
    x, y = tf.placeholder(tf.float32, (8, 12), name="x"), tf.placeholder(tf.float32, (8, 1), name="y")
    h = tf.nn.dropout(tf.layers.dense(x, 32, tf.nn.relu), rate=0.5) + tf.random_normal([8, 32])
    h = tf.tanh(h) * tf.random_uniform([8, 1], 0.0, 4.0)
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(16), 0.5, 0.5, 0.5)
    h = tf.nn.dynamic_rnn(cell, tf.reshape(h, [8, 4, 8]), dtype=tf.float32)[0][:, -1]
    h = tf.function(lambda h: tf.nn.dropout(h, rate=0.5))(tf.layers.dense(h, 16))
    tf.train.AdamOptimizer(0.01).minimize(tf.losses.mean_squared_error(y, tf.layers.dense(h, 1)))


@pytest.mark.parametrize("compute_dtype, within", [("float16", 0.005), ("bfloat16", 0.1)])
def test_both_graphs_draw_the_same_random_numbers(compute_dtype, within):
    audited = of_model(dropped_out, compute_dtype=compute_dtype)
    (loss,) = audited.losses
    assert loss.difference < within and loss.original[0] != loss.original[1]
    gradients = [finding.range.error for finding in audited.by_role()[WEIGHT_GRADIENT]]
    assert len(gradients) == 10 and np.median(gradients) < 0.3


@pytest.mark.parametrize("name", ["batch_norm", "recurrent_loop", "gan", "embedding"])
def test_models_agree(name, tmp_path):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        _, _, placeholders = MODELS[name](undecorated)
        conversion = graphmp.convert(graph)
    np.savez(str(tmp_path / "data.npz"), **{p.op.name: value for p, value in zip(placeholders, batch_for(name))})
    audited = audit(conversion, Options(data=str(tmp_path / "data.npz"), steps=2))
    assert audited.agrees, [(f.range.row.name, f.range.error) for f in audited.disagreeing]
    assert len(audited.losses) == (2 if name == "gan" else 1)
    inside = [f.range for f in audited.findings if "while" in f.range.row.name]
    assert bool(inside) == (name == "recurrent_loop") and len(audited.left_out) <= len(inside) / 2


def test_bfloat16_agrees_everywhere(data):
    """1.15.5 has no kernels for it on the CPU, and needs none."""
    _, audited = found("nothing", data, compute_dtype="bfloat16")
    assert audited.agrees and audited.compute_dtype == "bfloat16"
    _, overflowing = found("activation", data, compute_dtype="bfloat16")
    assert overflowing.agrees and not overflowing.offenders


def test_native_kernels_agree_too(data):
    audited = audit(graphmp.convert(graph_of("nothing")), Options(data=data.data, steps=1, arithmetic="native"))
    assert audited.agrees and audited.arithmetic == "native"
    half = [finding.range for finding in audited.by_role()[ACTIVATION] if finding.half and finding.range.row.op == "MatMul"]
    assert half and all(0 < r.error < 0.01 for r in half)


def test_float32_agrees_to_the_bit(data):
    _, audited = found("nothing", data, compute_dtype="bfloat16", keep_float32=".")
    assert all(finding.range.error == 0 for finding in audited.findings if not math.isnan(finding.range.error))
    assert audited.losses[0].difference == 0


def test_a_graph_without_training(data):
    with tf.Graph().as_default() as graph:
        tf.layers.dense(tf.placeholder(tf.float32, [2, 4]), 3)
        conversion = graphmp.convert(graph)
    with pytest.raises(GraphmpError, match=r"GMP023.*no training step was found"):
        audit(conversion, data)


def test_a_step_that_does_not_run(data, tmp_path):
    np.savez(str(tmp_path / "data.npz"), x=batches()["x"], labels=batches()["labels"] + 1000)
    conversion, _ = found("nothing", data)
    with pytest.raises(GraphmpError, match=r"GMP024.*step 0 does not run: "):
        audit(conversion, Options(data=str(tmp_path / "data.npz"), steps=2))


def test_neither_graph_is_changed(data):
    conversion = graphmp.convert(graph_of("nothing"))
    before = painting.copy_of(conversion.original), painting.copy_of(conversion.meta_graph)
    audit(conversion, data)
    assert (conversion.original, conversion.meta_graph) == before
    assert FLOAT32 in {node.attr["T"].type for node in conversion.meta_graph.graph_def.node if "T" in node.attr}
