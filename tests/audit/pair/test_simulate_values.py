"""Simulated half precision against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.audit.pair.simulate import simulated
from graphmp.policy.dtypes import HALF
from tests.support import painting
from tests.support.painting import built
from tests.support.simulated import SIZE, both, layers, rounded

often = settings(max_examples=40)


def layers_in_numpy(x, first, second, bias, compute_dtype):
    def r(values):
        return rounded(values, compute_dtype)

    one = r(r(x) @ r(first))
    relu = np.maximum(r(one + r(bias)), 0)
    return one, relu, r(relu @ r(second))


class Layers:
    """A session of the simulated layers."""

    def __init__(self, compute_dtype):
        self.compute_dtype = compute_dtype
        _, self.simulation = both(built(layers), compute_dtype=compute_dtype)
        self._open = painting.session(self.simulation.meta_graph)
        self._session = self._open.__enter__()

    def run(self, names, feeds):
        return self._session.run(
            [name + ":0" for name in names], {name + ":0": value for name, value in feeds.items()}
        )

    def close(self):
        self._open.__exit__(None, None, None)


@pytest.fixture(scope="module", params=["float16", "bfloat16"])
def simulated_layers(request):
    made = Layers(request.param)
    yield made
    made.close()


@given(seed=st.integers(0, 2**32 - 1), largest=st.sampled_from([3, 30, 60]))
@often
def test_layers_bit_for_bit(simulated_layers, seed, largest):
    """Small integers.

    Float32 holds every sum, whatever the order of summation, and half precision rounds many, some
    to infinity.
    """
    random = np.random.RandomState(seed)
    x, first, second = (
        random.randint(-largest, largest + 1, (SIZE, SIZE)).astype(np.float32) for _ in range(3)
    )
    bias = random.randint(-largest, largest + 1, SIZE).astype(np.float32)
    feeds = {"x": x, "first": first, "second": second, "bias": bias}
    names = ["one", "relu", "two"]
    found = simulated_layers.run(
        [simulated_layers.simulation.rounded.get(name, name) for name in names], feeds
    )
    for name, expected, value in zip(
        names, layers_in_numpy(x, first, second, bias, simulated_layers.compute_dtype), found
    ):
        np.testing.assert_array_equal(value, expected, err_msg=name)


def test_the_output_is_that_of_the_last_half_op(simulated_layers):
    compute_dtype, last = simulated_layers.compute_dtype, simulated_layers.simulation.rounded["two"]
    feeds = {
        "x": np.eye(SIZE) * 1.001,
        "first": np.eye(SIZE),
        "second": np.eye(SIZE) * 3.003,
        "bias": np.zeros(SIZE),
    }
    y, two = simulated_layers.run(["y", last], feeds)
    np.testing.assert_array_equal(y, two)
    one = rounded(1.001, compute_dtype) * rounded(1.0, compute_dtype)
    np.testing.assert_array_equal(
        np.diag(y),
        np.full(
            SIZE,
            rounded(rounded(one, compute_dtype) * rounded(3.003, compute_dtype), compute_dtype),
        ),
    )


def test_sums_are_of_float32_and_overflow_to_infinity():
    """A sum of 4,096 ones: a float16 that is added up in float16 stays at 2,048."""
    before = painting.graph(
        "x Placeholder shape=[1,4096]", "w Placeholder shape=[4096,2]", "m MatMul x w"
    )
    _, simulation = both(before)
    name = simulation.rounded["m"] + ":0"
    for value, expected in ((1.0, 4096), (16.0, np.inf)):
        (found,) = painting.values(
            simulation.meta_graph,
            [name],
            {"x:0": np.full((1, 4096), value), "w:0": np.ones((4096, 2))},
        )
        assert (found == expected).all()


def test_constants_are_rounded():
    constant = np.float32([[1.0001, 3.14159], [1e-9, -0.1]])
    before = painting.graph(
        "x Placeholder shape=[2,2]",
        "c Const",
        "m MatMul x c",
        "s Add m c",
        "o MatMul s c",
        c=constant,
    )
    for compute_dtype in ("float16", "bfloat16"):
        half, simulation = both(before, compute_dtype=compute_dtype)
        nodes = painting.nodes(simulation.meta_graph)
        if painting.nodes(half)["c"].attr["dtype"].type in HALF:
            np.testing.assert_array_equal(
                tf.make_ndarray(nodes["c"].attr["value"].tensor), rounded(constant, compute_dtype)
            )
        c, x = rounded(constant, compute_dtype), np.eye(2)
        first = rounded(rounded(x @ c, compute_dtype) + c, compute_dtype)
        expected = rounded(first.astype(np.float64) @ c.astype(np.float64), compute_dtype)
        (found,) = painting.values(
            simulation.meta_graph, [simulation.rounded["o"] + ":0"], {"x:0": x}
        )
        np.testing.assert_allclose(found, expected, rtol=2**-8)


@pytest.mark.unit
def test_constants_of_one_repeated_value():
    """A tensor that is written as one value and a shape."""
    half = tf.MetaGraphDef()
    node = half.graph_def.node.add(name="c", op="Const")
    node.attr["dtype"].type = node.attr["value"].tensor.dtype = tf.float16.as_datatype_enum
    node.attr["value"].tensor.half_val.append(int(np.float16(0.1).view(np.uint16)))
    node.attr["value"].tensor.tensor_shape.CopyFrom(tf.TensorShape([2, 3]).as_proto())
    found = simulated(half).meta_graph.graph_def.node[0].attr["value"].tensor
    np.testing.assert_array_equal(
        tf.make_ndarray(found), np.full((2, 3), np.float16(0.1), np.float32)
    )
    assert (
        half.graph_def.node[0].attr["dtype"].type == tf.float16.as_datatype_enum
    )  # the graph that is given is not changed
