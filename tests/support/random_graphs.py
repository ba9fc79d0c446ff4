"""Random training graphs: random programs, built with TensorFlow's own functions, always valid.

A program is a list of steps. Each takes one or two matrices of BATCH rows and WIDTH columns from a
pool, and adds one to it.

The computed functions are smooth, so that half precision causes noise of its own size: inputs lie
in [-1, 1], weights are divided by the root of the number of their inputs, and each matrix has a
known bound. At discontinuities (relu, comparisons, top_k), values are kept away from the edge, or
are exact in half precision.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

BATCH, WIDTH, CLASSES, ROWS = 4, 8, 3, 5
PICTURE = (-1, 2, 2, 2)  # a matrix as pictures, channels last
LARGEST = 4.0  # a matrix that may exceed it is squashed
UNFIT = (1e9, 1e-12)  # not representable in float16

_function = importlib.import_module(
    "tensorflow.python.framework.function"
)  # Defun is exported nowhere else


class Step(NamedTuple):
    """One step: its key in STEPS, its matrices, counted from the newest, and its own choice."""

    name: str
    first: int
    second: int
    choice: int


class Program(NamedTuple):
    """All parameters of a graph."""

    steps: Tuple[Step, ...]
    loss: str
    optimizer: str
    variables: str
    known_batch: bool
    colocated_gradients: bool


class Value(NamedTuple):
    """A matrix of the pool; `exact` says that its values are exact in half precision."""

    tensor: Any
    bound: float
    exact: bool = False


class TrainingGraph(NamedTuple):
    """A graph, and the names of its nodes for tests.

    Attributes:
        meta_graph: the exported graph.
        outputs: tensors to compare.
        loss: the loss.
        train: the training op.
        gradients: gradients of the loss, by variable.
        feeds: values for the placeholders.
    """

    meta_graph: tf.MetaGraphDef
    outputs: List[str]
    loss: str
    train: str
    gradients: Dict[str, str]
    feeds: Dict[str, Any]


@dataclass
class Builder:
    """A graph under construction, with one source of random numbers."""

    variables: str
    random: Any = field(default_factory=lambda: np.random.RandomState(0))
    pool: List[Value] = field(default_factory=list)
    weights: List[Tuple[Any, Any]] = field(default_factory=list)
    constants: Dict[float, Any] = field(default_factory=dict)

    def variable(self, value: Any, name: str = "v", trainable: bool = True) -> Any:
        """A variable of the program's kind, or of both kinds in turn if the program wants both."""
        resource = self.variables == "resource" or (
            self.variables == "both" and len(tf.global_variables()) % 2 == 1
        )
        return tf.Variable(
            np.asarray(value, np.float32), name=name, use_resource=resource, trainable=trainable
        )

    def weight(self, shape: Tuple[int, ...], choice: int) -> Tuple[Any, Any]:
        """A weight and its value; for some choices a weight shared with another step."""
        used = [(variable, value) for variable, value in self.weights if value.shape == shape]
        if used and choice % 3 == 2:
            return used[choice % len(used)]
        value = self.random.randn(*shape) / np.sqrt(np.prod(shape[:-1]))
        self.weights.append((self.variable(value, "weight"), value))
        return self.weights[-1]

    def constant(self, value: float) -> Any:
        """A scalar: one node, however many read it."""
        if value not in self.constants:
            with tf.control_dependencies(None):
                self.constants[value] = tf.constant(value, tf.float32, name="shared")
        return self.constants[value]

    def aside(self, x: Value) -> Any:
        """Columns that move values further from 0 than they can come back: half up, half down."""
        return tf.constant(
            np.where(self.random.rand(WIDTH) < 0.5, -1, 1) * (x.bound + 0.25), tf.float32
        )

    def dense(self, x: Value, choice: int) -> Value:
        """A matmul with a weight."""
        weight, value = self.weight((WIDTH, WIDTH), choice)
        return Value(tf.matmul(x.tensor, weight), x.bound * float(np.abs(value).sum(0).max()))


TAKEN_ONCE = frozenset(("custom_gradient", "in_function", "shared_function"))
"""Steps whose gradient is a Python function of the built graph.

`tf.gradients` can't differentiate them after an import.
"""

StepFunction = Callable[[Builder, Value, Value, int], Value]
STEPS: Dict[str, StepFunction] = {}


def step(function: StepFunction) -> StepFunction:
    """Add a function to STEPS, simplest first, as hypothesis shrinks towards the first."""
    STEPS[function.__name__] = function
    return function


# Matmuls and convolutions


@step
def dense(b: Builder, x: Value, y: Value, choice: int) -> Value:
    return b.dense(x, choice)


@step
def dense_bias(b: Builder, x: Value, y: Value, choice: int) -> Value:
    product = b.dense(x, choice)
    bias = b.variable(0.1 * b.random.randn(WIDTH), "bias")
    add = (tf.nn.bias_add, tf.add, tf.subtract)[choice % 3]
    return Value(add(product.tensor, bias), product.bound + 0.5)


@step
def dense_transposed(b: Builder, x: Value, y: Value, choice: int) -> Value:
    weight, value = b.weight((WIDTH, WIDTH), choice)
    product = tf.matmul(weight, x.tensor, transpose_a=choice % 2 == 0, transpose_b=True)
    return Value(
        tf.transpose(product),
        x.bound * float(max(np.abs(value).sum(0).max(), np.abs(value).sum(1).max())),
    )


@step
def batch_matmul(b: Builder, x: Value, y: Value, choice: int) -> Value:
    product = tf.matmul(
        tf.reshape(x.tensor, [-1, 2, 4]), tf.reshape(y.tensor, [-1, 2, 4]), transpose_a=True
    )
    return Value(tf.reshape(product, [-1, 2, WIDTH])[:, choice % 2, :], 2 * x.bound * y.bound)


@step
def einsum(b: Builder, x: Value, y: Value, choice: int) -> Value:
    weight, value = b.weight((2, 2), choice)
    result = tf.einsum("bij,jk->bik", tf.reshape(x.tensor, [-1, 4, 2]), weight)
    return Value(tf.reshape(result, [-1, WIDTH]), x.bound * float(np.abs(value).sum(0).max()))


@step
def conv(b: Builder, x: Value, y: Value, choice: int) -> Value:
    kernel, value = b.weight((2, 2, 2, 2), choice)
    result = tf.nn.conv2d(
        tf.reshape(x.tensor, PICTURE), kernel, strides=[1, 1, 1, 1], padding="SAME"
    )
    if choice % 2:
        result = tf.nn.bias_add(result, b.variable([0.1, -0.1], "bias"))
    return Value(
        tf.reshape(result, [-1, WIDTH]), x.bound * float(np.abs(value).sum((0, 1, 2)).max()) + 0.1
    )


@step
def depthwise_conv(b: Builder, x: Value, y: Value, choice: int) -> Value:
    kernel, value = b.weight((2, 2, 2, 1), choice)
    result = tf.nn.depthwise_conv2d(
        tf.reshape(x.tensor, PICTURE), kernel, strides=[1, 1, 1, 1], padding="SAME"
    )
    return Value(
        tf.reshape(result, [-1, WIDTH]), x.bound * float(np.abs(value).sum((0, 1, 3)).max())
    )


@step
def conv_transposed(b: Builder, x: Value, y: Value, choice: int) -> Value:
    kernel, value = b.weight((2, 2, 2, 2), choice)
    result = tf.nn.conv2d_transpose(
        tf.reshape(x.tensor, PICTURE),
        kernel,
        tf.stack([tf.shape(x.tensor)[0], 2, 2, 2]),
        strides=[1, 1, 1, 1],
    )
    return Value(
        tf.reshape(result, [-1, WIDTH]), x.bound * float(np.abs(value).sum((0, 1, 3)).max())
    )


@step
def conv_in_space(b: Builder, x: Value, y: Value, choice: int) -> Value:
    kernel, value = b.weight((2, 1, 2, 2, 2), choice)
    result = tf.nn.conv3d(
        tf.reshape(x.tensor, [-1, 2, 1, 2, 2]), kernel, strides=[1, 1, 1, 1, 1], padding="SAME"
    )
    return Value(
        tf.reshape(result, [-1, WIDTH]), x.bound * float(np.abs(value).sum((0, 1, 2, 3)).max())
    )


@step
def gated_cell(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """The cell of an LSTM by hand: one matmul, four gates."""
    weight, _ = b.weight((2 * WIDTH, 4 * WIDTH), choice)
    i, j, f, o = tf.split(
        tf.nn.bias_add(
            tf.matmul(tf.concat([x.tensor, y.tensor], 1), weight),
            b.variable(np.zeros(4 * WIDTH), "bias"),
        ),
        4,
        1,
    )
    state = y.tensor * tf.sigmoid(f + b.constant(1.0)) + tf.sigmoid(i) * tf.tanh(j)
    return Value(tf.tanh(state) * tf.sigmoid(o), 1) if choice % 2 else Value(state, y.bound + 1)


@step
def penalised(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A gradient that is part of the model, as in a gradient penalty."""
    inner = tf.gradients(tf.reduce_sum(tf.tanh(b.dense(x, choice).tensor)), x.tensor)[0]
    return Value(tf.tanh(tf.add(inner, y.tensor)), 1)


# Normalisation and pooling


def _moving_average(b: Builder, value: Any) -> None:
    average = b.variable(np.zeros(2), "moving", trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(average, 0.9 * average + 0.1 * value))


@step
def batch_norm(b: Builder, x: Value, y: Value, choice: int) -> Value:
    scale, offset = b.variable([1.0, 0.8], "scale"), b.variable([0.1, -0.1], "offset")
    result, mean, _ = tf.nn.fused_batch_norm(
        tf.reshape(x.tensor, PICTURE), scale, offset, epsilon=0.1
    )
    if choice % 2:
        _moving_average(b, mean)
    return Value(tf.reshape(result, [-1, WIDTH]), LARGEST)


@step
def batch_norm_inference(b: Builder, x: Value, y: Value, choice: int) -> Value:
    scale, offset = b.variable([1.0, 0.8], "scale"), b.variable([0.1, -0.1], "offset")
    mean, variance = (
        b.variable([0.1, 0.0], "mean", trainable=False),
        b.variable([1.0, 0.5], "variance", trainable=False),
    )
    result, _, _ = tf.nn.fused_batch_norm(
        tf.reshape(x.tensor, PICTURE), scale, offset, mean, variance, is_training=False
    )
    return Value(tf.reshape(result, [-1, WIDTH]), 2 * x.bound + 0.5)


@step
def moments(b: Builder, x: Value, y: Value, choice: int) -> Value:
    mean, variance = tf.nn.moments(tf.reshape(x.tensor, PICTURE), [0, 1, 2])
    if choice % 2:
        _moving_average(b, mean)
    variance = variance + b.constant(1e-12)
    result = tf.nn.batch_normalization(
        tf.reshape(x.tensor, PICTURE), mean, variance, b.variable([0.1, -0.1], "offset"), None, 0.2
    )
    return Value(tf.reshape(result, [-1, WIDTH]), LARGEST)


@step
def layer_norm(b: Builder, x: Value, y: Value, choice: int) -> Value:
    centred = x.tensor - tf.reduce_mean(x.tensor, 1, keepdims=True)
    return Value(
        centred / tf.sqrt(tf.reduce_mean(tf.square(centred), 1, keepdims=True) + 0.2), LARGEST
    )


@step
def normalised(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Rows divided by their norm, whose epsilon is not representable in half precision."""
    return Value(
        tf.nn.l2_normalize(tf.concat([x.tensor, tf.ones_like(x.tensor)], 1), 1)[:, :WIDTH], 1
    )


@step
def pool(b: Builder, x: Value, y: Value, choice: int) -> Value:
    pictures = tf.reshape(x.tensor, PICTURE)
    if x.exact and choice % 2:
        pooled = tf.nn.max_pool(pictures, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    else:
        pooled = tf.nn.avg_pool(pictures, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
    return Value(tf.reshape(pooled, [-1, WIDTH]), x.bound)


# Elementwise


def _pow(x: Any) -> Any:
    return tf.pow(tf.square(x) + 0.5, 1.5) / 8


def _unary(bound: float) -> Dict[str, Tuple[Callable[[Any], Any], float]]:
    """Functions of one matrix, with the bounds of their results."""
    return {
        "tanh": (tf.tanh, 1),
        "sigmoid": (tf.sigmoid, 1),
        "exp": (lambda x: tf.exp(x / 4), np.exp(bound / 4)),
        "softmax": (tf.nn.softmax, 1),
        "log_softmax": (lambda x: tf.nn.log_softmax(x) / 4, 2.5),
        "square": (tf.square, bound * bound),
        "softplus": (tf.nn.softplus, bound + 1),
        "elu": (tf.nn.elu, bound),
        "softsign": (tf.nn.softsign, 1),
        "negative": (tf.negative, bound),
        "sqrt": (lambda x: tf.sqrt(x * x + 0.5), bound + 1),
        "rsqrt": (lambda x: tf.rsqrt(x * x + 0.5), 1.5),
        "log": (lambda x: tf.log(tf.exp(x) + 1.0), bound + 1),
        "log1p": (lambda x: tf.log1p(x * x), bound),
        "pow": (_pow, (bound * bound + 1) ** 1.5 / 8),
        "reciprocal": (lambda x: tf.reciprocal(x * x + 0.5), 2),
        "erf": (tf.math.erf, 1),
        "clip": (lambda x: tf.clip_by_value(x, -bound - 1, bound + 1), bound),
        "cumsum": (lambda x: tf.cumsum(x, 1) / 4, 2 * bound),
        "identity": (tf.identity, bound),
        "stop_gradient": (tf.stop_gradient, bound),
    }


@step
def unary(b: Builder, x: Value, y: Value, choice: int) -> Value:
    functions = _unary(x.bound)
    function, bound = functions[list(functions)[choice % len(functions)]]
    return Value(function(x.tensor), float(bound))


@step
def rectified(b: Builder, x: Value, y: Value, choice: int) -> Value:
    rectify = (tf.nn.relu, tf.nn.leaky_relu, tf.nn.relu6, tf.abs)[choice % 4]
    if x.exact:
        return Value(rectify(x.tensor), x.bound, rectify is not tf.nn.leaky_relu)
    return Value(rectify(tf.add(x.tensor, b.aside(x))), 2 * x.bound + 0.25)


@step
def binary(b: Builder, x: Value, y: Value, choice: int) -> Value:
    operations: List[Tuple[Callable[[Any, Any], Any], float]] = [
        (tf.add, x.bound + y.bound),
        (tf.multiply, x.bound * y.bound),
        (tf.subtract, x.bound + y.bound),
        (lambda p, q: tf.add_n([p, q, p]), 2 * x.bound + y.bound),
        (lambda p, q: p / (q * q + 0.5), 2 * x.bound),
        (lambda p, q: tf.squared_difference(p, q) / 4, (x.bound + y.bound) ** 2 / 4),
        (lambda p, q: tf.maximum(p, q - x.bound - y.bound - 1), x.bound),
    ]
    operation, bound = operations[choice % len(operations)]
    return Value(operation(x.tensor, y.tensor), bound)


@step
def shared_constant(b: Builder, x: Value, y: Value, choice: int) -> Value:
    if choice % 2:
        return Value(x.tensor * b.constant((0.5, 2.0, 0.3)[choice % 3]), 2 * x.bound)
    return Value(x.tensor + b.constant((0.5, 2.0, 0.3)[choice % 3]), x.bound + 2)


@step
def unfit_constant(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Constants not representable in half precision, whose loss shows in the result.

    They are between matmuls, where everything else is half precision.
    """
    x = Value(tf.tanh(b.dense(x, choice).tensor), 1)
    mask = tf.constant([0, 0, 0, 0, 0, 1, 1, 0], tf.float32)
    result = [
        lambda: Value(tf.nn.softmax(x.tensor - mask * b.constant(1e9)), 1),
        lambda: Value(x.tensor * b.constant(1e9) * b.constant(1e-9), x.bound),
        lambda: Value(
            tf.where(
                tf.tile([[True, False] * 4], [tf.shape(x.tensor)[0], 1]),
                x.tensor,
                tf.zeros_like(x.tensor) - 1e9,
            )
            / 1e9,
            1,
        ),
        lambda: Value(
            tf.stop_gradient(tf.square(x.tensor) / (tf.square(x.tensor) + b.constant(1e-12)))
            + x.tensor * 0.1,
            x.bound + 1,
        ),
        lambda: Value(tf.log(tf.nn.softmax(x.tensor) + b.constant(1e-12)) / 8, 2),
        lambda: Value(x.tensor + tf.constant([1e-9] * WIDTH) * 1e8, x.bound + 0.1),
    ][choice % 6]()
    return b.dense(result, choice)


@step
def reduced(b: Builder, x: Value, y: Value, choice: int) -> Value:
    reductions: List[Tuple[Callable[..., Any], float]] = [
        (tf.reduce_mean, 1),
        (tf.reduce_sum, 8),
        (tf.reduce_logsumexp, 2),
    ]
    reduce, factor = reductions[choice % 3]
    return Value(
        y.tensor - reduce(x.tensor, choice % 2, keepdims=True) / 4,
        y.bound + x.bound * factor / 4 + 1,
    )


@step
def dropped(b: Builder, x: Value, y: Value, choice: int) -> Value:
    return Value(tf.nn.dropout(x.tensor, rate=0.25, seed=choice), 1.4 * x.bound)


# # Rearranging values


@step
def split(b: Builder, x: Value, y: Value, choice: int) -> Value:
    parts = tf.split(x.tensor, 2 if choice % 2 else [2, 6], axis=1)
    return Value(
        tf.concat([parts[1], tf.tanh(parts[0])] if choice % 3 else parts[::-1], 1),
        max(1.0, x.bound),
        x.exact and choice % 3 == 0,
    )


@step
def unstack(b: Builder, x: Value, y: Value, choice: int) -> Value:
    columns = tf.unstack(x.tensor, WIDTH, axis=1)
    columns[choice % WIDTH] = tf.unstack(y.tensor, WIDTH, axis=1)[0]
    return Value(tf.stack(columns, 1), max(x.bound, y.bound), x.exact and y.exact)


@step
def stacked(b: Builder, x: Value, y: Value, choice: int) -> Value:
    return Value(
        tf.stack([x.tensor, y.tensor, x.tensor])[choice % 3],
        max(x.bound, y.bound),
        x.exact and y.exact,
    )


@step
def moved(b: Builder, x: Value, y: Value, choice: int) -> Value:
    moves = [
        lambda t: tf.reshape(tf.transpose(tf.reshape(t, [-1, 2, 4]), [0, 2, 1]), [-1, WIDTH]),
        lambda t: tf.reverse(t, [1]),
        lambda t: tf.squeeze(tf.expand_dims(t, 1), 1),
        lambda t: tf.tile(t, [1, 2])[:, 3:11],
        lambda t: tf.pad(t, [[0, 0], [1, 2]])[:, :WIDTH],
        lambda t: tf.gather(t, [3, 1, 0, 0, 7, 6, 5, 2], axis=1),
        lambda t: tf.concat(tf.split(t, 4, axis=1)[::-1], 1),
        lambda t: tf.batch_to_space_nd(
            tf.space_to_batch_nd(tf.reshape(t, PICTURE), [2, 2], [[0, 0], [0, 0]]),
            [2, 2],
            [[0, 0], [0, 0]],
        ),
    ]
    return Value(tf.reshape(moves[choice % len(moves)](x.tensor), [-1, WIDTH]), x.bound, x.exact)


@step
def partitioned(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Rows split by ids and merged again, or summed."""
    ids = tf.get_default_graph().get_tensor_by_name("labels:0")
    if choice % 2:
        return Value(
            tf.gather(tf.math.unsorted_segment_sum(x.tensor, ids, CLASSES), ids) / BATCH, x.bound
        )
    parts = tf.dynamic_partition(x.tensor, ids, CLASSES)
    parts[1] = tf.tanh(parts[1])
    return Value(
        tf.reshape(
            tf.dynamic_stitch(
                tf.dynamic_partition(tf.range(tf.shape(ids)[0]), ids, CLASSES), parts
            ),
            [-1, WIDTH],
        ),
        max(1.0, x.bound),
    )


@step
def top_k(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Sorted by a ramp that exceeds the noise; the indices gather from the other matrix."""
    ramp = tf.constant(b.random.permutation(WIDTH) * 1.0, tf.float32)
    values, indices = tf.nn.top_k(tf.tanh(x.tensor) / 4 + ramp, WIDTH)
    if choice % 2:
        return Value(values / WIDTH, 1.25)
    return Value(
        tf.reduce_sum(tf.one_hot(indices, WIDTH) * tf.expand_dims(y.tensor, 1), 2), y.bound
    )


# Other dtypes


@step
def by_float64(b: Builder, x: Value, y: Value, choice: int) -> Value:
    wide = tf.cast(x.tensor, tf.float64)
    return Value(
        tf.cast(wide * wide if choice % 2 else tf.sin(wide), tf.float32), max(1.0, x.bound**2)
    )


@step
def masked(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A bool mask, of exact values or always true."""
    mask = tf.greater(x.tensor, 0.25 if x.exact else -x.bound - 1)
    if choice % 2:
        return Value(tf.where(mask, y.tensor, tf.zeros_like(y.tensor)), y.bound)
    return Value(y.tensor * tf.cast(mask, tf.float32), y.bound)


@step
def embedded(b: Builder, x: Value, y: Value, choice: int) -> Value:
    table, value = b.weight((ROWS, WIDTH), choice)
    ids = tf.get_default_graph().get_tensor_by_name("ids:0")
    rows = (tf.nn.embedding_lookup, tf.gather, lambda t, i: tf.matmul(tf.one_hot(i, ROWS), t))[
        choice % 3
    ](table, ids)
    return Value(rows + x.tensor, x.bound + float(np.abs(value).max()))


@step
def counted(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A mean by hand: the sum over a count from the shape, or from the ids."""
    count = (
        tf.shape(x.tensor)[0]
        if choice % 2
        else tf.reduce_sum(tf.get_default_graph().get_tensor_by_name("ids:0")) + 3
    )
    return Value(
        y.tensor - tf.reduce_sum(x.tensor, 0) / tf.cast(count, tf.float32), y.bound + 2 * x.bound
    )


# Control flow


@step
def loop(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A recurrent cell whose weight and input are loop invariants."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)
    read = tf.identity(weight) if choice % 2 else weight

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(tf.matmul(h, read) + y.tensor)

    return Value(
        tf.while_loop(lambda i, h: i < 3, body, [0, x.tensor], swap_memory=choice % 4 == 0)[1], 1
    )


@step
def array_loop(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A recurrent cell that reads inputs from one TensorArray and writes states to another."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)
    inputs = tf.TensorArray(tf.float32, 3).unstack(tf.stack([x.tensor, y.tensor, x.tensor * 0.5]))
    denied = choice % 2

    def body(i: Any, h: Any, outputs: Any) -> Any:
        h = tf.tanh(tf.matmul(h, weight) + inputs.read(i))
        h = tf.exp(h / 4) - 1.0 if denied else h
        return i + 1, h, outputs.write(i, h)

    _, last, outputs = tf.while_loop(
        lambda i, *rest: i < 3, body, [0, x.tensor, tf.TensorArray(tf.float32, 3)]
    )
    states = outputs.stack()
    return Value(
        (states[1], last, tf.reduce_mean(states, 0), tf.transpose(states, [1, 0, 2])[:, 2, :])[
            choice % 4
        ],
        max(1.0, x.bound),
    )


@step
def counting_loop(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A float counter, a loop variable that never changes, and a running sum."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)

    def body(count: Any, h: Any, same: Any, total: Any) -> Any:
        h = tf.tanh(tf.matmul(h, weight)) + same / (count + 1.0)
        return count + 1.0, h, same, total + tf.square(h) / 8

    h, total = tf.while_loop(
        lambda count, *rest: count < 2.5, body, [0.0, x.tensor, y.tensor, tf.zeros_like(x.tensor)]
    )[1::2]
    return Value(h, 1 + y.bound) if choice % 2 else Value(total, (1 + y.bound) ** 2 / 2)


@step
def nested_loop(b: Builder, x: Value, y: Value, choice: int) -> Value:
    weight, _ = b.weight((WIDTH, WIDTH), choice)
    outside = tf.identity(weight)  # 1.15.5 can't merge the resource in a conditional's gradient

    def inner(j: Any, h: Any) -> Any:
        return j + 1, tf.tanh(tf.matmul(h, weight) - y.tensor)

    def outer(i: Any, h: Any) -> Any:
        h = tf.while_loop(lambda j, h: j < 2, inner, [0, h])[1]
        return i + 1, tf.cond(
            tf.equal(i, 0), lambda: tf.sigmoid(tf.matmul(h, outside)), lambda: h
        ) if choice % 2 else h

    return Value(tf.while_loop(lambda i, h: i < 2, outer, [0, x.tensor])[1], 1)


@step
def growing_loop(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A loop variable whose shape changes from iteration to iteration."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.concat([h, tf.tanh(tf.matmul(h, weight))], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, WIDTH])]
    grown = tf.while_loop(lambda i, h: i < 2, body, [0, x.tensor], shape_invariants=shapes)[1]
    return Value(y.tensor + tf.reduce_mean(grown, 0), y.bound + max(1.0, x.bound))


@step
def mapped(b: Builder, x: Value, y: Value, choice: int) -> Value:
    weight, _ = b.weight((WIDTH, WIDTH), choice)
    sequence = tf.stack([x.tensor, y.tensor])
    if choice % 2:
        return Value(tf.map_fn(lambda t: tf.tanh(tf.matmul(t, weight)), sequence)[0], 1)
    return Value(
        tf.scan(lambda h, t: tf.tanh(tf.matmul(h, weight) + t), sequence, tf.zeros_like(x.tensor))[
            1
        ],
        1,
    )


@step
def cond(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A conditional by the fed flag, or by exact values; its branches differ in precision."""
    flag = tf.get_default_graph().get_tensor_by_name("flag:0")
    predicate = (
        flag,
        tf.logical_not(flag),
        tf.reduce_sum(x.tensor if x.exact else b.pool[0].tensor) > 0.01,
    )[choice % 3]
    weight, value = b.weight((WIDTH, WIDTH), choice)
    others = [
        lambda: y.tensor,
        lambda: tf.exp(y.tensor / 4),
        lambda: tf.matmul(y.tensor, weight),
        lambda: tf.zeros_like(x.tensor),
    ]
    result = tf.cond(predicate, lambda: tf.matmul(x.tensor, weight), others[choice % 4])
    largest = float(np.abs(value).sum(0).max())
    return Value(
        result, max(x.bound * largest, y.bound * max(largest, 1.0), float(np.exp(y.bound / 4)))
    )


@step
def nested_cond(b: Builder, x: Value, y: Value, choice: int) -> Value:
    flag = tf.get_default_graph().get_tensor_by_name("flag:0")
    weight, _ = b.weight((WIDTH, WIDTH), choice)

    def loop_inside() -> Any:
        return tf.while_loop(
            lambda i, h: i < 2, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, weight))), [0, x.tensor]
        )[1]

    def cond_inside() -> Any:
        return tf.cond(
            tf.logical_not(flag),
            lambda: tf.tanh(tf.matmul(x.tensor, weight)),
            lambda: tf.tanh(y.tensor),
        )

    sides = [loop_inside, cond_inside] if choice % 2 else [cond_inside, loop_inside]
    return Value(tf.cond(flag, *sides), 1)


@step
def case(b: Builder, x: Value, y: Value, choice: int) -> Value:
    first = tf.equal(tf.get_default_graph().get_tensor_by_name("ids:0")[0], choice % ROWS)
    product = b.dense(x, choice)
    results = [lambda: tf.tanh(product.tensor), lambda: tf.nn.softmax(x.tensor) + y.tensor]
    flag = tf.get_default_graph().get_tensor_by_name("flag:0")
    return Value(
        tf.case([(first, results[0]), (flag, results[choice % 2])], default=lambda: y.tensor),
        1 + y.bound,
    )


@step
def in_function(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A function of TensorFlow 2, called with the weight, or with a while loop inside."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)

    def body(h: Any, w: Any) -> Any:
        h = tf.tanh(tf.matmul(h, w))
        if choice % 2:
            h = tf.while_loop(
                lambda i, h: i < 2, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) * 0.5 + h)), [0, h]
            )[1]
        return h

    return Value(tf.function(body)(x.tensor, tf.identity(weight)) * 0.5 + y.tensor, y.bound + 0.5)


@step
def shared_function(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A function of TensorFlow 2 that is called twice and calls another.

    It has a conditional and a variable of its own.
    """
    weight, _ = b.weight((WIDTH, WIDTH), choice)
    scale = tf.Variable(0.5, use_resource=True, name="scale")

    @tf.function
    def inner(h: Any) -> Any:
        return tf.exp(tf.tanh(h) / 4)

    @tf.function
    def outer(h: Any, w: Any) -> Any:
        product = inner(tf.matmul(h, w)) * (scale if choice % 2 else 0.5)
        return (
            tf.cond(
                tf.reduce_sum(tf.abs(h)) > -1.0,
                lambda: tf.tanh(tf.matmul(product, w)),
                lambda: product,
            )
            if choice % 3
            else product
        )

    read = tf.identity(weight)
    return Value((outer(x.tensor, read) + outer(y.tensor, read)) * 0.5, 1)


@step
def in_defun(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """A function of TensorFlow 1, with a symbolic gradient."""
    weight, _ = b.weight((WIDTH, WIDTH), choice)

    @_function.Defun(
        tf.float32,
        tf.float32,
        shape_func=lambda op: [op.inputs[0].get_shape()],
        func_name="layer_%d" % len(b.pool),
    )
    def layer(h: Any, w: Any) -> Any:
        return (
            tf.tanh(tf.matmul(h, w)) + tf.exp(h / 4)
            if choice % 2
            else tf.tanh(tf.matmul(tf.nn.softmax(h), w))
        )

    return Value(layer(x.tensor, tf.identity(weight)), float(np.exp(x.bound / 4)) + 1)


@step
def custom_gradient(b: Builder, x: Value, y: Value, choice: int) -> Value:
    @tf.custom_gradient
    def halved(t: Any) -> Any:
        return tf.tanh(t), lambda dy: dy * 0.5 * (1.0 - tf.square(tf.tanh(t)))

    return Value(halved(x.tensor), 1)


# Placement, order and names


@step
def ordered(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Control edges from a tensor, from a write of a variable, and from a grouping node."""
    counter = b.variable(0.0, "counter", trainable=False)
    before = [
        tf.matmul(y.tensor, y.tensor, transpose_b=True),
        tf.assign_add(counter, 1.0),
        tf.group(y.tensor, tf.assign(counter, 2.0)),
    ]
    with tf.control_dependencies([before[choice % 3]]):
        return Value(
            tf.identity(x.tensor) if choice % 2 else x.tensor * b.constant(0.5), x.bound, x.exact
        )


@step
def assigned(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """The output of an assignment as data, in a conditional too."""
    state = b.variable(np.ones(WIDTH), "state", trainable=False)
    flag = tf.get_default_graph().get_tensor_by_name("flag:0")
    mean = tf.reduce_mean(tf.stop_gradient(b.dense(y, choice).tensor), 0)
    if choice % 2:
        new = tf.cond(flag, lambda: tf.identity(tf.assign(state, mean)), lambda: tf.zeros([WIDTH]))
    else:
        new = tf.identity(tf.assign_sub(state, mean / 8))
    return Value(tf.tanh(x.tensor + new), 1)


@step
def placed(b: Builder, x: Value, y: Value, choice: int) -> Value:
    product = b.dense(x, choice)
    with tf.colocate_with(product.tensor if choice % 2 else x.tensor), tf.device(
        "/device:CPU:0" if choice % 3 else None
    ):
        return Value(tf.add(tf.tanh(product.tensor), y.tensor), 1 + y.bound)


@step
def named(b: Builder, x: Value, y: Value, choice: int) -> Value:
    """Names similar to those of added nodes: a longer one, and a scope."""
    name = "%s%s_%d/" % (
        x.tensor.op.name,
        ("_graphmp_float16x", "_graphmp_float16/x")[choice % 2],
        len(b.pool),
    )
    return Value(tf.tanh(b.dense(x, choice).tensor, name=name), 1)


@step
def collected(b: Builder, x: Value, y: Value, choice: int) -> Value:
    tf.add_to_collection("end_points", x.tensor)
    tf.summary.histogram("x", x.tensor) if choice % 2 else tf.summary.scalar(
        "mean", tf.reduce_mean(x.tensor)
    )
    return Value(tf.tanh(x.tensor), 1)


# Losses and optimizers


def _squared(b: Builder, prediction: Any, labels: Any) -> Any:
    return tf.reduce_mean(tf.squared_difference(prediction, tf.one_hot(labels, CLASSES)))


def _cross_entropy(b: Builder, prediction: Any, labels: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=prediction)
    )


def _by_hand(b: Builder, prediction: Any, labels: Any) -> Any:
    return -tf.reduce_mean(
        tf.reduce_sum(
            tf.one_hot(labels, CLASSES) * tf.log(tf.nn.softmax(prediction) + b.constant(1e-12)), 1
        )
    )


def _decayed(b: Builder, prediction: Any, labels: Any) -> Any:
    return _cross_entropy(b, prediction, labels) + 0.01 * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables()]
    )


def _sigmoid(b: Builder, prediction: Any, labels: Any) -> Any:
    return tf.losses.log_loss(tf.one_hot(labels, CLASSES), tf.sigmoid(prediction), epsilon=1e-3)


LOSSES = {
    function.__name__[1:]: function
    for function in (_squared, _cross_entropy, _by_hand, _decayed, _sigmoid)
}
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(
        0.1, epsilon=0.1
    ),  # large, so that the noise of a gradient isn't the sign of its update
    "clipped": lambda: tf.train.GradientDescentOptimizer(0.1),
}


def programs(most_steps: int = 8) -> st.SearchStrategy:
    """Programs of at most `most_steps` steps."""
    one = st.builds(
        Step,
        st.sampled_from(sorted(STEPS, key=list(STEPS).index)),
        st.integers(0, 3),
        st.integers(0, 5),
        st.integers(0, 41),
    )
    return st.builds(
        Program,
        st.lists(one, min_size=2, max_size=most_steps).map(tuple),
        st.sampled_from(sorted(LOSSES)),
        st.sampled_from(sorted(OPTIMIZERS)),
        st.sampled_from(["reference", "resource", "both"]),
        st.booleans(),
        st.booleans(),
    )


def tour(stride: int = 13) -> List[Program]:
    """`stride` programs that together contain every step, with varied other parameters."""
    names, losses, optimizers = list(STEPS), sorted(LOSSES), sorted(OPTIMIZERS)
    kinds = ["both", "reference", "resource"]
    return [
        Program(
            tuple(
                Step(name, place % 2, 1, first + place)
                for place, name in enumerate(names[first::stride])
            ),
            losses[first % len(losses)],
            optimizers[first % len(optimizers)],
            kinds[first % len(kinds)],
            first % 2 == 0,
            first % 5 == 0,
        )
        for first in range(stride)
    ]


def build(program: Program) -> TrainingGraph:
    """Build a program's training graph in a new graph."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        b = Builder(program.variables)
        feeds = _inputs(b, BATCH if program.known_batch else None)
        for number, each in enumerate(program.steps):
            with tf.name_scope("step%d_%s" % (number, each.name)):
                b.pool.append(_take(b, each))
        loss = LOSSES[program.loss](
            b, _head(b), tf.get_default_graph().get_tensor_by_name("labels:0")
        )
        loss = tf.multiply(loss, 8.0, name="loss")
        train, gradients = _training(loss, program)
        tf.add_to_collection("outputs", b.pool[-1].tensor)
        return TrainingGraph(
            tf.train.export_meta_graph(),
            [value.tensor.name for value in b.pool],
            loss.name,
            train.name,
            gradients,
            feeds,
        )


def _inputs(b: Builder, batch: Any) -> Dict[str, Any]:
    """Placeholders, two of them in the pool, and their feeds."""
    grid = tf.placeholder(tf.float32, [batch, WIDTH], "grid")
    inputs = tf.placeholder(tf.float32, [batch, WIDTH], "inputs")
    for name, dtype, shape in (
        ("ids", tf.int32, [batch]),
        ("labels", tf.int32, [batch]),
        ("flag", tf.bool, []),
    ):
        tf.placeholder(dtype, shape, name)
    b.pool += [Value(grid, 1, True), Value(inputs, 1)]
    return {
        "grid:0": b.random.randint(-32, 33, (BATCH, WIDTH)) / 32.0,
        "inputs:0": b.random.uniform(-1, 1, (BATCH, WIDTH)),
        "ids:0": b.random.randint(0, ROWS, BATCH),
        "labels:0": b.random.randint(0, CLASSES, BATCH),
        "flag:0": True,
    }


def _take(b: Builder, each: Step) -> Value:
    x, y = (b.pool[-1 - place % len(b.pool)] for place in (each.first, each.second))
    result = STEPS[each.name](b, x, y, each.choice)
    return result if result.bound <= LARGEST else Value(tf.tanh(result.tensor), 1)


def _head(b: Builder) -> Any:
    """Three columns computed from the last two matrices."""
    last = tf.concat([b.pool[-1].tensor, tf.stop_gradient(b.pool[-2].tensor)], 1)
    return tf.nn.bias_add(
        tf.matmul(last, b.weight((2 * WIDTH, CLASSES), 0)[0]), b.variable(np.zeros(CLASSES), "bias")
    )


def _training(loss: Any, program: Program) -> Tuple[Any, Dict[str, str]]:
    """The training op, and gradients by variable."""
    optimizer = OPTIMIZERS[program.optimizer]()
    found = optimizer.compute_gradients(
        loss, colocate_gradients_with_ops=program.colocated_gradients
    )
    found = [(gradient, variable) for gradient, variable in found if gradient is not None]
    if program.optimizer == "clipped":
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in found], 1.0)
        found = list(zip(clipped, [variable for _, variable in found]))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = optimizer.apply_gradients(found, name="train")
    return train, {
        variable.op.name: tf.convert_to_tensor(gradient).name for gradient, variable in found
    }
