"""The numbers of an audit against NumPy's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.measure.rows import ROLES, WEIGHT
from graphmp.audit.options import AuditOptions
from graphmp.audit.run import MOST_MEASURED, audit, measured_steps
from graphmp.policy.dtypes import FLOAT16
from tests.support import painting
from tests.support.audited import STEPS, TOLERANCE, found, graph_of, repaired
from tests.support.audits import exponent_fields
from tests.support.planted import batches

SCALE = 2.0**10


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """First values of the model without a fault, and what its tensors are in the first step."""
    prefix = str(tmp_path_factory.mktemp("checkpoint") / "model")
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(painting.copy_of(graph_of("nothing")))
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run(
                [
                    v.assign(np.linspace(-0.3, 0.5, v.shape.num_elements()).reshape(v.shape))
                    for v in tf.global_variables()
                ]
            )
            return saver.save(session, prefix)


def values_of(checkpoint, names, steps=1):
    """What the original computes in its first step; and the loss of each step of training it."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.train.import_meta_graph(painting.copy_of(graph_of("nothing"))).restore(
            session, checkpoint
        )
        feeds = [
            {name + ":0": values[step] for name, values in batches().items()}
            for step in range(steps)
        ]
        first = session.run([name if ":" in name else name + ":0" for name in names], feeds[0])
        return first, [float(session.run(["loss:0", "train"], feed)[0]) for feed in feeds]


def test_counts_are_those_of_the_tensors(data, checkpoint):
    conversion = graphmp.convert(graph_of("nothing"), loss_scale=SCALE)
    audited = audit(conversion, AuditOptions(data=data.data, steps=1, checkpoint=checkpoint))
    ranges = [finding.range for finding in audited.findings]
    values, _ = values_of(checkpoint, [r.row.name for r in ranges])
    assert len(ranges) >= 20
    for r, value in zip(ranges, values):
        name, flat = r.row.name, np.ravel(value)
        scaled = flat * np.float32(SCALE if r.row.loss >= 0 else 1)
        half = scaled.astype(np.float16)
        assert (r.elements, r.counted, r.not_finite, r.original_not_finite) == (
            flat.size,
            flat.size,
            0,
            0,
        ), name
        assert r.overflow == np.isinf(half).sum() == 0, name
        assert abs(r.flushed - ((half == 0) & (scaled != 0)).sum()) <= 0.02 * flat.size, (
            name
        )  # kernels add up in an order of their own
        assert (
            abs(r.subnormal - ((half != 0) & (np.abs(scaled) < 2.0**-14)).sum()) <= 0.02 * flat.size
        ), name
        assert np.abs(r.exponents - exponent_fields(flat)).sum() <= 0.04 * flat.size, name
        assert r.largest == pytest.approx(np.abs(flat).max(), rel=1e-5), name
        assert r.norm == pytest.approx(np.linalg.norm(flat), rel=1e-5) or flat.size > 64, name
        assert r.error < 0.03 and (r.error > 0 or r.row.dtype != FLOAT16 or not flat.any()), name


def test_the_original_trains_and_the_converted_graph_stands_beside(data, checkpoint):
    audited = audit(
        graphmp.convert(graph_of("nothing")),
        AuditOptions(data=data.data, steps=6, checkpoint=checkpoint),
    )
    _, losses = values_of(checkpoint, [], 4)
    (loss,) = audited.losses
    assert loss.original[:4] == pytest.approx(losses, rel=1e-5)
    assert (
        loss.converted == pytest.approx(loss.original, rel=1e-3) and loss.converted != loss.original
    )
    assert loss.loss == ["loss"] and len(loss.scales) == 6
    assert loss.original[4] < loss.original[0]  # batches begin anew after four, and it has learned


def test_steps_and_measured_steps(data):
    steps = []
    audited = audit(
        graphmp.convert(graph_of("nothing")),
        AuditOptions(data=data.data, steps=25),
        TOLERANCE,
        steps.append,
    )
    assert (audited.steps, audited.measured, steps) == (25, 10, list(range(1, 26)))
    weight = next(finding.range for finding in audited.findings if finding.range.row.role == WEIGHT)
    assert weight.elements % 10 == 0 and all(seconds > 0 for seconds in audited.seconds.values())


@pytest.mark.unit
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
    assert (
        repaired("nothing", data, loss_scale=2.0**60).loss_scale == "%d" % loss.advice.scale < "7"
    )


def test_a_dynamic_scale_that_stays_too_high_is_seen_as_skipped_steps(data):
    _, audited = found("nothing", data, loss_scale_initial=2.0**60, loss_scale_min=2.0**60)
    (loss,) = audited.losses
    assert not audited.agrees and loss.skipped == STEPS and loss.scales == [2.0**60] * STEPS


def test_a_dynamic_scale_begins_where_the_first_step_says(data):
    _, audited = found("nothing", data, loss_scale_initial=2.0**60)
    assert (
        audited.agrees and audited.losses[0].skipped == 0 and audited.losses[0].scales[0] < 2.0**30
    )


def test_json(data):
    _, audited = found("activation", data)
    value = json.loads(audited.to_json())
    assert (
        value["schema"] == "graphmp.audit/1"
        and value["arithmetic"] == "simulated"
        and value["agrees"] is False
    )
    assert [row["name"] for row in value["tensors"]] == [
        finding.range.row.name for finding in audited.findings
    ]
    assert (
        value["losses"][0]["difference"] is None
        and value["losses"][0]["converted"] == [None] * STEPS
    )
    worst = value["tensors"][0]
    assert worst["overflow_share"] == worst["overflow"] / worst["counted"] and worst[
        "flag"
    ].startswith("--keep_float32='^")
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
