"""tools/mutate.py: planting of each class of faults, verdicts, and two checks of known quality."""

import importlib
import os
import random

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.io.messages import serialize
from tests.support.models import two_layers
from tests.support.places import TOOLS
from tests.support.training_graphs import adam, applied_in_a_branch, square, vectors

LOW = {"loss_scale_growth_interval": 2, "loss_scale_initial": 64.0, "loss_scale_min": 16.0}


@pytest.fixture(scope="module")
def mutate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("mutate")


def module(mutate, name):
    return importlib.import_module("mutants." + name)


def subject_of(mutate, build, train=("train",), **options):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        build()
        tf.global_variables_initializer()
        original = tf.train.export_meta_graph(saver_def=tf.train.Saver().as_saver_def())
        del graph
    return module(mutate, "subject").Subject(
        "a test", original, graphmp.convert(original, **options).meta_graph, train
    )


def plain():
    adam().minimize(square(two_layers(vectors())), name="train")


def deep():
    """Matmuls of squares, two variables of one shape, two summed by a function."""
    x = vectors()
    weights = [tf.get_variable("w%d" % i, (12, 12)) for i in range(2)]

    @tf.function
    def both(a, b):
        return 2.0 * a + b, a - b

    total, difference = both(tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1]), x)
    tf.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True).minimize(
        square(total) + square(difference, "other"), name="train"
    )


def various():
    """A rate that falls, counts, float64, tiny constants, a loop, a write that runs alone."""
    x, w = vectors(), tf.get_variable("w", (12, 12))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 100, 0.9)
    tf.assign_add(tf.get_variable("seen", (), initializer=tf.zeros_initializer()), 1.0)
    _, h = tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, tf.matmul(h, w)), [0, x])
    h = tf.matmul(h * tf.cast(tf.shape(x)[0], tf.float32) + 1e-12, w)
    wide = tf.cast(tf.transpose(tf.cast(h, tf.float64) * 2.0), tf.float32)
    tf.identity(tf.reshape(tf.transpose(x), [-1]), "moved")
    tf.train.GradientDescentOptimizer(rate).minimize(square(wide), step, name="train")


@pytest.fixture(scope="module")
def various_kinds(mutate):
    return subject_of(mutate, various, **LOW)


@pytest.fixture(scope="module")
def clipped(mutate):
    return subject_of(mutate, plain, clip_norm=0.125, **LOW)


@pytest.fixture(scope="module")
def single(mutate):
    return subject_of(mutate, plain, compute_dtype="float32", clip_norm=0.125, **LOW)


@pytest.fixture(scope="module")
def square_ones(mutate):
    return subject_of(mutate, deep, **LOW)


def every_class(mutate):
    return mutate.classes.chosen() + mutate.classes.chosen(held_out=True)


def planted(mutate, name, subject, count=1):
    found = (mutate.classes.planted(name, subject, seed) for seed in range(4 * count))
    return [mutant for mutant in found if mutant is not None][:count]


# classes that need two steps, a count, average or rate of the program's own, recorded shapes, an op
# on no list, or one with a list of types
OF_OTHER_GRAPHS = (
    "another_step_is_checked_too",
    "average_of_a_model_in_half",
    "count_goes_on",
    "fed_rate_in_half",
    "gate_by_two_flags",
    "list_of_types_in_half",
    "one_loss_left_unscaled",
    "unknown_dimension_said",
    "unlisted_in_half",
)


@pytest.mark.slow
def test_each_class_plants_faults(mutate, clipped, square_ones, various_kinds):
    """Every class has a mutant on some version of TensorFlow, but for those of other graphs.

    Classes of function bodies need functions, that of Savers' slices needs TensorFlow 2.
    """
    subjects = (clipped, square_ones, various_kinds)
    before = [serialize(subject.converted) for subject in subjects]
    none = []
    for name in every_class(mutate):
        found = (planted(mutate, name, subject) for subject in subjects)
        mutants = next(filter(None, found), [])
        none += [] if mutants else [name]
        for mutant in mutants:
            assert mutant.name == name and mutant.what and serialize(mutant.graph) not in before
            with tf.Graph().as_default():
                tf.import_graph_def(mutant.graph.graph_def, name="")
    functions = () if tf.__version__ > "2" else ("function_body_changed", "function_result_changed")
    assert set(none) <= {"own_attribute_changed", *OF_OTHER_GRAPHS, *functions}
    assert [serialize(subject.converted) for subject in subjects] == before


@pytest.mark.unit
def test_a_fifth_of_the_classes_is_held_out(mutate):
    classes, held_out = mutate.classes.chosen(), mutate.classes.chosen(held_out=True)
    assert not set(classes) & set(held_out) and len(classes) >= 20
    assert 0.18 < len(held_out) / len(classes + held_out) < 0.25
    with pytest.raises(ValueError, match="no class of faults nonsense"):
        mutate.classes.chosen(["nonsense"])


@pytest.mark.unit
def test_the_same_seed_plants_the_same_fault(mutate, clipped):
    one, again = (mutate.classes.planted("input_rewired", clipped, 5) for _ in range(2))
    other = mutate.classes.planted("input_rewired", clipped, 6)
    assert serialize(one.graph) == serialize(again.graph) and one.what == again.what != other.what


def judged(mutate, subject, check, run=False, names=("gate_swapped", "constant_changed"), count=3):
    settings = mutate.Settings(check, None, "1", run)
    task = mutate.Task(subject.name, tuple(names), 0, count, {})
    comparison = mutate.executed.Comparison(subject) if run else None
    return [
        mutate.judged(subject, mutant, number, settings, lambda: comparison)
        for name in names
        for number, mutant in mutate.planted(subject, name, task, "1")
    ]


def same_bytes(subject):
    expected = serialize(subject.converted)
    return lambda original, converted: serialize(converted) == expected


@pytest.mark.unit
def test_what_two_checks_come_to(mutate, clipped):
    names = mutate.classes.chosen()
    all_caught = judged(mutate, clipped, same_bytes(clipped), names=names, count=1)
    assert len(all_caught) > 60 and {outcome.verdict for outcome in all_caught} == {mutate.CAUGHT}
    none_caught = judged(mutate, clipped, lambda original, converted: True, names=names, count=1)
    assert len(none_caught) == len(all_caught)
    assert {outcome.verdict for outcome in none_caught} <= {
        mutate.MISSED,
        mutate.UNDECIDED,
        mutate.EQUIVALENT,
    }
    assert sum(outcome.verdict == mutate.EQUIVALENT for outcome in none_caught) < 10


class Remembering(random.Random):
    """Random numbers, and what was chosen by them."""

    def __init__(self, seed):
        super().__init__(seed)
        self.chosen = []

    def choice(self, seq):
        self.chosen.append(super().choice(seq))
        return self.chosen[-1]


def test_faults_go_together_in_one_graph(mutate, clipped):
    several = module(mutate, "several")
    assert "left_as_it_was" in every_class(mutate)
    for seed in range(10):
        chance = Remembering(seed)
        plant = several.together(clipped, chance, 3)
        assert plant is None or plant.touched <= {n.name for n in plant.graph.graph_def.node}
        assert chance.chosen and "left_as_it_was" not in chance.chosen


@pytest.mark.unit
def test_a_check_that_raises_proves_nothing(mutate, clipped):
    def check(original, converted):
        raise KeyError("a node")

    (outcome,) = judged(mutate, clipped, check, names=["gate_swapped"], count=1)
    assert outcome.verdict == mutate.CAUGHT and outcome.why == "the check raised KeyError: 'a node'"


def changed(mutate, subject, change):
    plant = module(mutate, "plant").Plant(subject)
    change(plant)
    return plant.graph


INITIALISER = "graphmp/loss_scale/skipped_steps/Assign"
FINITE, STEP, CLIP = (
    "graphmp/loss_scale/finite",
    "graphmp/loss_scale/update/step",
    "graphmp/loss_scale/clip_by_global_norm/mul",
)


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, reader, same",
    [
        ("graphmp/loss_scale/stack", "All", True),
        ("graphmp/loss_scale/stack", "Softmax", False),
        ("stack", "All", False),
    ],
)
def test_a_list_in_a_body_that_is_only_reduced_has_no_order(mutate, name, reader, same):
    graph = tf.MetaGraphDef()
    function = graph.graph_def.library.function.add()
    function.node_def.add(name=name, op="Pack", input=["a", "b"])
    function.node_def.add(name="reader", op=reader, input=[name + ":output:0"])
    other = tf.MetaGraphDef()
    other.CopyFrom(graph)
    other.graph_def.library.function[0].node_def[0].input[:] = ["b", "a"]
    beside = module(mutate, "equivalence")._beside_nodes
    assert (beside(graph) == beside(other)) is same


@pytest.mark.unit
def test_rules_of_equivalence(mutate, clipped):
    equivalence = module(mutate, "equivalence")
    slot, port = module(mutate, "subject").Slot, module(mutate, "plant").Port
    float32 = tf.float32.as_datatype_enum

    def rule(change):
        return equivalence.rule(clipped, changed(mutate, clipped, change))

    def exchange(plant):
        node = plant.node(CLIP)
        node.input[0], node.input[1] = node.input[1], node.input[0]

    def terms_in_another_order(plant):
        node = next(node for node in plant.graph.graph_def.node if node.op == "ConcatV2")
        node.input[:-1] = reversed(node.input[:-1])
        assert len(node.input) > 3

    new_scale = "graphmp/loss_scale/update/new_scale"
    assert rule(terms_in_another_order) == equivalence.SAME_VALUES
    assert (
        rule(lambda plant: plant.wait_no_longer(STEP, "graphmp/loss_scale/update/Select_2"))
        == equivalence.IMPLIED
    )  # new_scale reads it
    assert rule(lambda plant: plant.wait(FINITE, new_scale)) == equivalence.IMPLIED
    assert rule(lambda plant: plant.wait_no_longer(STEP, new_scale)) == ""
    assert rule(lambda plant: plant.wait_no_longer(FINITE, STEP)) == ""
    assert rule(lambda plant: plant.wait("train", "graphmp/loss_scale/skip/skipped")) == ""
    assert rule(exchange) == equivalence.SAME_VALUES
    read = "graphmp/loss_scale/unscale"
    assert (
        rule(
            lambda p: p.connect(
                slot(CLIP, 0), p.add("i", "Identity", [p.subject.read(slot(CLIP, 0))], T=float32)
            )
        )
        == equivalence.SAME_VALUES
    )
    assert (
        rule(
            lambda plant: plant.connect(
                slot(CLIP, 0), plant.add("i", "Neg", [plant.subject.read(slot(CLIP, 0))], T=float32)
            )
        )
        == ""
    )
    assert (
        rule(lambda plant: plant.add("unread", "Neg", [port(read, 0)], T=float32))
        == equivalence.SAME_VALUES
    )
    assert (
        rule(
            lambda plant: plant.add(
                "write", "Assign", [port("dense/bias", 0), port("dense/bias/read", 0)], T=float32
            )
        )
        == ""
    )
    assert (
        rule(lambda plant: plant.graph.collection_def["train_op"].node_list.value.append("train"))
        == ""
    )


@pytest.mark.unit
def test_a_fault_in_a_graph_that_has_lost_an_initialiser(mutate, clipped):
    """A collection still names it."""

    def lose(plant):
        nodes = plant.graph.graph_def.node
        nodes.remove(next(node for node in nodes if node.name == "dense/bias/Assign"))
        for node in nodes:
            node.input[:] = [text for text in node.input if text != "^dense/bias/Assign"]

    lost = module(mutate, "subject").Subject(
        clipped.name, clipped.original, changed(mutate, clipped, lose)
    )
    assert "dense/bias/Assign" in lost.state.initializers
    classes = module(mutate, "classes")
    classes.load()
    assert classes.FAULTS["initial_value_changed"](lost, random.Random(0)) is not None


@pytest.mark.unit
def test_an_identity_is_the_output_that_it_reads(mutate, clipped):
    """Of a Switch it is there, or dead, with that output, and not with the other one."""
    equivalence = module(mutate, "equivalence")
    slot, port = module(mutate, "subject").Slot, module(mutate, "plant").Port
    view = clipped.view
    copies = [
        name
        for name in clipped.own
        if view.nodes[name].op == "Identity"
        and view.inputs(name)[0].output == 1
        and view.nodes[view.inputs(name)[0].node].op == "Switch"
        and view.consumers(name)
    ]

    def rule(name, output, through=False):
        """Let a reader of a copy of one output of a Switch read an output, or a copy of it."""
        switch, reader = view.inputs(name)[0].node, view.consumers(name)[0]

        def change(plant):
            read = port(switch, output)
            if through:
                read = plant.add("copy", "Identity", [read], T=view.nodes[name].attr["T"].type)
            plant.connect(slot(reader.node, reader.slot), read)

        return equivalence.rule(clipped, changed(mutate, clipped, change))

    for name in copies:
        same = "" if view.controls(name) else equivalence.SAME_VALUES
        assert rule(name, 1) == rule(name, 1, through=True) == same
        assert rule(name, 0) == rule(name, 0, through=True) == ""
    assert {bool(view.controls(name)) for name in copies} == {True, False}


@pytest.mark.unit
def test_the_same_values_in_another_form(mutate, clipped):
    """An early Identity, a reordered list, and values exact in half precision, in float32."""
    equivalence, casts = module(mutate, "equivalence"), module(mutate, "casts")
    slot, port = module(mutate, "subject").Slot, module(mutate, "plant").Port
    float32, float16 = tf.float32.as_datatype_enum, tf.float16.as_datatype_enum

    def rule(change):
        return equivalence.rule(clipped, changed(mutate, clipped, change))

    def through(*dtypes):
        def change(plant):
            port = plant.subject.read(at)
            for before, after in zip(dtypes, dtypes[1:]):
                port = casts.cast(plant, port, before, after)
            plant.connect(at, port)

        return change

    def exchange(name):
        def change(plant):
            node = plant.node(name)
            node.input[0], node.input[1] = node.input[1], node.input[0]

        return change

    passed_on = "gradients/dense_1/MatMul_grad/tuple/control_dependency_1"
    unscale = clipped.read(slot(passed_on, 0))
    assert clipped.view.controls(passed_on) and unscale.node in clipped.unscales
    reader = next(s for s in clipped.readers(unscale) if s.node != passed_on)
    assert rule(lambda plant: plant.connect(reader, port(passed_on, 0))) == equivalence.SAME_VALUES
    assert (
        rule(
            lambda plant: (
                plant.connect(reader, port(passed_on, 0)),
                plant.wait(passed_on, "train"),
            )
        )
        == ""
    )

    lists = [name for name in clipped.packs if len(clipped.elements(name)) > 1]
    assert lists
    for name in lists:
        assert rule(exchange(name)) == equivalence.SAME_VALUES

    at = next(slot(name, 0) for name in clipped.view.nodes if clipped.view.nodes[name].op == "Relu")
    assert rule(through(float16, float32, float16)) == equivalence.SAME_VALUES
    at = slot("Square", 0)
    assert rule(through(float32, float16, float32)) == ""

    def in_float32(op):
        name = next(name for name in clipped.view.nodes if clipped.view.nodes[name].op == op)
        return equivalence.rule(clipped, casts.computed_in(clipped, name, float32).graph)

    assert in_float32("Relu") == in_float32("ReluGrad") == equivalence.SAME_VALUES
    assert in_float32("MatMul") == in_float32("BiasAdd") == ""


@pytest.mark.unit
def test_a_scaled_value_that_nobody_reads(mutate):
    """The gradient of a constant divisor: it is scaled if fetched, and otherwise unused."""

    def build():
        weights = tf.get_variable("w", (12, 1))
        loss = tf.divide(tf.reduce_sum(tf.square(tf.matmul(vectors(), weights))), 3.0, name="loss")
        tf.train.GradientDescentOptimizer(0.1).apply_gradients(
            zip(tf.gradients(loss, [weights]), [weights]), name="train"
        )

    subject = subject_of(mutate, build, compute_dtype="float32", **LOW)
    slot, port = module(mutate, "subject").Slot, module(mutate, "plant").Port
    (seed,) = subject.seeds
    readers = {subject.view.nodes[read.node].op: read for read in subject.readers(port(seed, 0))}
    assert set(readers) == {"RealDiv", "Mul"}

    def rule(read):
        mutated = changed(
            mutate, subject, lambda plant: plant.connect(read, subject.read(slot(seed, 0)))
        )
        return module(mutate, "equivalence").rule(subject, mutated)

    assert rule(readers["Mul"]) == module(mutate, "equivalence").UNSEEN
    assert rule(readers["RealDiv"]) == ""
    subject.converted.collection_def["fetched"].node_list.value.append(readers["Mul"].node + ":0")
    assert rule(readers["Mul"]) == ""


def test_a_merge_waits_for_no_single_input(mutate):
    """The start of a path through a Merge need not have run, but what all its inputs wait for."""
    equivalence = module(mutate, "equivalence")
    graph_def = tf.GraphDef()
    for name, op, inputs in [
        ("a", "Placeholder", []),
        ("p", "Identity", ["a"]),
        ("q", "Neg", ["a"]),
        ("m", "Merge", ["p", "q"]),
        ("r", "Identity", ["m"]),
        ("again", "NextIteration", ["inside"]),
        ("loop", "Merge", ["p", "again"]),
        ("inside", "Neg", ["loop"]),
    ]:
        graph_def.node.add(name=name, op=op, input=inputs)
    view = module(mutate, "subject").GraphView(graph_def)
    implied = [each for each in "apqm" if equivalence._implied(view, "r", each)]
    assert implied == ["a", "m"]
    assert not equivalence._implied(view, "inside", "a"), "by one input alone, and the next"


@pytest.mark.unit
def test_what_nobody_sees_may_run_sooner(mutate, clipped):
    """Its readers, if any, wait for the same; but a gradient divided by the scale is read."""
    equivalence, port = module(mutate, "equivalence"), module(mutate, "plant").Port
    group, float32 = "gradients/dense/MatMul_grad/tuple/group_deps", tf.float32.as_datatype_enum
    (unscale,) = [name for name in clipped.view.control_consumers(group) if name in clipped.own]

    def with_two(plant):
        one = plant.add("one", "Neg", [port(unscale, 0)], T=float32)
        for added in (one, plant.add("other", "Neg", [one], T=float32)):
            plant.wait(added.node, STEP)

    graph = changed(mutate, clipped, with_two)
    subject = module(mutate, "subject").Subject("a test", clipped.original, graph)
    added = [name for name in subject.own if name not in clipped.view.nodes]

    def without(name, other):
        return equivalence.rule(
            subject, changed(mutate, subject, lambda plant: plant.wait_no_longer(name, other))
        )

    def behind(name):
        return equivalence.rule(
            subject, changed(mutate, subject, lambda plant: plant.wait(name, INITIALISER))
        )

    assert [without(name, STEP) for name in added] == [equivalence.IMPLIED] * 2
    assert without(unscale, group) == ""
    one, other = added
    assert (behind(one), behind(other)) == ("", equivalence.IMPLIED), "the first is read"


def test_a_node_may_be_alive_where_what_follows_is_dead_by_others(mutate):
    """Of four flags in a branch, each waits for a gradient there; a clip waits for all of them."""
    subject = subject_of(
        mutate, applied_in_a_branch, loss_scale="dynamic", clip_norm=1.0, compute_dtype="float16"
    )
    equivalence = module(mutate, "equivalence")
    waits = [
        (name, control)
        for name in subject.own
        if name.endswith("/flag")
        for control in subject.view.controls(name)
    ]

    def without(*edges):
        def drop(plant):
            for edge in edges:
                plant.wait_no_longer(*edge)

        return equivalence.rule(subject, changed(mutate, subject, drop))

    assert len(waits) == 4
    assert [without(edge) for edge in waits] == [equivalence.IMPLIED] * 4
    assert without(*waits[:3]) == equivalence.IMPLIED and without(*waits) == ""


@pytest.mark.unit
def test_an_order_that_is_lost_is_missed_without_a_run(mutate, clipped):
    outcomes = judged(
        mutate, clipped, lambda original, converted: True, names=["train_no_longer_waits"], count=8
    )
    assert {(outcome.verdict, outcome.why) for outcome in outcomes} <= {
        (mutate.MISSED, "an order is lost"),
        (mutate.EQUIVALENT, "the same order"),
    }
    multiplied = [
        outcome.verdict
        for outcome in outcomes
        if outcome.what.startswith("train/mul no longer waits")
    ]
    assert multiplied and set(multiplied) == {
        mutate.MISSED
    }  # the beta powers are multiplied after their last use


@pytest.mark.parametrize("precision", [pytest.param("clipped", marks=pytest.mark.slow), "single"])
def test_a_run_tells_a_swapped_gate(mutate, precision, request):
    subject = request.getfixturevalue(precision)
    comparison = mutate.executed.Comparison(subject)
    assert comparison.difference(subject.converted) == ""
    for name in (
        "gate_swapped",
        "gradient_left_out_of_check",
        "backoff_changed",
        "growth_changed",
        "interval_changed",
        "clip_norm_changed",
    ):
        seen = [comparison.difference(mutant.graph) for mutant in planted(mutate, name, subject, 2)]
        assert any(seen), name
    (mutant,) = planted(mutate, "saved_tensors_swapped", subject)
    assert comparison.difference(mutant.graph).startswith("saved")
    (mutant,) = planted(mutate, "collection_dropped", subject)
    assert comparison.difference(mutant.graph) == "collection_def"


def test_a_graph_that_does_not_run_decides_nothing(mutate, clipped, monkeypatch):
    subject = module(mutate, "subject").Subject(
        "a test", clipped.original, clipped.converted, ["train/learning_rate"]
    )
    with pytest.raises(mutate.executed.NotRun, match="change no variable"):
        mutate.executed.Comparison(subject)

    def refuse(subject):
        raise mutate.executed.NotRun("no step was found")

    monkeypatch.setattr(mutate.executed, "Comparison", refuse)
    settings = mutate.Settings(lambda original, converted: True, None, "1", True)
    (mutant,) = planted(mutate, "gate_swapped", clipped)
    outcome = mutate.judged(clipped, mutant, 0, settings, lambda: refuse(clipped))
    assert outcome.verdict == mutate.UNDECIDED and "no step was found" in outcome.why


@pytest.mark.parametrize("check, status, share", [("same", 0, "100.00%"), ("anything", 1, "0.00%")])
def test_the_command(mutate, tmp_path, monkeypatch, capsys, check, status, share):
    (tmp_path / "checks_of_a_test.py").write_text(
        "kept = {}\n"
        "def same(original, converted):\n"
        "    data = converted.SerializeToString(deterministic=True)\n"
        "    return kept.setdefault(id(original), data) == data\n"
        "def anything(original, converted):\n"
        "    return True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = [
        "--subjects=shape/plain/dynamic",
        "--classes=gate_swapped,gate_open",
        "--count=4",
        "--jobs=1",
        "--folder=%s" % (tmp_path / "kept"),
    ]
    arguments.append("--check=checks_of_a_test:" + check)
    assert mutate.main(arguments) == status
    said = capsys.readouterr().out
    assert "gate_open" in said and share in said and "1 of 1 conversions" in said
    lines = [line for line in said.splitlines() if line.startswith("undecided ")]
    assert bool(lines) == bool(status)
    if lines:
        assert mutate.main([*arguments, "--only=" + lines[0].split()[1]]) == 1
        assert capsys.readouterr().out == lines[0] + "\n"


@pytest.mark.unit
def test_a_conversion_that_is_not_proved_is_named(mutate, clipped, monkeypatch):
    monkeypatch.setattr(mutate.subjects, "subject", lambda name, folder: clipped)
    answer = mutate.done(
        mutate.Task("a test", ("gate_swapped",), 0, 1, {}),
        mutate.Settings(lambda *_: False, None, "1", False),
    )
    assert (
        not answer.outcomes and answer.unfit == "the check doesn't hold for the conversion itself"
    )


def test_a_process_that_ends_loses_its_task_alone(mutate, clipped, monkeypatch):
    def check(original, converted):
        os._exit(7) if check.ends else None
        return True

    def subject(name, folder):
        check.ends = name == "ends"
        return clipped

    monkeypatch.setattr(mutate.subjects, "subject", subject)
    tasks = [
        mutate.Task(name, ("gate_swapped",), 0, 1, {}) for name in ("ends", "goes on", "goes on")
    ]
    found = list(mutate.answers(tasks, 2, mutate.Settings(check, None, "1", False)))
    assert sorted(
        (answer.task.subject, len(answer.outcomes), answer.unfit) for answer in found
    ) == [
        ("ends", 0, "this tool failed: its process ended with status 7"),
        ("goes on", 1, ""),
        ("goes on", 1, ""),
    ]


def test_a_mutant_that_ends_its_process_is_missed(mutate, clipped, monkeypatch):
    monkeypatch.setattr(mutate.subjects, "subject", lambda name, folder: clipped)
    monkeypatch.setattr(
        mutate,
        "judged",
        lambda subject, mutant, *_: os._exit(7) if mutant.name == "gate_swapped" else kept(mutant),
    )

    def kept(mutant):
        return mutate.Outcome("s", mutant.name, 0, mutant.what, mutate.CAUGHT, "")

    task = mutate.Task("s", ("gate_open", "gate_swapped", "gate_turned"), 0, 1, {})
    found = list(mutate.answers([task], 2, mutate.Settings(lambda *_: True, None, "1", True)))
    verdicts = {outcome.name: outcome.verdict for answer in found for outcome in answer.outcomes}
    assert verdicts == {
        "gate_open": mutate.CAUGHT,
        "gate_swapped": mutate.MISSED,
        "gate_turned": mutate.CAUGHT,
    }


@pytest.mark.unit
def test_shares(mutate, capsys):
    outcomes = [
        mutate.Outcome("s", "gate_open", n, "w", verdict, "")
        for n, verdict in enumerate([mutate.CAUGHT] * 99 + [mutate.MISSED])
    ]
    assert mutate.report(outcomes, ["gate_open"], {}, ["s"]) == 0
    outcomes[0] = outcomes[0]._replace(verdict=mutate.UNDECIDED)
    assert mutate.report(outcomes, ["gate_open"], {}, ["s"]) == 1
    outcomes[0] = outcomes[0]._replace(verdict=mutate.EQUIVALENT)
    assert "missed s:gate_open:99  w" in capsys.readouterr().out


def outcome(mutate, name, verdict, number=0):
    return mutate.Outcome("shape/a/clip", name, number, "fault %d" % number, verdict, "")


@pytest.mark.unit
def test_what_is_expected_of_a_check(mutate, tmp_path, capsys):
    """A class with holes may have more, but a mutant that was caught must not pass."""
    expected, path = module(mutate, "expected"), tmp_path / "expected.txt"
    path.write_text("# of a test\nbelow gate_open\n")
    before = [
        outcome(mutate, "gate_open", mutate.CAUGHT, 1),
        outcome(mutate, "gate_open", mutate.MISSED, 2),
        outcome(mutate, "gate_swapped", mutate.CAUGHT),
    ]
    expected.write(path, before)
    assert (
        path.read_text() == "# of a test\nbelow gate_open\ncaught shape/a/clip:gate_open  fault 1\n"
    )
    expected.write(path, before)
    known = expected.read(path)

    def status(*outcomes):
        return mutate.report(outcomes, ["gate_open", "gate_swapped"], {}, ["shape/a/clip"], known)

    assert status(*before) == 0
    assert "below 99%, as expected: gate_open" in capsys.readouterr().out
    assert status(outcome(mutate, "gate_open", mutate.UNDECIDED, 3)) == 0
    assert status(outcome(mutate, "gate_open", mutate.EQUIVALENT, 1)) == 0
    assert status(outcome(mutate, "gate_swapped", mutate.UNDECIDED, 3)) == 1
    capsys.readouterr()
    assert status(outcome(mutate, "gate_open", mutate.UNDECIDED, 1)) == 1
    assert "was caught: undecided shape/a/clip:gate_open:1  fault 1" in capsys.readouterr().out


@pytest.mark.unit
@pytest.mark.parametrize("line", ["below", "caught nothing", "anything else", "below a  b"])
def test_a_line_that_says_nothing_is_named(mutate, tmp_path, capsys, line):
    path = tmp_path / "expected.txt"
    path.write_text("# first\n%s\n" % line)
    with pytest.raises(SystemExit, match="2"):
        mutate.main(["--expected=%s" % path])
    assert "line 2: neither" in capsys.readouterr().err


@pytest.mark.unit
def test_what_ci_expects_is_of_classes_that_are_there(mutate):
    """Only classes that aren't held out: a committed file says nothing about the others."""
    expected, known = module(mutate, "expected"), set(mutate.classes.chosen())
    files = sorted((TOOLS / "mutants").glob("expected-*.txt"))
    assert [path.name for path in files] == ["expected-1.15.5.txt", "expected-2.21.txt"]
    for path in files:
        found = expected.read(path)
        assert found.below <= known
        assert {where.rsplit(":", 1)[1] for where, _ in found.caught} <= found.below


@pytest.mark.unit
def test_numbers_alone(mutate, capsys):
    """The faults of held-out classes are not shown."""
    outcomes = [
        outcome(mutate, "gate_open", verdict)
        for verdict in (mutate.CAUGHT, mutate.UNDECIDED, mutate.EQUIVALENT)
    ]
    assert mutate.numbers(outcomes, ["cast", "gate_open"], {}, ["s"]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "class planted caught missed undecided equivalent share",
        "class 1 0 0 0 0 0 -",
        "class 2 3 1 0 1 1 50.00%",
        "all 2 3 1 0 1 1 50.00%",
        "caught 1 of 2, 50.00%",
        "1 of 1 conversions",
        "below 99%: class 2",
    ]
    assert mutate.numbers(outcomes[:1], ["gate_open"], {}, ["s"]) == 0


@pytest.mark.unit
def test_conversions_that_are_not_proved_are_told_apart(mutate, clipped, monkeypatch, capsys):
    """Unproved conversions of the recipe are skipped; those of the rewrite must be proved.

    A named conversion must be usable.
    """
    settings, task = (
        mutate.Settings(lambda *_: False, None, "1", False),
        mutate.Task("a/b/c", ("gate_open",), 0, 1, {}),
    )
    monkeypatch.setattr(mutate.subjects, "subject", lambda name, folder: clipped)
    assert mutate.done(task, settings).unfit == mutate.NOT_PROVED
    monkeypatch.setitem(vars(clipped), "engine", "recipe")
    assert mutate.done(task, settings)[1:3] == ([], mutate.BY_RECIPE)
    assert mutate.report([], ["gate_open"], {"a/b/c": mutate.BY_RECIPE}, ["a/b/c"]) == 0
    assert "0 of 1 conversions; 1 by the recipe are not proved" in capsys.readouterr().out
    assert mutate.report([], ["gate_open"], {"a/b/c": mutate.NOT_PROVED}, ["a/b/c"]) == 1
    assert mutate.report([], ["gate_open"], {"a/b/c": "nothing was put in"}, ["a/b/c"]) == 0
    assert (
        mutate.report(
            [], ["gate_open"], {"a/b/c": "nothing was put in"}, ["a/b/c"], needed=["a/b/c"]
        )
        == 1
    )


@pytest.mark.unit
def test_subjects_are_drawn_from_all_kinds(mutate):
    names = mutate.subjects.chosen()
    kinds = {name.split("/")[0] for name in names}
    assert {"shape", "program", "resource", "gallery", "rewrite"} <= kinds and len(names) > 200
    assert mutate.subjects.chosen(["shape/plain/*"]) == [
        name for name in names if name.startswith("shape/plain/")
    ]
    chosen = random.Random(1).choice(names)
    assert mutate.subjects.chosen([chosen]) == [chosen]
