"""Sessions that tune their graph, with times that the tests give."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.session.live.live_graph import LiveGraph, known_live_graph
from graphmp.session.tuned import costs_file, tracing
from graphmp.session.tuned.measurement import Measurement
from graphmp.session.tuned.tuning import Tuning
from graphmp.session.tuned.turn import Request, TimedTurn
from graphmp.session.tuned.turns import FEWEST_ROUNDS, steps_of
from graphmp.session.tuned.verdict import Verdict, in_words
from graphmp.tuning import files
from graphmp.tuning.costs import BYTES, FLOAT32, HALF, TUNED
from tests.support.classifiers import half_already
from tests.support.costed import MACHINE, of_nodes
from tests.support.training import AS_WRITTEN

X = np.random.RandomState(0).randn(16, 8).astype(np.float32)
FEED = {"x:0": X, "y:0": X[:, :1] * 2}
FEWEST_STEPS = steps_of(2, FEWEST_ROUNDS)
STEPS = FEWEST_STEPS + 6
STEPS_TAKEN = 140
FASTER = {FLOAT32: {FLOAT32: 1.0, BYTES: 2.0}, BYTES: {FLOAT32: 1.0, BYTES: 0.5}}


def build(x=None, dropout=False, width=16):
    """A small regression, named as the feeds are."""
    tf.set_random_seed(3)
    if x is None:
        x = tf.placeholder(tf.float32, [None, 8], "x")
        y = tf.placeholder(tf.float32, [None, 1], "y")
    else:
        y = x[:, :1] * 2
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, width])), name="hidden")
    if dropout:
        hidden = tf.nn.dropout(hidden, 0.5, seed=7)
    loss = tf.reduce_mean(
        tf.square(tf.matmul(hidden, tf.get_variable("v", [width, 1])) - y), name="loss"
    )
    step = tf.train.get_or_create_global_step()
    tf.train.MomentumOptimizer(0.003, 0.9).minimize(loss, step, name="train")
    tf.global_variables_initializer()
    return loss


class Clock:
    """Gives each step the time of the variant that trains it.

    Attributes:
        seconds: of a step, by variant.
        called: the variant at each call, two for a step.
    """

    def __init__(self, tuning, seconds):
        self.seconds, self.called = seconds, []
        self._tuning, self._time = tuning, 0.0
        tuning.now = self

    def seconds_of(self, *variants):
        return pytest.approx({variant: self.seconds[variant] for variant in variants})

    def __call__(self):
        self.called.append(self._tuning.current)
        self._time += self.seconds[self._tuning.current]
        return self._time


def tuned(graph, faster, **options):
    """A session that tunes the graph without tracing operations, and its clock."""
    options.setdefault("config", AS_WRITTEN)
    session = graphmp.Session(graph=graph, tune=True, **options)
    tuning = known_live_graph(graph).tuning
    tuning.measures = False
    return session, Clock(tuning, FASTER[faster])


def losses(session, steps=STEPS, feed=FEED):
    """Those of some steps; a warning is no error."""
    session.run("init")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [float(session.run(["loss:0", "train"], feed)[0]) for _ in range(steps)]


def verdict(graph):
    return known_live_graph(graph).tuning.verdict


@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("faster", [FLOAT32, BYTES])
def test_all_steps_count_and_the_faster_type_stays(graph, faster, dropout):
    """Losses are those of float32, with dropout too: random streams go on across switches."""
    build(dropout=dropout)
    with tf.Session(config=AS_WRITTEN) as session:
        expected = losses(session)
    session, clock = tuned(graph, faster)
    with session:
        assert losses(session) == pytest.approx(expected, rel=2e-2)
        assert session.run("global_step:0") == STEPS
    assert set(clock.called) == {FLOAT32, BYTES} and len(clock.called) == 2 * FEWEST_STEPS
    live = known_live_graph(graph)
    assert (live.converted is None) == (faster == FLOAT32)
    found = verdict(graph)
    assert (found.kept, found.outcome.steps) == (faster, FEWEST_STEPS)
    assert found.outcome.speedup.value == pytest.approx(0.5 if faster == FLOAT32 else 2.0)


def test_what_is_kept_is_what_runs(graph):
    """No node of the clones is in the trace of a step in float32."""
    build()
    session, _ = tuned(graph, FLOAT32)
    with session:
        losses(session)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run("train", FEED, options, metadata)
    names = [row.node_name for dev in metadata.step_stats.dev_stats for row in dev.node_stats]
    assert "hidden" in names and not [name for name in names if name.startswith("graphmp/")]


@pytest.mark.parametrize("faster", [FLOAT32, BYTES])
def test_a_verdict_is_said(graph, faster):
    build()
    session, _ = tuned(graph, faster)
    with session, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        session.run("init")
        for _ in range(FEWEST_STEPS):
            session.run("train", FEED)
    said = [str(each.message) for each in found if "GMP125" in str(each.message)]
    assert said == (
        [
            "GMP125: float32 is kept: a step takes 1 s in float32, 2 s in float16 with casts by"
            " bytes (half precision 0.5 times as fast, 0.5 to 0.5); timed in %d training steps"
            % FEWEST_STEPS
        ]
        if faster == FLOAT32
        else []
    )


def test_random_numbers_of_runs_between(graph):
    """An evaluation draws numbers too, whichever type trains next."""
    loss = build(dropout=True)

    def run(session):
        session.run("init")
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for number in range(STEPS):
                found.append(float(session.run(["loss:0", "train"], FEED)[0]))
                if number % 4 == 1:
                    found.append(float(session.run(loss, FEED)))
        return found

    with graphmp.Session(config=AS_WRITTEN) as session:
        expected = run(session)
    with tf.Graph().as_default() as other:
        loss = build(dropout=True)
        session, _ = tuned(other, FLOAT32)
        with session:
            assert run(session) == pytest.approx(expected, rel=2e-2)


@pytest.mark.parametrize("count", ["number", "constant", "placeholder"])
def test_random_numbers_that_depend_on_more_than_shapes(graph, count):
    """The other inputs of a random op may be constants, which can't all be fed, or be fed."""

    def drawn(make):
        build()
        counts = {
            "number": lambda: 3,
            "constant": lambda: tf.constant(2),
            "placeholder": lambda: tf.placeholder(tf.int32, []),
        }[count]()
        logits = tf.concat(2 * [tf.get_default_graph().get_tensor_by_name("hidden:0")], 1)
        draws = tf.multinomial(0.0 * logits, counts, seed=5)
        session = make()
        feed = dict(FEED) if count == "number" else dict(FEED, **{counts.name: 3})
        found = []
        with session, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            session.run("init")
            for _ in range(STEPS):
                session.run("train", FEED)
                found.append(session.run(draws, feed).tolist())
        return found

    expected = drawn(lambda: graphmp.Session(config=AS_WRITTEN, compute_dtype="float32"))
    with tf.Graph().as_default() as other:
        assert drawn(lambda: tuned(other, FLOAT32)[0]) == expected
        assert verdict(other).kept == FLOAT32


def test_gradients_are_clipped_in_both_types(graph):
    """Float32 is a conversion then, too."""
    build()
    with graphmp.Session(clip_norm=0.1, compute_dtype="float32", config=AS_WRITTEN) as session:
        expected = losses(session)
    with tf.Graph().as_default() as other:
        build()
        session, _ = tuned(other, FLOAT32, clip_norm=0.1)
        with session:
            assert losses(session) == pytest.approx(expected, rel=1e-2)
        assert verdict(other).kept == FLOAT32


def test_skipped_steps_are_not_counted(graph):
    """The first steps of half precision are skipped, at a scale that is too large.

    They would take no time; the others take longer than in float32.
    """
    build()
    session, clock = tuned(graph, FLOAT32, loss_scale_initial=2.0**60)
    clock.seconds = Skipping(40)
    with session:
        losses(session, STEPS_TAKEN)
        skipped = STEPS_TAKEN - int(session.run("global_step:0"))
    assert skipped > 40
    assert verdict(graph).kept == FLOAT32
    assert verdict(graph).outcome.seconds == pytest.approx({FLOAT32: 1.0, BYTES: 2.0})


class Skipping:
    """Seconds of a step by variant: almost none for the first steps in half precision."""

    def __init__(self, steps):
        self._calls = 2 * steps

    def __getitem__(self, variant):
        if variant == FLOAT32:
            return 1.0
        self._calls -= 1
        return 1e-3 if self._calls >= 0 else 2.0


@pytest.mark.parametrize("short, dtype", [(FLOAT32, "float32"), (HALF, "float16")])
def test_a_step_that_runs_out_of_memory_is_repeated(graph, monkeypatch, short, dtype):
    build()
    session, clock = tuned(graph, FLOAT32)
    clock.seconds[HALF] = 9.0
    live = known_live_graph(graph)
    live.tuning.measures = True
    whole = TimedTurn.timed

    def short_of_memory(turn, run):
        if live.tuning.current == short:
            raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
        return whole(turn, run)

    monkeypatch.setattr(TimedTurn, "timed", short_of_memory)
    with session:
        assert len(losses(session, 6)) == 6
        assert session.run("global_step:0") == 6
    assert verdict(graph).kept == BYTES
    assert "ran out of memory in %s (" % dtype in verdict(graph).reason


def test_an_error_of_the_script_is_no_hindrance(graph):
    build()
    session, _ = tuned(graph, BYTES)
    with session:
        session.run("init")
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run("train", {"x:0": X, "y:0": X[:3, :1]})
        losses(session)
    assert verdict(graph).outcome.faster == BYTES


def test_a_script_that_goes_on_after_ctrl_c_is_no_second_thread(graph, monkeypatch):
    build()
    session, _ = tuned(graph, BYTES)
    with session:
        losses(session, 3)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(TimedTurn, "ends", interrupted)
            session.run("train", FEED)
        for _ in range(FEWEST_STEPS):
            session.run("train", FEED)
    assert verdict(graph).kept == BYTES and not verdict(graph).reason


def interrupted(*arguments):
    """Ctrl-C at this moment."""
    raise KeyboardInterrupt


def test_ctrl_c_before_the_first_step_is_said(graph, monkeypatch):
    build()
    session, _ = tuned(graph, BYTES)
    with session:
        session.run("init")
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Tuning, "_prepare", interrupted)
            session.run("train", FEED)
        with pytest.warns(RuntimeWarning, match="not tuned: it was interrupted before its first"):
            session.run("train", FEED)
        assert session.run("global_step:0") == 1


def test_ctrl_c_while_operations_are_measured_leaves_bytes(graph, monkeypatch):
    build()
    monkeypatch.setattr(Measurement, "_measured", interrupted)
    session, clock = tuned(graph, BYTES)
    clock.seconds = {**FASTER[BYTES], HALF: 9.0}
    known_live_graph(graph).tuning.measures = True
    with session:
        losses(session, tracing.STEPS - 1)
        with pytest.raises(KeyboardInterrupt):
            session.run("train", FEED)
        for _ in range(FEWEST_STEPS):
            session.run("train", FEED)
    assert verdict(graph).kept == BYTES and not verdict(graph).reason


def test_threads_that_train_at_once_end_it(graph):
    build()
    session, _ = tuned(graph, BYTES)
    with session:
        losses(session, 1)
        live = known_live_graph(graph)
        request = Request(session, (graph.get_operation_by_name("train"),), (), True, True)
        other = threading.Thread(target=live.turn, args=(request,))
        other.start()
        other.join()
        with pytest.warns(RuntimeWarning, match="not tuned: several threads"):
            assert live.turn(request).conversion is live.converted is not None


def test_debugging_and_float32_leave_nothing_to_time(graph):
    build()
    session, clock = tuned(graph, BYTES, compute_dtype="float32")
    with session:
        losses(session, 2)
    assert "nothing to choose" in verdict(graph).reason and clock.called == []


def test_a_callable_alternates(graph):
    build()
    session, clock = tuned(graph, FLOAT32)
    with session:
        session.run("init")
        options = tf.CallableOptions() if hasattr(tf, "CallableOptions") else _callable_options()
        options.fetch.append("loss:0")
        options.target.append("train")
        options.feed.extend(["x:0", "y:0"])
        call = session._make_callable_from_options(options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = [float(call(X, X[:, :1] * 2)[0]) for _ in range(STEPS)]
        assert session.run("global_step:0") == STEPS
    assert set(clock.called) == {FLOAT32, BYTES} and verdict(graph).kept == FLOAT32
    with tf.Session(config=AS_WRITTEN) as session:
        assert found == pytest.approx(losses(session), rel=2e-2)


def _callable_options():
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.CallableOptions()


def test_hooks_pass_options_of_their_own(graph, monkeypatch):
    """MonitoredSession passes options and metadata with each run; its steps are traced and timed."""
    build()
    seen = measured(monkeypatch, COSTS["placed by times"])
    session, clock = tuned(graph, FLOAT32)
    clock.seconds = {FLOAT32: 1.0, BYTES: 2.0, TUNED: 0.5, HALF: 9.0}
    known_live_graph(graph).tuning.measures = True
    with session:
        session.run("init")
        for _ in range(54):
            options, metadata = tf.RunOptions(timeout_in_ms=60000), tf.RunMetadata()
            session.run("train", FEED, options=options, run_metadata=metadata)
    assert seen == [4, 4] and verdict(graph).kept == TUNED


def test_steps_that_the_script_traces_are_not_counted(graph):
    build()
    session, _ = tuned(graph, BYTES)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with session:
        session.run("init")
        for _ in range(FEWEST_STEPS):
            metadata = tf.RunMetadata()
            session.run("train", FEED, options=options, run_metadata=metadata)
            assert metadata.step_stats.dev_stats
    assert verdict(graph) is None


@pytest.mark.parametrize("measures", [False, True])
def test_a_script_that_traces_all_its_steps_is_given_up(graph, monkeypatch, measures):
    build()
    monkeypatch.setattr("graphmp.session.tuned.tuning.MOST_STEPS", 12)
    session, clock = tuned(graph, BYTES)
    clock.seconds[HALF] = 9.0
    known_live_graph(graph).tuning.measures = measures
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with session, pytest.warns(RuntimeWarning, match="traces 12 of 12 training steps"):
        session.run("init")
        for _ in range(12):
            session.run("train", FEED, options=options, run_metadata=tf.RunMetadata())
    assert verdict(graph).kept == BYTES


def test_a_conversion_without_half_precision_is_not_timed(graph):
    build()
    session, clock = tuned(graph, BYTES, keep_float32=[".*"])
    with session, pytest.warns(RuntimeWarning, match="computes nothing in float16"):
        session.run("init")
        session.run("train", FEED)
    assert clock.called == [] and known_live_graph(graph).tuning.in_words().startswith("not tuned")


def test_a_partial_run_ends_in_the_type_that_it_began_in(graph):
    build()
    session, _ = tuned(graph, FLOAT32)
    with session:
        losses(session, FEWEST_STEPS - 1)
        handle = session.partial_run_setup(["hidden:0", "loss:0"], ["x:0", "y:0"])
        session.partial_run(handle, "hidden:0", {"x:0": X})
        with pytest.warns(RuntimeWarning, match="float32 is kept"):
            session.run(["loss:0", "train"], FEED)
        assert session.partial_run(handle, "loss:0", {"y:0": FEED["y:0"]}) > 0


def test_shapes_of_a_pipeline_are_compared(graph):
    """Its batches have two sizes by turns, of which each is a kind of its own."""
    sizes = tf.data.Dataset.from_tensor_slices([4, 8]).repeat()
    batches = sizes.map(lambda size: tf.ones([size, 8]))
    iterator = tf.data.make_one_shot_iterator(batches)
    build(iterator.get_next())
    session, _ = tuned(graph, BYTES)
    with session:
        losses(session, 6, {})
        kinds = known_live_graph(graph).tuning._turns.kinds
    assert sorted(kind[-1][-1] for kind in kinds) == [(4, 8), (8, 8)]
    assert sorted(kinds.values()) == [3, 3]


def test_shapes_that_random_numbers_decide_are_not_compared(graph):
    """A sparse dropout leaves another number of values in each step."""
    x = tf.placeholder(tf.float32, [None, 8], "x")
    rows = tf.where(tf.random_uniform(tf.shape(x)[:1], seed=1) < 0.5)[:, 0]
    build(tf.gather(x, rows) + 1.0)
    session, _ = tuned(graph, BYTES)
    with session:
        losses(session, feed={"x:0": X})
    assert verdict(graph).outcome.steps == FEWEST_STEPS


def test_shapes_are_fetched_without_drawing_random_numbers(graph):
    """The noise is shared by the placement by bytes, and cloned where all is in half precision."""
    batches = tf.data.Dataset.from_tensor_slices(tf.constant(X)).repeat().batch(16)
    x = tf.data.make_one_shot_iterator(batches).get_next()
    noise = tf.random_normal(tf.shape(x), seed=4)
    build(x + noise)
    total = tf.reduce_sum(noise)

    def totals(session):
        session.run("init")
        return [float(session.run([total, "train"])[0]) for _ in range(tracing.STEPS + 8)]

    with tf.Session(config=AS_WRITTEN) as session:
        expected = totals(session)
    with graphmp.Session(graph=graph, tune=True, config=AS_WRITTEN) as session:
        assert totals(session) == pytest.approx(expected, rel=1e-2, abs=1e-1)


def test_training_code_that_comes_later_begins_again(graph):
    loss = build()
    session, _ = tuned(graph, BYTES)
    with session:
        losses(session, 10)
        more = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
        for _ in range(FEWEST_STEPS):
            assert verdict(graph) is None
            session.run(more, FEED)
    assert verdict(graph).outcome.steps == FEWEST_STEPS + 10


COSTS = {  # nanoseconds of nodes in float32 and in half precision
    "placed by times": {"MatMul": (900.0, 90.0), "MatMul_1": (10.0, 9000.0)},
    "all in float32": {"MatMul": (10.0, 9000.0), "MatMul_1": (10.0, 9000.0)},
}


def measured(monkeypatch, times):
    """Have the measurement find these costs, in traces of the right steps."""
    seen = []

    def found(measurement, steps, dtype, batch_size):
        assert batch_size == 16
        seen.extend(len(steps.steps(variant, {})) for variant in (FLOAT32, HALF))
        assert "train" in steps.targets()
        original = measurement._by_bytes.original
        gradients = {
            node.name: times["MatMul_1"]
            for node in original.graph_def.node
            if node.op == "MatMul" and node.name not in times
        }
        return of_nodes(
            original, {**times, **gradients}, 1.0, compute_dtype=dtype, batch_size=batch_size
        )

    monkeypatch.setattr(Measurement, "_measured", found)
    monkeypatch.setattr("graphmp.tuning.machine.this_machine", lambda: MACHINE)
    return seen


@pytest.mark.parametrize(
    "kept, seconds",
    [(TUNED, (1.0, 2.0, 0.5)), (BYTES, (1.0, 0.5, 2.0)), (FLOAT32, (1.0, 2.0, 2.0))],
)
def test_the_fastest_of_three_is_kept(graph, monkeypatch, kept, seconds):
    """Steps are traced, then timed in float32, by bytes and by measured times."""
    build(dropout=True)
    with tf.Session(config=AS_WRITTEN) as session:
        expected = losses(session, 60)
    seen = measured(monkeypatch, COSTS["placed by times"])
    session, clock = tuned(graph, FLOAT32)
    clock.seconds = dict(zip((FLOAT32, BYTES, TUNED), seconds), half=9.0)
    live = known_live_graph(graph)
    live.tuning.measures = True
    with session:
        assert losses(session, 60) == pytest.approx(expected, rel=3e-2)
        assert session.run("global_step:0") == 60
    assert seen == [4, 4] and set(clock.called) == {FLOAT32, HALF, BYTES, TUNED}
    found = verdict(graph)
    assert found.kept == kept and found.outcome.seconds == clock.seconds_of(FLOAT32, BYTES, TUNED)
    assert found.outcome.steps == tracing.STEPS + steps_of(3, FEWEST_ROUNDS)
    assert set(live.variants) == ({kept} - {FLOAT32})


def test_a_conversion_by_times_without_half_precision_is_not_timed(graph, monkeypatch):
    build()
    measured(monkeypatch, COSTS["all in float32"])
    session, clock = tuned(graph, FLOAT32)
    clock.seconds[HALF] = 9.0
    known_live_graph(graph).tuning.measures = True
    with session:
        losses(session, 50)
    assert TUNED not in clock.called and verdict(graph).kept == FLOAT32


def test_operations_that_cannot_be_measured_leave_bytes(graph, monkeypatch):
    build()

    def refused(measurement, steps, dtype, batch_size):
        raise GraphmpError("GMP002", "no costs")

    monkeypatch.setattr(Measurement, "_measured", refused)
    session, clock = tuned(graph, BYTES)
    clock.seconds = {FLOAT32: 1.0, BYTES: 0.5, HALF: 9.0}
    known_live_graph(graph).tuning.measures = True
    with session:
        losses(session, 50)
    found = verdict(graph)
    assert found.kept == BYTES and found.note == "operations were not measured: GMP002: no costs"


def tuned_beside_checkpoints(path, seconds, steps=54, width=16):
    """A run that saves before it trains, as MonitoredTrainingSession does: its tuning."""
    costs_file._HOLDERS.clear()  # those of the process before
    with tf.Graph().as_default() as graph:
        build(width=width)
        saver = tf.train.Saver()
        session = graphmp.Session(graph=graph, tune=True, config=AS_WRITTEN)
        tuning = known_live_graph(graph).tuning
        clock = Clock(tuning, dict(zip((FLOAT32, BYTES, TUNED), seconds), half=9.0))
        with session:
            session.run("init")
            saver.save(session, str(path / "model"))
            losses(session, steps)
            assert session.run("global_step:0") == steps
        return tuning, clock, set(known_live_graph(graph).variants)


@pytest.mark.parametrize(
    "kept, seconds",
    [(TUNED, (1.0, 2.0, 0.5)), (BYTES, (1.0, 0.5, 2.0)), (FLOAT32, (1.0, 2.0, 2.0))],
    ids=[TUNED, BYTES, FLOAT32],
)
def test_the_next_run_skips_the_measuring(monkeypatch, tmp_path, kept, seconds):
    measured(monkeypatch, COSTS["placed by times"])
    first = tuned_beside_checkpoints(tmp_path, seconds)[0]
    assert first.verdict.kept == kept
    costs = files.read(str(tmp_path / "graphmp.costs"))
    assert (costs.faster, costs.batch_size) == (kept, 16)
    assert costs.steps[FLOAT32].nanoseconds == pytest.approx(1e9)
    second, clock, variants = tuned_beside_checkpoints(tmp_path, seconds, steps=3)
    assert clock.called == [] and variants == {kept} - {FLOAT32}
    assert (second.verdict.kept, second.verdict.file) == (kept, str(tmp_path / "graphmp.costs"))


def test_the_file_places_as_the_run_that_measured_it(graph, tmp_path):
    """Sizes that the graph leaves open are those of the batches, in both."""
    build()
    path = str(tmp_path / "kept.costs")
    original = tf.train.export_meta_graph()
    with graphmp.Session(graph=graph, tune=path, config=AS_WRITTEN) as session:
        losses(session, STEPS_TAKEN)
    costs = files.read(path)
    placed = rewrite(original, Config.make(costs=path), Policy.default("float16"))
    assert costs.batch_size == 16
    assert placed.record.costs["placement"] == costs.placement


@pytest.mark.parametrize("late", [True, False])
def test_a_folder_that_is_known_too_late_is_said(graph, monkeypatch, tmp_path, late):
    """A run that doesn't restore anything learns where the file is when it saves."""
    build()
    measured(monkeypatch, COSTS["placed by times"])
    said = []
    monkeypatch.setattr(LiveGraph, "kept", lambda live, text, is_written: said.append(text))
    saver, model = tf.train.Saver(), str(tmp_path / "model")
    with graphmp.Session(graph=graph, tune=True, config=AS_WRITTEN) as session:
        Clock(known_live_graph(graph).tuning, {FLOAT32: 1.0, BYTES: 2.0, TUNED: 0.5, HALF: 9.0})
        session.run("init")
        if not late:
            saver.save(session, model)
        losses(session, 54)
        saver.save(session, model)
    (text,) = said
    assert text.startswith("the next run takes what was measured from %s" % tmp_path)
    assert ("if it restores a checkpoint there before it trains" in text) == late


def test_a_file_that_cannot_be_written_is_said(graph, monkeypatch, tmp_path):
    build()
    measured(monkeypatch, COSTS["placed by times"])
    folder = tmp_path / "no_folder"
    folder.mkdir()
    session = graphmp.Session(graph=graph, tune=str(folder / "kept.costs"), config=AS_WRITTEN)
    folder.rmdir()
    folder.touch()
    Clock(known_live_graph(graph).tuning, {FLOAT32: 1.0, BYTES: 2.0, TUNED: 0.5, HALF: 9.0})
    with session, pytest.warns(RuntimeWarning, match="GMP004.*no_folder"):
        session.run("init")
        for _ in range(54):
            session.run("train", FEED)


@pytest.mark.parametrize("name, code", [("", "GMP002"), ("no_folder/x.costs", "GMP004")])
def test_a_file_that_cannot_be_is_refused_before_anything_runs(graph, tmp_path, name, code):
    path = str(tmp_path / name) if name else ""
    with pytest.raises(GraphmpError, match=code):
        graphmp.Session(graph=graph, tune=path)


def test_a_file_is_refused_beside_given_costs(graph, tmp_path):
    (tmp_path / "x.costs").touch()
    with pytest.raises(GraphmpError, match=r"GMP002: tune=.*nothing is measured"):
        graphmp.Session(graph=graph, tune=str(tmp_path / "y"), costs=str(tmp_path / "x.costs"))


def test_a_file_whose_conversion_is_all_in_float32_keeps_float32(monkeypatch, tmp_path):
    """`graphmp tune` says of such a conversion that it is the fastest."""
    measured(monkeypatch, COSTS["all in float32"])
    seconds = (1.0, 2.0, 9.0)
    tuned_beside_checkpoints(tmp_path, seconds)
    path = tmp_path / "graphmp.costs"
    path.write_bytes(files.dumps(replace(files.read(str(path)), faster=TUNED)))
    second, _, variants = tuned_beside_checkpoints(tmp_path, seconds, steps=3)
    assert second.verdict.kept == FLOAT32 and second.verdict.file == str(path)
    assert variants == set()


def test_a_file_keeps_the_first_graph_of_several(monkeypatch, tmp_path):
    """The next run is decided by it without timing, and so is the same graph built again."""
    measured(monkeypatch, COSTS["placed by times"])
    path, said = tmp_path / "kept.costs", []
    monkeypatch.setattr(LiveGraph, "kept", lambda live, text, is_written: said.append(text))
    for width in (16, 24, 16):
        with tf.Graph().as_default() as graph:
            build(width=width)
            with graphmp.Session(graph=graph, tune=str(path), config=AS_WRITTEN) as session:
                seconds = {FLOAT32: 1.0, BYTES: 2.0, TUNED: 0.5, HALF: 9.0}
                clock = Clock(known_live_graph(graph).tuning, seconds)
                losses(session, 54)
                kept = path.read_bytes()
    assert said == [
        "the next run takes what was measured from %s" % path,
        "%s keeps what was measured of another graph; the next run measures this one anew" % path,
    ]
    assert clock.called == [] and verdict(graph).file == str(path)
    costs_file._HOLDERS.clear()
    assert path.read_bytes() == kept


def test_a_file_with_regions_is_used_with_them(monkeypatch, tmp_path):
    """`graphmp tune` found nodes of the placement by bytes that are better in float32."""
    measured(monkeypatch, COSTS["placed by times"])
    tuned_beside_checkpoints(tmp_path, (1.0, 0.5, 2.0))
    path = tmp_path / "graphmp.costs"
    costs = files.read(str(path))
    assert costs.faster == BYTES
    path.write_bytes(files.dumps(replace(costs, float32_nodes=tuple(costs.nodes)[:1])))
    second, _, variants = tuned_beside_checkpoints(tmp_path, (1.0, 0.5, 2.0), steps=3)
    assert second.verdict.kept == TUNED and variants == {TUNED}


def test_a_run_that_ended_early_leaves_its_measurement(monkeypatch, tmp_path):
    """Its last checkpoint comes before it trains; the next run traces nothing."""
    measured(monkeypatch, COSTS["placed by times"])
    seconds = (1.0, 2.0, 0.5)
    first, _, _ = tuned_beside_checkpoints(tmp_path, seconds, steps=20)
    assert first.verdict is None
    second, clock, _ = tuned_beside_checkpoints(tmp_path, seconds)
    assert HALF not in clock.called and second.verdict.kept == TUNED
    assert second.verdict.outcome.steps == steps_of(3, FEWEST_ROUNDS)


@pytest.mark.parametrize(
    "change, note",
    [
        (lambda costs: replace(costs, machine=costs.machine._replace(threads=99)), "threads 99"),
        (lambda costs: replace(costs, placement="0" * 16), "of another graph"),
        (lambda costs: replace(costs, batch_size=4), "its batches were of 4, these are of 16"),
        (lambda costs: replace(costs, compute_dtype="bfloat16"), "bfloat16, here float16"),
    ],
    ids=["machine", "graph", "batch", "dtype"],
)
def test_a_file_that_does_not_fit_is_named_and_measured_anew(monkeypatch, tmp_path, change, note):
    measured(monkeypatch, COSTS["placed by times"])
    path, seconds = tmp_path / "graphmp.costs", (1.0, 2.0, 0.5)
    tuned_beside_checkpoints(tmp_path, seconds)
    path.write_bytes(files.dumps(change(files.read(str(path)))))
    tuning, _, _ = tuned_beside_checkpoints(tmp_path, seconds)
    assert note in tuning.verdict.note and "not used" in tuning.verdict.note
    assert tuning.verdict.kept == TUNED and tuning.verdict.outcome is not None
    assert files.read(str(path)).batch_size == 16  # the new costs


def test_a_verdict_for_other_sizes_is_not_used(monkeypatch, tmp_path):
    """The names of both graphs are the same, and by times both are in float32 throughout."""
    measured(monkeypatch, COSTS["all in float32"])
    seconds = (1.0, 2.0, 9.0)
    tuned_beside_checkpoints(tmp_path, seconds)
    tuning, _, _ = tuned_beside_checkpoints(tmp_path, seconds, width=24)
    assert "of another graph" in tuning.verdict.note and tuning.verdict.outcome is not None
    again, clock, _ = tuned_beside_checkpoints(tmp_path, seconds, width=24)
    assert clock.called == [] and again.verdict.kept == FLOAT32


def test_a_file_that_is_damaged_is_named_and_measured_anew(monkeypatch, tmp_path):
    measured(monkeypatch, COSTS["placed by times"])
    path, seconds = tmp_path / "graphmp.costs", (1.0, 2.0, 0.5)
    path.write_text("{")
    tuning, _, _ = tuned_beside_checkpoints(tmp_path, seconds)
    assert tuning.verdict.note.startswith("GMP002: %s: not used: not JSON" % path)
    assert files.read(str(path)).faster == TUNED


def test_a_graph_that_is_half_already_is_not_timed(graph):
    tf.train.import_meta_graph(half_already())
    with graphmp.Session(graph=graph, tune=True, config=AS_WRITTEN) as session:
        session.run("init")
        with pytest.warns(RuntimeWarning) as seen:
            session.run("train", {"x:0": np.ones((8, 4)), "y:0": np.ones((8, 2))})
    text = known_live_graph(graph).tuning.in_words()
    assert any(text in str(each.message) for each in seen)
    assert text.startswith("not tuned: already half") and text.endswith("left as it is")


def test_real_traces_make_costs_of_every_matmul(graph):
    """Of the graph's own nodes in float32, and of their clones."""
    build()
    with graphmp.Session(tune=True, config=AS_WRITTEN) as session:
        losses(session, tracing.STEPS)
        costs = known_live_graph(graph).tuning.measured
    matmuls = [row for row in costs.measurements if row.signature.op == "MatMul"]
    assert len(matmuls) == 6  # two forward, four backward
    assert all(row.float32.nanoseconds > 0 and row.half.nanoseconds > 0 for row in matmuls)


def test_words():
    text = in_words(Verdict(BYTES, None, "why"), "bfloat16")
    assert text == "not tuned: why; trains in bfloat16"
