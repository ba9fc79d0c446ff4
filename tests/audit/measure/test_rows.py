"""The tensors that an audit measures, by role."""

from __future__ import annotations

import collections
import re

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.measure.rows import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    ROLES,
    WEIGHT,
    WEIGHT_GRADIENT,
    GraphPair,
)
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.dtypes import FLOAT16
from tests.support.audited import graph_of
from tests.support.models import MODELS
from tests.support.scaled import shaped
from tests.support.training import undecorated

pytestmark = pytest.mark.unit


def rows_of(meta_graph, **options):
    conversion = graphmp.convert(meta_graph, **options)
    return GraphPair(conversion.original, conversion.meta_graph, conversion.report["losses"]).rows()


def test_rows_stand_behind_all_that_they_depend_on():
    rows, view = rows_of(graph_of("mask")), GraphView(graph_of("mask").graph_def)
    assert sorted(row.order for row in rows) == list(range(len(rows)))
    for row in rows:
        before = view.ancestors([parse_input(row.name).node]) - {parse_input(row.name).node}
        assert all(
            other.order < row.order for other in rows if parse_input(other.name).node in before
        )


def test_weight_gradients_are_compared_with_themselves():
    """Also where more is divided by the scale: a gradient that another one starts from."""
    meta_graph = tf.train.export_meta_graph(graph=shaped("given_by_another_gradient"))
    rows = [row for row in rows_of(meta_graph) if row.role == WEIGHT_GRADIENT]
    assert len(rows) == 4 and all(row.converted == row.name for row in rows)


def test_rows_of_a_model():
    rows = {(row.name, row.role): row for row in rows_of(graph_of("nothing"))}
    roles = collections.defaultdict(set)
    for name, role in rows:
        roles[role].add(name)
    layers = [layer + "/" + part for layer in ("before", "after") for part in ("weight", "bias")]
    assert {re.sub("/(read|Read.*)$", "", name) for name in roles[WEIGHT]} == set(layers)
    assert roles[WEIGHT_GRADIENT] == {
        "gradients/%s/%s" % (layer, gradient)
        for layer in ("before", "after")
        for gradient in ("BiasAdd_grad/BiasAddGrad", "MatMul_grad/MatMul_1")
    }
    assert {
        "before/MatMul",
        "before/BiasAdd",
        "before/Relu",
        "after/MatMul",
        "after/BiasAdd",
    } <= roles[ACTIVATION]
    assert {"gradients/after/MatMul_grad/MatMul", "gradients/before/Relu_grad/ReluGrad"} <= roles[
        ACTIVATION_GRADIENT
    ]
    assert set(roles) == set(ROLES) and roles[ACTIVATION].isdisjoint(
        {"labels", "loss"}
    )  # integers, and what nothing reads
    matmul = rows["before/MatMul", ACTIVATION]
    assert (matmul.op, matmul.converted, matmul.dtype, matmul.loss) == (
        "MatMul",
        "before/MatMul",
        FLOAT16,
        -1,
    )
    assert rows["gradients/before/MatMul_grad/MatMul_1", WEIGHT_GRADIENT].loss == 0
    entropy = "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits"
    assert rows[entropy, ACTIVATION].dtype == rows[entropy + ":1", ACTIVATION].dtype == 0


@pytest.mark.parametrize(
    "name",
    [
        "accumulated",
        "batch_norm",
        "embedding",
        "float64",
        "gan",
        "partitioned",
        "recurrent_loop",
        "resource_variables",
        "shared_weight",
        "towers",
    ],
)
def test_each_variable_is_one_weight_and_one_gradient(name):
    with tf.Graph().as_default() as graph:
        MODELS[name](undecorated)
        rows, variables = (
            rows_of(graph),
            [variable.op.name for variable in tf.trainable_variables()],
        )
    counts = collections.Counter(row.role for row in rows)
    assert len({(row.name, row.role) for row in rows}) == len(rows)
    assert counts[WEIGHT] == len(variables)
    assert counts[WEIGHT_GRADIENT] == len(variables) * (
        2 if name == "towers" else 1
    )  # there one a tower
    assert all(row.loss >= 0 for row in rows if "gradient" in row.role) and all(
        row.loss < 0 for row in rows if "gradient" not in row.role
    )
    assert all(row.converted for row in rows)
