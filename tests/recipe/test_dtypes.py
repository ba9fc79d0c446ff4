"""Which dtype the recipe gives an op.

At the edges of the half part, and where variables are read and written.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.state.live import variable_op
from tests.support.models import vectors

pytestmark = pytest.mark.unit

recipe = graphmp.mixed_precision(loss_scale=64.0, engine="recipe")
NUMBERED = tf.DType(tf.float32.as_datatype_enum)
READS = {
    "as it is": lambda v: v,
    "value": lambda v: v.value(),
    "read_value": lambda v: v.read_value(),
}


def read_as(graph, name):
    """The dtypes of what an op reads."""
    return [tensor.dtype.base_dtype for tensor in graph.get_operation_by_name(name).inputs]


def test_a_penalty_on_a_layer_inside_the_half_part_is_float32(graph):
    """All that it reads is half, unlike a loss with labels."""

    @recipe
    def build(x):
        h = tf.layers.dense(x, 4, tf.nn.relu, name="one")
        return tf.layers.dense(h, 1, name="two"), tf.reduce_sum(tf.negative(h, name="penalty"))

    build(vectors()[0])
    assert read_as(graph, "two/MatMul") == [tf.float16] * 2 and read_as(graph, "penalty") == [
        tf.float32
    ]


def test_what_is_forced_stays_half_behind_the_half_part(graph):
    @graphmp.mixed_precision(loss_scale=64.0, engine="recipe", force_compute="^penalty$")
    def build(x):
        h = tf.layers.dense(x, 4, name="one")
        return tf.layers.dense(h, 1, name="two"), tf.reduce_sum(tf.negative(h, name="penalty"))

    build(vectors()[0])
    assert read_as(graph, "penalty") == [tf.float16]


@pytest.mark.parametrize("op", [tf.shape, tf.size, tf.rank])
def test_a_shape_is_taken_without_a_cast(graph, op):
    @recipe
    def build(x):
        h = tf.placeholder_with_default(tf.layers.dense(x, 4, name="one"), None)
        return tf.layers.dense(tf.reshape(h, [-1, 4]), 1, name="two"), op(h, name="looked_at")

    build(vectors()[0])
    assert read_as(graph, "looked_at") == [tf.float16]


@pytest.mark.parametrize(
    "dtype", [tf.float32, "float32", NUMBERED], ids=["dtype", "name", "number"]
)
def test_integers_that_enter_the_half_part_are_half_however_their_dtype_is_given(graph, dtype):
    @recipe
    def build(x, ids):
        return tf.layers.dense(tf.add(x, tf.cast(ids, dtype), name="sum"), 1)

    build(vectors()[0], tf.placeholder(tf.int32, [None, 12]))
    assert read_as(graph, "sum") == [tf.float16] * 2


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("read", sorted(READS))
def test_variables_that_a_model_makes_and_reads_itself_are_cast(graph, read, use_resource):
    """tf.Variable asks no getter."""

    @recipe
    def build(x):
        first = tf.Variable(tf.ones([12, 4]), name="first", use_resource=use_resource)
        return tf.matmul(
            tf.matmul(x, READS[read](first), name="one"), tf.ones([4, 2], x.dtype), name="two"
        )

    build(vectors()[0])
    assert read_as(graph, "one") == read_as(graph, "two") == [tf.float16] * 2
    assert [v.dtype.base_dtype for v in tf.trainable_variables()] == [tf.float32]


@pytest.mark.parametrize("use_resource", [False, True])
def test_what_a_model_assigns_itself_is_float32_and_kept_where_it_is_not_finite(
    graph, use_resource
):
    """Half precision may overflow.

    Then the variable is given its old value, as a moving average is.
    """

    @graphmp.mixed_precision(engine="recipe")
    def build(x):
        last = tf.get_variable("last", [2, 4], trainable=False, use_resource=use_resource)
        top = tf.layers.dense(x, 4, name="one")
        # Python converts what a resource variable is assigned before there is an op.
        with tf.control_dependencies([tf.assign(last, tf.negative(top) if use_resource else top)]):
            return tf.layers.dense(top, 1, name="two")

    build(tf.placeholder(tf.float32, [2, 12]))
    writes = [op for op in graph.get_operations() if op.type in ("Assign", "AssignVariableOp")]
    (write,) = [op for op in writes if op.inputs[0].op.name == "last" and op.name != "last/Assign"]
    chosen = write.inputs[1].op
    old, new = (switch.op.inputs[0] for switch in chosen.inputs)
    assert chosen.type == "Merge" and new.dtype == old.dtype == tf.float32
    assert new.op.type == ("Neg" if use_resource else "Cast") and new.op.inputs[
        0
    ].op.name.startswith("one/BiasAdd")
    assert variable_op(old).name == "last"


@pytest.mark.parametrize("batch, half", [(1, False), (None, False), (2, True)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_shapes_for_which_a_kernel_fails(graph, batch, half, data_format):
    """1.15.5's CPU kernel of the gradient ends the process where a channel has one value."""

    @recipe
    def build(x):
        w = tf.get_variable("w", [1, 1, 4, 4])
        h = tf.nn.conv2d(x, w, 1, "SAME", data_format=data_format)
        scale, offset = tf.get_variable("scale", [4]), tf.get_variable("offset", [4])
        h = tf.nn.fused_batch_norm(h, scale, offset, data_format=data_format, name="n")[0]
        h = tf.nn.conv2d(h, w, 1, "SAME", data_format=data_format, name="last")
        return tf.gradients(tf.reduce_sum(tf.square(h)), w)[0]

    channels_first = data_format == "NCHW"
    build(tf.placeholder(tf.float32, [batch, 4, 1, 1] if channels_first else [batch, 1, 1, 4]))
    assert read_as(graph, "last") == [tf.float16] * 2
    normalised = [op for op in graph.get_operations() if "FusedBatchNorm" in op.type]
    assert len(normalised) == 2
    assert {op.get_attr("T") for op in normalised} == {tf.float16 if half else tf.float32}


def test_what_a_function_computes_in_half_precision_alone(graph):
    """The float32 build knows no such op; it goes by the policy."""

    @recipe
    def build(x):
        h = tf.layers.dense(x, 4, name="one")
        if h.dtype == tf.float16:
            h = tf.exp(h, name="half_alone")
        return tf.layers.dense(h, 1, name="two")

    build(vectors()[0])
    assert read_as(graph, "half_alone") == [tf.float32]
    assert read_as(graph, "two/MatMul") == [tf.float16] * 2


@pytest.mark.parametrize("batch", [1, 2])
def test_statistics_of_a_batch_are_not_rounded(graph, batch):
    """They are float32 beside half values, and so they stay where the op computes in float32."""

    @recipe
    def build(x):
        h = tf.layers.conv2d(x, 4, 1, name="one")
        h = tf.layers.batch_normalization(h, training=True, fused=True, name="norm")
        return tf.layers.conv2d(h, 2, 1, name="two")

    build(tf.placeholder(tf.float32, [batch, 1, 1, 4]))
    normalised = next(op for op in graph.get_operations() if "FusedBatchNorm" in op.type)
    assert normalised.get_attr("T") == (tf.float32 if batch == 1 else tf.float16)
    assert read_as(graph, "two/Conv2D") == [tf.float16] * 2
    readers = [reader.type for output in normalised.outputs[1:] for reader in output.consumers()]
    assert readers == ["Sub", "Sub"]  # of the moving averages


def test_an_op_without_a_kernel_on_every_device(graph):
    @recipe
    def build(x):
        h = tf.nn.max_pool3d(tf.layers.dense(x, 4, name="one"), 1, 1, "SAME", name="pool")
        return tf.layers.dense(h, 1, name="two")

    build(tf.placeholder(tf.float32, [2, 3, 3, 3, 4]))
    assert read_as(graph, "pool") == [tf.float32]
    assert read_as(graph, "two/Tensordot/MatMul") == [tf.float16] * 2
