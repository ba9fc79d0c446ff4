"""Half precision simulated in float32: each half op computes in float32 and rounds what it gives, in loops and functions too."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmp
from graphmp.graph.dtypes import FLOAT32, HALF
from graphmp.numerics.simulate import simulated
from tests.support import painting
from tests.support.models import MODELS, batch_for
from tests.support.painting import built, converted
from tests.support.training import run_steps, tensor_core_dtypes, train_rewritten, undecorated

SIZE = 8
FORMAT = pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
often = settings(max_examples=40, deadline=None, derandomize=True)


def rounded(values, compute_dtype):
    """Float32 rounded to half precision and back, ties to even."""
    values = np.asarray(values, np.float32)
    if compute_dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def bodies(meta_graph):
    """The nodes of the graph and of each function."""
    return [meta_graph.graph_def.node, *(function.node_def for function in meta_graph.graph_def.library.function)]


def dtypes_of(node):
    """Every dtype in a node's attributes, values included."""
    for attribute in node.attr.values():
        yield from [attribute.type, attribute.tensor.dtype, *attribute.list.type]


def assert_simulates(before, after):
    """Every node is there in its place, and half precision is nowhere but in the casts that round."""
    own = {node.name for node in before.graph_def.node}
    for nodes, others in zip(bodies(before), bodies(after)):
        assert [(node.name, node.op) for node in nodes] == [(node.name, node.op) for node in others][: len(nodes)]
        for node in others:
            if node.op != "Cast" or FLOAT32 not in (node.attr["SrcT"].type, node.attr["DstT"].type):
                assert not set(dtypes_of(node)) & set(HALF), node
        assert all("_graphmp_rounded" in node.name and node.op == "Cast" for node in list(others)[len(nodes) :])
    for function in after.graph_def.library.function:
        signature = function.signature
        assert not {argument.type for argument in [*signature.input_arg, *signature.output_arg]} & set(HALF)
    assert own <= {node.name for node in after.graph_def.node}


def both(before, **options):
    """The converted graph and its simulation, checked."""
    half = converted(before, **options)
    simulation = simulated(half)
    assert_simulates(half, simulation.meta_graph)
    painting.dtypes_agree(simulation.meta_graph)
    return half, simulation


# -- against NumPy -------------------------------------------------------------------------------------------------------


def layers():
    x, first, second, bias = (
        tf.placeholder(tf.float32, shape, name) for name, shape in zip(("x", "first", "second", "bias"), 3 * [[SIZE, SIZE]] + [[SIZE]])
    )
    h = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, first, name="one"), bias, name="biased"), name="relu")
    tf.identity(tf.matmul(h, second, name="two"), name="y")


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
        return self._session.run([name + ":0" for name in names], {name + ":0": value for name, value in feeds.items()})

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
    """Small integers: float32 holds every sum, whatever the order of summation, and half precision rounds many, some to infinity."""
    random = np.random.RandomState(seed)
    x, first, second = (random.randint(-largest, largest + 1, (SIZE, SIZE)).astype(np.float32) for _ in range(3))
    bias = random.randint(-largest, largest + 1, SIZE).astype(np.float32)
    feeds = {"x": x, "first": first, "second": second, "bias": bias}
    names = ["one", "relu", "two"]
    found = simulated_layers.run([simulated_layers.simulation.rounded.get(name, name) for name in names], feeds)
    for name, expected, value in zip(names, layers_in_numpy(x, first, second, bias, simulated_layers.compute_dtype), found):
        np.testing.assert_array_equal(value, expected, err_msg=name)


def test_the_output_is_that_of_the_last_half_op(simulated_layers):
    compute_dtype, last = simulated_layers.compute_dtype, simulated_layers.simulation.rounded["two"]
    feeds = {"x": np.eye(SIZE) * 1.001, "first": np.eye(SIZE), "second": np.eye(SIZE) * 3.003, "bias": np.zeros(SIZE)}
    y, two = simulated_layers.run(["y", last], feeds)
    np.testing.assert_array_equal(y, two)
    one = rounded(1.001, compute_dtype) * rounded(1.0, compute_dtype)
    np.testing.assert_array_equal(np.diag(y), np.full(SIZE, rounded(rounded(one, compute_dtype) * rounded(3.003, compute_dtype), compute_dtype)))


def test_sums_are_of_float32_and_overflow_to_infinity():
    """A sum of 4,096 ones: a float16 that is added up in float16 stays at 2,048."""
    before = painting.graph("x Placeholder shape=[1,4096]", "w Placeholder shape=[4096,1]", "m MatMul x w")
    _, simulation = both(before)
    name = simulation.rounded["m"] + ":0"
    for value, expected in ((1.0, 4096), (16.0, np.inf)):
        assert painting.values(simulation.meta_graph, [name], {"x:0": np.full((1, 4096), value), "w:0": np.ones((4096, 1))}) == [expected]


def test_constants_are_rounded():
    constant = np.float32([[1.0001, 3.14159], [1e-9, -0.1]])
    before = painting.graph("x Placeholder shape=[2,2]", "c Const", "m MatMul x c", "s Add m c", "o MatMul s c", c=constant)
    for compute_dtype in ("float16", "bfloat16"):
        half, simulation = both(before, compute_dtype=compute_dtype)
        nodes = painting.nodes(simulation.meta_graph)
        if painting.nodes(half)["c"].attr["dtype"].type in HALF:
            np.testing.assert_array_equal(tf.make_ndarray(nodes["c"].attr["value"].tensor), rounded(constant, compute_dtype))
        c, x = rounded(constant, compute_dtype), np.eye(2)
        first = rounded(rounded(x @ c, compute_dtype) + c, compute_dtype)
        expected = rounded(first.astype(np.float64) @ c.astype(np.float64), compute_dtype)
        (found,) = painting.values(simulation.meta_graph, [simulation.rounded["o"] + ":0"], {"x:0": x})
        np.testing.assert_allclose(found, expected, rtol=2**-8)


def test_constants_of_one_repeated_value():
    """A tensor that is written as one value and a shape."""
    half = tf.MetaGraphDef()
    node = half.graph_def.node.add(name="c", op="Const")
    node.attr["dtype"].type = node.attr["value"].tensor.dtype = tf.float16.as_datatype_enum
    node.attr["value"].tensor.half_val.append(int(np.float16(0.1).view(np.uint16)))
    node.attr["value"].tensor.tensor_shape.CopyFrom(tf.TensorShape([2, 3]).as_proto())
    found = simulated(half).meta_graph.graph_def.node[0].attr["value"].tensor
    np.testing.assert_array_equal(tf.make_ndarray(found), np.full((2, 3), np.float16(0.1), np.float32))
    assert half.graph_def.node[0].attr["dtype"].type == tf.float16.as_datatype_enum  # the graph that is given is not changed


# -- what is held where --------------------------------------------------------------------------------------------------


def normalised():
    x = tf.placeholder(tf.float32, [4, 6, 6, 3], "x")
    h = tf.nn.conv2d(x, np.random.RandomState(0).normal(size=(3, 3, 3, 8)).astype(np.float32), 1, "SAME", name="conv")
    y, mean, _ = tf.nn.fused_batch_norm(h, np.linspace(1, 2, 8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32), name="norm")
    tf.identity(tf.nn.conv2d(tf.nn.relu(y), np.full((1, 1, 8, 4), 0.1, np.float32), 1, "SAME"), name="y")
    tf.identity(mean, name="mean")


@FORMAT
def test_batch_normalisation_keeps_its_statistics(compute_dtype):
    before = built(normalised)
    half, simulation = both(before, compute_dtype=compute_dtype)
    types = {node.name: {name: attribute.type for name, attribute in node.attr.items()} for node in half.graph_def.node if node.name == "norm"}
    assert types["norm"]["T"] in HALF and types["norm"]["U"] == FLOAT32
    assert "norm" in simulation.rounded and "norm:1" not in simulation.rounded
    feeds = painting.placeholders(before)
    y, statistics = painting.values(simulation.meta_graph, [simulation.rounded["norm"] + ":0", "norm:1"], feeds)
    np.testing.assert_array_equal(y, rounded(y, compute_dtype))
    assert (statistics != rounded(statistics, compute_dtype)).any()
    painting.assert_close(before, simulation.meta_graph, ["y:0", "mean:0"], feeds, 0.02 if compute_dtype == "float16" else 0.1)


def test_every_half_output_has_its_rounded_value():
    before = built(normalised)
    half, simulation = both(before)
    named = painting.nodes(half)
    exact = ("Const", "Identity", "Relu", "Reshape")  # what they give is rounded already
    assert {name.split(":")[0] for name in simulation.rounded} == {name for name in painting.half_nodes(half) if named[name].op not in exact}
    feeds, texts = painting.placeholders(before), sorted(simulation.rounded)
    for text, value in zip(texts, painting.values(simulation.meta_graph, [simulation.rounded[text] + ":0" for text in texts], feeds)):
        np.testing.assert_array_equal(value, rounded(value, "float16"), err_msg=text)


def test_control_inputs_stay():
    before = painting.graph("x Placeholder shape=[2,2]", "a MatMul x x", "b MatMul a a ^a", "c Tanh b ^a ^b")
    _, simulation = both(before)
    nodes = painting.nodes(simulation.meta_graph)
    assert nodes["b"].input[2:] == ["^a"] and nodes["c"].input[1:] == ["^a", "^b"]


def test_a_float32_graph_is_left_alone():
    before = built(layers)
    simulation = simulated(before)
    assert simulation.meta_graph == before and simulation.rounded == {}


def test_functions_of_variable_type_stay():
    before = built(layers)
    function = before.graph_def.library.function.add()
    function.signature.name = "any"
    function.signature.attr.add(name="T", type="type")
    function.signature.input_arg.add(name="x", type_attr="T")
    node = function.node_def.add(name="c", op="Const")
    node.attr["dtype"].type = tf.float16.as_datatype_enum
    assert simulated(before).meta_graph.graph_def.library == before.graph_def.library


# -- functions and loops -------------------------------------------------------------------------------------------------

EYE = np.float32(np.eye(SIZE) * 1.0001)  # 1 in half precision


def of_function():
    function = tf.function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, EYE)), EYE))
    tf.identity(function(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_nested_functions():
    inner = tf.function(lambda x: tf.matmul(x, EYE))
    outer = tf.function(lambda x: inner(tf.nn.relu(inner(x))))
    tf.identity(outer(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_defun():
    defun = importlib.import_module("tensorflow.python.framework.function").Defun  # exported nowhere else

    @defun(tf.float32, func_name="Twice")
    def twice(x):
        return tf.matmul(tf.matmul(x, EYE), EYE)

    tf.identity(twice(tf.placeholder(tf.float32, [SIZE, SIZE], "x")), name="y")


def of_loop():
    """Two steps of a matmul, the loop's results gathered in an array."""
    x = tf.placeholder(tf.float32, [SIZE, SIZE], "x")

    def body(i, h, seen):
        h = tf.matmul(h, EYE)
        return i + 1, h, seen.write(i, h)

    _, h, seen = tf.while_loop(lambda i, *_: i < 2, body, [0, x, tf.TensorArray(tf.float32, 2, element_shape=[SIZE, SIZE])])
    tf.identity(tf.matmul((h + seen.read(1)) * 0.5, EYE), name="y")


def of_branch():
    x = tf.placeholder(tf.float32, [SIZE, SIZE], "x")
    h = tf.cond(tf.reduce_sum(x) > -1e9, lambda: tf.matmul(x, EYE), lambda: tf.zeros_like(x))
    tf.identity(tf.matmul(h, EYE), name="y")


@pytest.fixture(params=[False, True], ids=["nodes", "functions"])
def control_flow(request):
    """Loops and branches of both kinds."""
    before = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if request.param else tf.disable_control_flow_v2)()
    yield request.param
    (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()


def assert_as_numpy(build, compute_dtype):
    """A product with a matrix that half precision rounds to the identity: the rounded input comes out again."""
    before = built(build)
    _, simulation = both(before, compute_dtype=compute_dtype)
    x = np.random.RandomState(0).uniform(1, 2, (SIZE, SIZE)).astype(np.float32)
    (y,) = painting.values(simulation.meta_graph, ["y:0"], {"x:0": x})
    np.testing.assert_array_equal(y, rounded(x, compute_dtype))
    (original,) = painting.values(before, ["y:0"], {"x:0": x})
    assert (np.abs(original - x) > 1e-4).all()


@FORMAT
@pytest.mark.parametrize("build", [of_function, of_nested_functions, of_defun])
def test_functions(build, compute_dtype):
    assert_as_numpy(build, compute_dtype)


@FORMAT
@pytest.mark.parametrize("build", [of_loop, of_branch])
def test_control_flow(control_flow, build, compute_dtype):
    assert_as_numpy(build, compute_dtype)


# -- training ------------------------------------------------------------------------------------------------------------


def train_simulated(model, batch, steps=4, start=None, **options):
    """As tests.support.training.train_rewritten, simulated."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(undecorated)
        done = graphmp.convert(graph, **options)
    after = simulated(done.meta_graph).meta_graph
    assert_simulates(done.meta_graph, after)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(after)
        return run_steps(graph, [loss.name, train_op.name], {p.name: value for p, value in zip(placeholders, batch)}, steps, start)


@pytest.mark.parametrize("name", ["regression", "batch_norm", "recurrent_loop", "embedding", "conditional", "resource_variables"])
def test_models_train_as_in_half_precision(name):
    """Beside this machine's own float16 kernels, under a dynamic loss scale."""
    native = train_rewritten(MODELS[name], batch_for(name))
    found = train_simulated(MODELS[name], batch_for(name), start=native.before)
    assert found.variables == native.variables
    np.testing.assert_allclose(found.losses, native.losses, rtol=0.01)
    assert not tensor_core_dtypes(found.graph)["float16"]


@pytest.mark.parametrize("name", ["regression", "unfused_batch_norm", "recurrent"])
def test_models_train_in_bfloat16(name):
    """1.15.5 has no kernels for it on the CPU, and needs none."""
    original = train_rewritten(MODELS[name], batch_for(name), compute_dtype="float32")
    found = train_simulated(MODELS[name], batch_for(name), start=original.before, compute_dtype="bfloat16")
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.05)
    assert found.losses != original.losses


def test_a_dynamic_rnn_with_function_loops():
    tf.enable_control_flow_v2()
    try:
        name = "recurrent_loop"
        original = train_rewritten(MODELS[name], batch_for(name), compute_dtype="float32")
        found = train_simulated(MODELS[name], batch_for(name), start=original.before)
    finally:
        tf.disable_control_flow_v2()
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.01)
    assert found.losses != original.losses
