"""Measurements inside a graph against NumPy's, in while loops and branches too; what is added up of them; loss-scale advice."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.graph.branches import conditional
from graphmp.graph.dtypes import FLOAT32
from graphmp.graph.view import GraphView
from graphmp.numerics.advice import advise
from graphmp.numerics.instrument import MAXIMA, PREFIX, SUMS, Instrument, Measured
from graphmp.numerics.measure import COLUMNS, stats
from graphmp.numerics.reduction import BUCKETS, MOST_COUNTED
from graphmp.numerics.rows import ACTIVATION, WEIGHT_GRADIENT, Row
from graphmp.numerics.tally import Tally
from graphmp.policy.formats import BFLOAT16, FLOAT16, FORMATS
from tests.support.audits import exponent_fields

often = settings(max_examples=80, deadline=None, derandomize=True)
FORMAT = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)


class Measuring:
    """A session of a graph with measurements of some of its tensors."""

    def __init__(self, graph, tensors, format_=FLOAT16, scale=None, elements=lambda tensor: 1, compared=False):
        graph_def, self.rows = graph.as_graph_def(), len(tensors)
        name = scale.name if scale is not None else ""
        measured = [Measured(tensor.name, FLOAT32, name, elements(tensor), compared) for tensor in tensors]
        self.instrument = Instrument(graph_def, format_, measured)
        self._format = format_
        with tf.Graph().as_default() as self.graph:
            tf.import_graph_def(graph_def, name="")
            handles = [self.graph.get_tensor_by_name(name + ":0") for name in (SUMS, MAXIMA)]
            zeros = tf.zeros([self.rows, COLUMNS], tf.float64), tf.zeros([self.rows])
            self._clear = [tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in zip(handles, zeros)]
            self._read = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype) for handle, value in zip(handles, zeros)]
            self._initialisers = [
                op for op in self.graph.get_operations() if op.type in ("Assign", "AssignVariableOp") and op.name in _initialised(graph)
            ]
        self._session = tf.Session(graph=self.graph)
        self._session.run(self._initialisers)

    def tables(self, feeds=None, fetches=()):
        """Sums and maxima after one run."""
        self._session.run(self._clear)
        target = self.graph.get_operation_by_name(self.instrument.target)
        self._session.run([*fetches, target], {name + ":0": value for name, value in (feeds or {}).items()})
        return self._session.run(self._read)

    def stats(self, feeds=None, fetches=()):
        """Stats of all tensors after one run."""
        return [stats(row, largest, self._format) for row, largest in zip(*self.tables(feeds, fetches))]


def _initialised(graph):
    return {variable.initializer.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}


@functools.lru_cache(None)
def measuring(format_):
    """Of a tensor of any shape, times a scale; its value in bfloat16 and back beside it."""
    with tf.Graph().as_default() as graph:
        x, scale = tf.placeholder(tf.float32, None, "x"), tf.placeholder_with_default(1.0, [], "scale")
        tf.cast(tf.cast(x, tf.bfloat16), tf.float32, name="bfloat16")
        return Measuring(graph, [x], format_, scale)


def measured(values, format_=FLOAT16, scale=1.0):
    return measuring(format_).stats({"x": values, "scale": scale})[0]


def bfloat16(values):
    """TensorFlow rounds to bfloat16."""
    one = measuring(BFLOAT16)
    with tf.Session(graph=one.graph) as session:
        return session.run("bfloat16:0", {"x:0": values})


def rounded(values, format_):
    return values.astype(np.float16) if format_ is FLOAT16 else bfloat16(values)


def without_subnormals(values):
    """Kernels take float32's own subnormal numbers for zeros."""
    return np.where(np.abs(values) < np.float32(2.0**-126), np.float32(0), values)


@np.errstate(over="ignore", invalid="ignore")
def check(values, format_):
    """All counts of a tensor that is counted whole."""
    found, values = measured(values, format_), without_subnormals(values)
    half, finite = rounded(values, format_).ravel(), np.isfinite(values).ravel()
    flat = values.ravel()
    assert found.elements == found.counted == flat.size
    assert found.not_finite == (~finite).sum()
    assert found.overflow == (np.isinf(half) & finite).sum()
    assert found.flushed == ((half == 0) & (flat != 0)).sum()
    assert found.subnormal == ((half != 0) & (np.abs(flat) < 2.0**format_.normal)).sum()
    np.testing.assert_array_equal(found.exponents, exponent_fields(flat))
    assert found.largest == (np.abs(flat).max() if flat.size and finite.all() else np.inf if flat.size else 0)
    if flat.size <= BUCKETS:
        np.testing.assert_array_equal(np.sort(np.abs(found.sketch[: flat.size])), np.sort(np.abs(np.where(finite, flat, 0))))


def near(value):
    """A float32 and those beside it, of both signs."""
    value = np.float32(value)
    both = [np.nextafter(value, np.float32(0)), value, np.nextafter(value, np.float32(np.inf))]
    return [sign * v for v in both for sign in (1, -1)]


EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 65519.99, 1e-40, 2.0**-149, *near(65504), *near(65520), *near(65536)]
    + [v for power in (-126, -133, -134, -24, -25, -26, -14, -15, 0, 127) for v in near(2.0**power)]
    + [*near(BFLOAT16.largest), *np.array([0x7F7F7FFF, 0x7F7F8000, 0x7F7F8001, 0x7F7FFFFF], np.uint32).view(np.float32)],
    np.float32,
)


@st.composite
def tensors(draw):
    """Any bits at all, or those of one range of exponents, with edge values among them."""
    size = draw(st.one_of(st.integers(0, 70), st.integers(0, MOST_COUNTED)))
    random = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    low = draw(st.sampled_from([0, 90, 100, 130, 250]))
    high = draw(st.sampled_from([105, 120, 145, 256]))
    fields = random.randint(low, max(high, low + 1), size).astype(np.uint32)
    bits = (random.randint(0, 2, size).astype(np.uint32) << 31) | (fields << 23) | random.randint(0, 2**23, size).astype(np.uint32)
    values = bits.view(np.float32)
    if size:
        values[random.randint(0, size, draw(st.integers(0, 20)))] = EDGES[random.randint(0, len(EDGES))]
    return values


@FORMAT
@given(values=tensors())
@often
def test_counts_are_those_of_numpy(format_, values):
    check(values, format_)


@FORMAT
@given(value=st.integers(0, 2**32 - 1))
@often
def test_counts_of_a_scalar(format_, value):
    check(np.uint32(value).view(np.float32), format_)


@FORMAT
@pytest.mark.parametrize("value", EDGES, ids=lambda v: np.float32(v).tobytes()[::-1].hex())
def test_each_edge(format_, value):
    check(np.array([value], np.float32), format_)


@FORMAT
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (), (1,), (2, 3, 4), (BUCKETS,), (BUCKETS + 1,), (MOST_COUNTED,)], ids=str)
def test_shapes(format_, shape):
    check(np.full(shape, 1e-6, np.float32), format_)


def test_all_edges_at_once():
    check(EDGES, FLOAT16)
    check(EDGES, BFLOAT16)


def test_a_scale_is_multiplied_in():
    found = measured(np.float32([1e-9, 1.0, 1000.0]), scale=2.0**10)
    assert (found.flushed, found.subnormal, found.overflow, found.largest) == (0, 1, 1, 1024000)


@pytest.mark.parametrize("size", [MOST_COUNTED + 1, 100000, 2 * MOST_COUNTED, 300001])
def test_of_large_tensors_every_kth_is_counted(size):
    random = np.random.RandomState(0)
    values = random.normal(size=size).astype(np.float32) * np.float32(2e4)
    values[random.randint(0, size)] = -(2**27) - 16
    found = measured(values)
    assert (found.elements, found.largest) == (size, 2**27 + 16)
    assert MOST_COUNTED / 2 <= found.counted <= MOST_COUNTED and found.counted == found.exponents.sum()
    share = (np.abs(values) >= 65520).mean()
    assert found.overflow / found.counted == pytest.approx(share, rel=0.2)
    np.testing.assert_allclose(found.exponents / found.counted, exponent_fields(values) / size, atol=5 / np.sqrt(found.counted))


def test_one_value_that_is_not_finite_shows_in_the_largest():
    values = np.zeros(200000, np.float32)
    values[1] = np.nan  # between those that are counted
    found = measured(values)
    assert (found.not_finite, found.largest) == (0, np.inf)


# -- several tensors a call ----------------------------------------------------------------------------------------------

SHAPES = [(), (3,), (0,), (BUCKETS, 3), (7, 11, 13), (200,), (MOST_COUNTED,), (MOST_COUNTED + 300,)]


def one_of_each(count, seed):
    """Arrays of the shapes in turn, of any magnitude, every third with edge values among them."""
    random = np.random.RandomState(seed)
    arrays = [random.normal(size=SHAPES[n % len(SHAPES)]) * np.exp2(random.uniform(-30, 20)) for n in range(count)]
    arrays = [np.asarray(array, np.float32) for array in arrays]
    for array in arrays[::3]:
        array.flat[: len(EDGES) : 2] = EDGES[: len(array.ravel()[: len(EDGES)]) : 2]
    return arrays


@functools.lru_cache(None)
def many(count, compared):
    """Placeholders x0, x1 and so on, together as far as the instrument takes them; scaled where they aren't compared."""
    with tf.Graph().as_default() as graph:
        xs = [tf.placeholder(tf.float32, None, "x%d" % number) for number in range(count)]
        return Measuring(graph, xs, scale=None if compared else tf.constant(4.0), compared=compared)


@pytest.mark.parametrize("count", [1, 4, 5, 16, 37])
def test_counts_of_several_tensors_are_those_of_each(count):
    arrays = one_of_each(count, count)
    found = many(count, False).stats({"x%d" % number: array for number, array in enumerate(arrays)})
    for one, array in zip(found, arrays):
        alone = measured(array, scale=4.0)
        for name, value in alone._asdict().items():
            np.testing.assert_allclose(getattr(one, name), value, rtol=1e-4 if name == "sketch" else 0, atol=0, err_msg=name)


@pytest.mark.parametrize("count", [1, 4, 5, 16, 37])
def test_what_a_comparison_needs_is_the_same(count):
    arrays = one_of_each(count, count)
    arrays[-1].flat[0] = np.nan
    found = many(count, True).stats({"x%d" % number: array for number, array in enumerate(arrays)})
    assert found[-1].not_finite
    for one, array in zip(found, arrays):
        alone = measured(array)
        assert (one.elements, one.not_finite, np.isinf(one.largest)) == (alone.elements, alone.not_finite, np.isinf(alone.largest))
        np.testing.assert_allclose(one.sketch, alone.sketch, rtol=1e-4)


def test_a_comparison_sees_one_value_that_is_not_counted():
    hidden, whole = np.zeros(200000, np.float32), np.zeros(200000, np.float32)
    hidden[1], whole[1] = -np.inf, 3e38
    found = many(4, True).stats({"x0": hidden, "x1": whole, "x2": np.float32([3e38] * 500), "x3": np.float32(np.nan)})
    assert [one.largest == np.inf for one in found] == [True, False, False, True]
    assert [one.not_finite for one in found] == [0, 0, 0, 1]


def test_calls_are_few(graph):
    xs = [tf.placeholder(tf.float32, [size], "x%d" % size) for size in [*range(1, 38), 2**20, 2**20 + 1]]
    found = Measuring(graph, xs, elements=lambda x: int(x.shape[0]))
    calls = found.graph.get_operation_by_name(found.instrument.target).control_inputs
    assert sorted(len([each for each in call.inputs if each.op.name.startswith("x")]) for call in calls) == [1, 1, 1, 4, 16, 16]


# -- sketches ------------------------------------------------------------------------------------------------------------


def error_by_sketch(x, y):
    a, b = measured(x).sketch, measured(y).sketch
    return np.linalg.norm(a - b) / np.linalg.norm(a)


def error(x, y):
    return np.linalg.norm(x.astype(np.float64) - y) / np.linalg.norm(x.astype(np.float64))


@given(st.integers(1, BUCKETS), st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-3, 0.1, 2.0]))
@often
def test_relative_errors_of_small_tensors_are_exact(size, seed, noise):
    random = np.random.RandomState(seed)
    x = (random.normal(size=size) + random.normal()).astype(np.float32)
    y = (x + noise * random.normal(size=size)).astype(np.float32)
    assert error_by_sketch(x, y) == pytest.approx(error(x, y), rel=1e-9, abs=1e-12)


KINDS = {
    "normal": lambda random, size: random.normal(size=size),
    "same": lambda random, size: np.ones(size),
    "one sign": lambda random, size: 0.5 + 0.1 * random.normal(size=size),
    "relu": lambda random, size: np.maximum(0, random.normal(size=size)),
    "ramp": lambda random, size: np.arange(size) / size,
    "wave": lambda random, size: np.sin(np.arange(size) / 50),
    "equal columns": lambda random, size: np.resize(random.normal(size=BUCKETS), size),
}


@pytest.mark.parametrize("size", [65, 128, 192, 1000, 4096, 65536, 100000])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_larger_tensors_are_estimated(kind, size):
    random = np.random.RandomState(0)
    x = KINDS[kind](random, size).astype(np.float32)
    found = measured(x)
    counted = x[:: -(-size // MOST_COUNTED)]
    assert found.counted == counted.size
    assert 0.5 < np.linalg.norm(found.sketch) / np.linalg.norm(counted) < 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", KINDS)
def test_relative_errors_of_larger_tensors_are_estimated(kind, noise):
    random = np.random.RandomState(1)
    x = KINDS[kind](random, 5000).astype(np.float32)
    y = (x + 0.01 * KINDS[noise](random, 5000)).astype(np.float32)
    assert error(x, y) / 2 < error_by_sketch(x, y) < error(x, y) * 2


@given(st.integers(0, 2**32 - 1))
@settings(often, max_examples=20)
def test_estimates_hold_for_any_values(seed):
    random = np.random.RandomState(seed)
    x = (random.normal(size=3000) * np.exp2(random.uniform(-4, 4, 3000))).astype(np.float32)
    y = (x * (1 + 0.001 * random.normal(size=3000))).astype(np.float32)
    assert error(x, y) / 3 < error_by_sketch(x, y) < error(x, y) * 3


def test_sketches_leave_out_what_is_not_finite():
    x = np.float32([1, np.inf, -2, np.nan])
    np.testing.assert_array_equal(np.abs(measured(x).sketch[:5]), [1, 0, 2, 0, 0])


# -- loops and branches --------------------------------------------------------------------------------------------------


@pytest.fixture
def old_loops():
    """While loops and branches of Switch and Merge."""
    enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if enabled:
        tf.enable_control_flow_v2()


def measured_by(graph, target):
    """Names of the tensors that an op waits for to be measured."""
    calls = graph.get_operation_by_name(target).control_inputs
    return [tensor.op.name for call in calls for tensor in call.inputs if not tensor.name.startswith(PREFIX)]


@pytest.mark.usefixtures("old_loops")
class TestControlFlow:
    def test_a_loop_adds_up_its_steps(self, graph):
        seen = []

        def body(i, x):
            seen.append(tf.multiply(x, 10.0, name="inside"))
            return i + 1, seen[0]

        _, last = tf.while_loop(lambda i, x: i < 6, body, [0, tf.constant([1.0, -0.5])])
        last = tf.identity(last, name="last")
        found = Measuring(graph, [*seen, last])
        inside, after = found.stats(fetches=["last:0"])
        assert found.instrument.left_out == [] and measured_by(found.graph, found.instrument.target) == ["last"]
        assert (inside.elements, inside.largest, inside.overflow) == (12, 1e6, 3)
        assert (after.elements, after.largest) == (2, 1e6)
        np.testing.assert_allclose(np.sort(np.abs(inside.sketch))[-2:], [555555, 1111110])

    def test_a_loop_in_a_loop(self, graph):
        seen = []

        def inner(i, x):
            seen.append(tf.add(x, 1.0, name="inside"))
            return i + 1, seen[0]

        def outer(i, x):
            return i + 1, tf.while_loop(lambda i, x: i < 3, inner, [0, x])[1]

        _, last = tf.while_loop(lambda i, x: i < 4, outer, [0, tf.constant([0.0])])
        tf.identity(last, name="last")
        (inside,) = Measuring(graph, seen).stats(fetches=["last:0"])
        assert (inside.elements, inside.largest, abs(inside.sketch.sum())) == (12, 12, 78)

    def test_with_a_scale_from_outside(self, graph):
        seen = []
        scale = tf.placeholder(tf.float32, [], "scale")

        def body(i, x):
            seen.append(tf.add(x, 1.0))
            return i + 1, seen[0]

        tf.identity(tf.while_loop(lambda i, x: i < 3, body, [0, tf.constant([0.0])])[1], name="last")
        (inside,) = Measuring(graph, seen, scale=scale).stats({"scale": 2.0**-20}, ["last:0"])
        assert (inside.elements, inside.largest, inside.subnormal) == (3, 3 * 2.0**-20, 3)

    def test_a_loop_that_takes_no_step(self, graph):
        seen = []

        def body(x):
            seen.append(tf.add(x, 1.0))
            return seen[0]

        tf.identity(tf.while_loop(lambda x: x < 0, body, [tf.constant(1.0)]), name="last")
        (inside,) = Measuring(graph, seen).stats(fetches=["last:0"])
        assert (inside.elements, inside.largest) == (0, 0)

    def test_gradients_of_a_loop(self, graph):
        w = tf.get_variable("w", initializer=[2.0], use_resource=False)
        _, last = tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * w), [0, tf.constant([1.0])])
        (gradient,) = tf.gradients(last, w)
        tf.identity(gradient, name="gradient")
        inside = [op.outputs[0] for op in graph.get_operations() if op.type == "Mul" and "gradients" in op.name and "while" in op.name]
        found = Measuring(graph, inside)
        assert [s.elements for s in found.stats(fetches=["gradient:0"])] == [5] * len(inside) and inside
        assert max(s.largest for s in found.stats(fetches=["gradient:0"])) == 2**5

    def test_a_branch_that_is_not_taken_counts_nothing(self, graph):
        flag = tf.placeholder(tf.bool, [], "flag")
        seen = []

        def branch(factor):
            seen.append(tf.multiply(tf.constant([1.0, 2.0]), factor))
            return seen[-1]

        tf.identity(tf.cond(flag, lambda: branch(3.0), lambda: branch(5.0)), name="last")
        found = Measuring(graph, seen)
        for value, elements in ((True, [2, 0]), (False, [0, 2])):
            assert [s.elements for s in found.stats({"flag": value}, ["last:0"])] == elements

    def test_tensors_around_a_branch_are_measured_whichever_way_it_goes(self, graph):
        x, outer, inner = tf.placeholder(tf.float32, [2], "x"), tf.placeholder(tf.bool, [], "outer"), tf.placeholder(tf.bool, [], "inner")
        seen = {"before": tf.multiply(x, 2.0)}

        def nested():
            seen["inside"] = tf.nn.relu(tf.cond(inner, lambda: x + 1.0, lambda: x - 1.0))
            return seen["inside"]

        seen["joined"] = tf.cond(outer, nested, lambda: x)
        seen["after"] = tf.nn.relu(seen["joined"])
        seen["gradient"] = tf.gradients(seen["after"], x)[0]
        with tf.control_dependencies([seen["joined"]]):
            seen["waits"] = tf.add(x, 3.0)
        assert conditional(GraphView(graph.as_graph_def())) & {each.op.name for each in seen.values()} == {seen["inside"].op.name}
        found = Measuring(graph, list(seen.values()))
        for flags in itertools.product((False, True), (False, True)):
            stats_of = found.stats(dict(zip(("outer", "inner"), flags), x=[1.0, 2.0]))
            assert [s.elements for s in stats_of] == [2, 2 * flags[0], 2, 2, 2, 2]

    def test_a_branch_in_a_loop(self, graph):
        seen = []

        def every_third(x):
            seen.extend([tf.add(x, 1.0), tf.subtract(x, 1.0)])
            return tf.identity(seen[0])

        def body(i, x):
            return i + 1, tf.cond(tf.equal(i % 3, 0), lambda: every_third(x), lambda: x)

        tf.identity(tf.while_loop(lambda i, x: i < 7, body, [0, tf.constant([0.0])])[1], name="last")
        found = Measuring(graph, seen)
        inside, alone = found.stats(fetches=["last:0"])
        assert (inside.elements, inside.largest) == (3, 3)
        assert found.instrument.left_out == [1] and alone.elements == 0

    def test_what_nothing_reads_in_its_loop_is_left_out(self, graph):
        seen = []

        def body(i, x):
            seen.extend([tf.add(x, 1.0, name="read"), tf.add(x, 2.0, name="alone")])
            return i + 1, tf.identity(seen[0])

        tf.identity(tf.while_loop(lambda i, x: i < 3, body, [0, tf.constant([0.0])])[1], name="last")
        found = Measuring(graph, seen)
        assert found.instrument.left_out == [1] and measured_by(found.graph, found.instrument.target) == []
        assert [s.elements for s in found.stats(fetches=["last:0"])] == [3, 0]


def test_names_of_what_is_added(graph):
    x = tf.placeholder(tf.float32, [2], "x")
    before = graph.as_graph_def()
    after = graph.as_graph_def()
    instrument = Instrument(after, FLOAT16, [Measured("x:0", FLOAT32, "")])
    assert list(after.node[: len(before.node)]) == list(before.node)
    assert all(node.name.startswith(PREFIX + "/") for node in after.node[len(before.node) :])
    assert instrument.target == PREFIX + "/measured" and x.op.name == "x"


# -- added up over steps -------------------------------------------------------------------------------------------------


def row(role=ACTIVATION, loss=-1):
    return Row("x", role, "MatMul", "x", tf.float16.as_datatype_enum, loss)


def tables(original, converted, scale=1.0):
    """What a measured step of one row gives; the original's values are measured times the scale, the converted graph's have it."""
    pairs = [measuring(FLOAT16).tables({"x": np.float32(original), "scale": scale}), measuring(FLOAT16).tables({"x": np.float32(converted)})]
    sums, maxima = zip(*pairs)
    return np.concatenate(sums), np.concatenate(maxima)


def tallied(steps, role=WEIGHT_GRADIENT, loss=0):
    """The Range of one row over steps (original, converted, scale, finite)."""
    tally = Tally([row(role, loss)], FLOAT16)
    for original, converted, scale, finite in steps:
        tally.add(*tables(original, converted, scale), [scale], [finite])
    (found,) = tally.ranges()
    return found


def test_scales_that_change_are_taken_out_again():
    x = np.float32([3e-5, -1e-9, 0, 7])
    steps = [(x, x * scale, scale, True) for scale in (1.0, 2.0**10, 2.0**-3)]
    found = tallied(steps)
    np.testing.assert_array_equal(found.exponents, 3 * exponent_fields(x))
    assert found.largest == 7 and found.error == 0
    assert found.flushed == 1 + 0 + 1  # 1e-9 is more than 2^-25 times 2^10
    assert found.norm == pytest.approx(np.sqrt(3) * np.linalg.norm(x)) and found.converted_norm == pytest.approx(found.norm)


@given(st.integers(0, 2**32 - 1), st.integers(-20, 20))
@settings(often, max_examples=20)
def test_a_shifted_histogram_is_that_of_the_values(seed, power):
    x = np.exp2(np.random.RandomState(seed).uniform(-60, 60, 500)).astype(np.float32)
    np.testing.assert_array_equal(tallied([(x, x, 2.0**power, True)]).exponents, exponent_fields(x))


def test_skipped_steps_do_not_count_for_the_error():
    x = np.float32([1, 2, 3])
    found = tallied([(x, x * 1024, 1024.0, True), (x, np.float32([np.inf, np.nan, 0]), 2.0**30, False), (x, x * 1.5, 1.0, True)])
    assert found.error == pytest.approx(np.sqrt(0.25 / 2))
    assert (found.elements, found.not_finite, found.original_not_finite) == (9, 2, 0)
    assert found.overflow == 3  # of the original's values at the second scale


def test_activations_have_no_scale_and_count_in_skipped_steps():
    x = np.float32([1, 2, 3])
    found = tallied([(x, x * 2, 1.0, False)], ACTIVATION, -1)
    assert (found.error, found.largest) == (1, 3)


def test_an_error_needs_something_to_compare():
    assert np.isnan(tallied([(np.zeros(3), np.zeros(3), 1.0, True)]).error)
    assert np.isnan(tallied([(np.ones(3), np.ones(3), 1.0, False)]).error)
    tally = Tally([row()._replace(converted="", loss=0)], FLOAT16)
    tally.add(*tables([1.0], [2.0]), [1.0], [True])
    assert np.isnan(tally.ranges()[0].error)


def test_rows_that_were_never_seen_are_no_result():
    tally = Tally([row()], FLOAT16)
    assert tally.ranges() == []
    tally.add(np.zeros((2, COLUMNS)), np.zeros(2, np.float32), [], [])
    assert tally.ranges() == []


@pytest.mark.parametrize("value, overflows", [(65504, 0), (65510, 0), (65519.99, 0), (65520, 1), (1e30, 1)])
def test_what_lies_between_the_counted_shows_in_the_largest(value, overflows):
    """And what only rounds down to the largest number doesn't overflow."""
    for size in (4, 4 * MOST_COUNTED):
        x = np.zeros(size, np.float32)
        x[1] = value
        assert tallied([(x, x, 1.0, True)]).overflow == overflows


def test_what_is_not_finite_between_the_counted():
    x = np.zeros(4 * MOST_COUNTED, np.float32)
    broken = x.copy()
    broken[1] = np.nan
    found = tallied([(broken, broken, 1.0, True)])
    assert (found.not_finite, found.original_not_finite, found.overflow) == (1, 1, 0)
    found = tallied([(x, broken, 1.0, True)])
    assert (found.not_finite, found.original_not_finite) == (1, 0)


# -- loss-scale advice ---------------------------------------------------------------------------------------------------


def histogram(values):
    return exponent_fields(np.float32(values))


def test_advice_leaves_two_powers_above_the_largest_gradient():
    found = advise([histogram([1e-9, 3e-9, 0, 0])], FLOAT16, 1.0)
    assert found.largest == -29  # 2^-29 <= 3e-9 < 2^-28
    assert found.scale == 2.0 ** (13 + 29) and 3e-9 * found.scale < 2.0**14
    assert (found.flushed, found.flushed_scaled, found.flushed_now) == (1, 0, 1)
    assert (found.powers, found.used, found.unused_above) == (40, 0, 44)


def test_advice_by_hand():
    """Gradients at 2^-27, 2^-26, 2^-25, 2^-24, 1 and zeros: three vanish, one of them only just."""
    found = advise([histogram(np.exp2([-27, -26, -25, -24, 0])), histogram([0.0] * 10)], FLOAT16, 2.0)
    assert (found.largest, found.scale) == (0, 2.0**13)
    assert (found.used, found.unused_above) == (2, 15)
    assert found.flushed == pytest.approx(2 / 5)
    assert found.flushed_now == pytest.approx(1 / 5) and found.flushed_scaled == 0


def test_advice_of_gradients_that_are_too_large():
    found = advise([histogram([2.0**20, 2.0**-10])], FLOAT16, 1.0)
    assert (found.largest, found.scale, found.used, found.unused_above) == (20, 2.0**-7, 1, 0)


@pytest.mark.parametrize("histograms", [[], [np.zeros(256, np.int64)], [histogram([0.0, np.inf, np.nan])]])
def test_advice_without_gradients(histograms):
    found = advise(histograms, FLOAT16, 8.0)
    assert found == (1.0, None, 40, 0, 40, 0, 0, 0, None) and not found.too_wide


@pytest.mark.parametrize("lowest, share, too_wide", [(-40, 0.02, True), (-40, 0.005, False), (-39, 0.02, False), (-24, 0.5, False)])
def test_gradients_further_apart_than_the_format_holds(lowest, share, too_wide):
    """From 2^lowest to 1."""
    found = advise([1000 * histogram([1.0]) - int(1000 * share) * (histogram([1.0]) - histogram([2.0**lowest]))], FLOAT16, 1.0)
    assert (found.largest, found.smallest, found.too_wide) == (0, lowest, too_wide)
    assert found.flushed_scaled == pytest.approx(share if lowest < -38 else 0)


@given(st.lists(st.integers(-126, 127), min_size=1, max_size=30), st.sampled_from([FLOAT16, BFLOAT16]), st.integers(0, 20))
@often
def test_advice_against_rounding(powers, format_, current):
    """With the scale advised nothing overflows; the shares are those that rounding gives, values of one and a half powers of two."""
    values = 1.5 * np.exp2(np.float64(powers))
    found = advise([histogram(values)], format_, 2.0**current)
    smallest = 2.0 ** (format_.bottom - 1)
    for scale, share in ((1.0, found.flushed), (found.scale, found.flushed_scaled), (2.0**current, found.flushed_now)):
        assert share == pytest.approx((values * scale < smallest).mean())
    assert (values * found.scale < 2.0 ** (format_.top - 1)).all()
    assert found.used == len({p for p in powers if format_.bottom <= p <= format_.top})


@given(st.lists(st.integers(-126, 127), min_size=1, max_size=5), st.sampled_from([FLOAT16, BFLOAT16]))
@often
def test_the_scale_advised_is_a_float32(powers, format_):
    found = advise([histogram(np.exp2(np.float64(powers)))], format_, 1.0)
    assert 0 < found.scale <= np.finfo(np.float32).max
