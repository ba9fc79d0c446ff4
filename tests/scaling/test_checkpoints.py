"""Checkpoints of converted graphs by the graph's own Saver.

Both ways, with and without the scale, and after a kill.
"""

from __future__ import annotations

import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.io.messages import parse
from graphmp.verify import verify
from tests.support import painting
from tests.support.models import TARGETS, VECTORS, two_layers
from tests.support.scaled import changed
from tests.support.training import state
from tests.support.training_graphs import sgd, square, vectors

FEED = {"x:0": VECTORS, "y:0": TARGETS}
SCALE, GOOD, SKIPPED = (
    "graphmp/loss_scale/%s" % name for name in ("scale", "good_steps", "skipped_steps")
)


def built(use_resource=False, names=(), **saver):
    """A graph with a Saver and an init op; `names` are the names of additional variables."""
    with tf.Graph().as_default():
        x, y = (
            tf.placeholder(tf.float32, (None, 12), "x"),
            tf.placeholder(tf.float32, (None, 1), "y"),
        )
        with tf.variable_scope("net", use_resource=use_resource):
            loss = tf.reduce_mean(tf.square(y - two_layers(x)))
        for name in names:
            tf.get_variable(name, [3])
        tf.train.AdamOptimizer(0.01).minimize(loss, name="train")
        tf.global_variables_initializer()
        return tf.train.export_meta_graph(saver_def=tf.train.Saver(**saver).saver_def)


def converted(original, **options):
    return graphmp.convert(original, **options).meta_graph


def run(meta_graph, steps=0, restore=None, save=None):
    """Restores or initialises, trains, saves, by the graph's own Saver; returns all variables."""
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(meta_graph)
        with tf.Session(graph=graph) as sess:
            if restore:
                saver.restore(sess, restore)
            else:
                sess.run("init")
            for _ in range(steps):
                sess.run("train", FEED)
            if save:
                saver.save(sess, save, write_meta_graph=False)
            return state(sess)


def models(values):
    return {
        name: value.tobytes() for name, value in values.items() if not name.startswith("graphmp/")
    }


@pytest.mark.parametrize(
    "use_resource, sharded",
    [(False, False), (True, False), (False, True)],
    ids=["reference", "resource", "sharded"],
)
def test_both_ways_byte_for_byte(use_resource, sharded, tmp_path):
    original = built(use_resource, sharded=sharded)
    mixed = converted(original, loss_scale_initial=64.0, loss_scale_growth_interval=2)
    first = run(original, 2, save=str(tmp_path / "original"))
    second = run(mixed, restore=str(tmp_path / "original"))
    assert models(second) == models(first) and second[SCALE] == 64.0 and second[GOOD] == 0
    third = run(mixed, 3, restore=str(tmp_path / "original"), save=str(tmp_path / "mixed"))
    assert third[SCALE] == 128.0 and third[GOOD] == 1
    again = run(mixed, restore=str(tmp_path / "mixed"))
    assert changed(third, again) == []
    assert models(run(original, restore=str(tmp_path / "mixed"))) == models(third)


@pytest.mark.parametrize(
    "names",
    [["graphm", "graphmp_other", "graphn"], ["graph/loss/good"], ["a" * 40, "graphmo/x", "zz"]],
    ids=str,
)
def test_the_scale_is_found_among_any_names(names, tmp_path):
    """Keys of a checkpoint's index omit the prefix that they share with the previous key."""
    original = built(names=names)
    mixed = converted(original, loss_scale_initial=64.0, loss_scale_growth_interval=2)
    run(original, 1, save=str(tmp_path / "original"))
    assert run(mixed, restore=str(tmp_path / "original"))[SCALE] == 64.0
    run(mixed, 2, save=str(tmp_path / "mixed"))
    assert run(mixed, restore=str(tmp_path / "mixed"))[SCALE] == 128.0


@pytest.mark.unit
def test_changes_to_the_graphs_own_ops_have_their_reasons():
    changes = graphmp.convert(built()).report["changes"]
    reasons = {
        row["node"]: row["reason"]
        for row in changes
        if row["node"] in ("init", "save/SaveV2", "save/restore_all")
    }
    assert sorted(reason.split(" with ")[0] for reason in reasons.values()) == [
        "loss scale state: %s" % done for done in ("initialised", "restored", "saved")
    ]


@pytest.mark.unit
def test_a_save_op_is_left_alone_where_nothing_restores():
    """The rest of its Saver was removed from the graph."""
    original = built()
    original.ClearField("saver_def")
    kept = [n for n in original.graph_def.node if not n.name.startswith("save/restore_all")]
    del original.graph_def.node[:]
    original.graph_def.node.extend(kept)
    done = {row["node"] for row in graphmp.convert(original).report["changes"]}
    assert "init" in done and "save/SaveV2" not in done


@pytest.mark.unit
def test_every_saver_of_a_trained_variable_saves_the_scale_and_no_other():
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        sgd().minimize(square(two_layers(vectors())), name="train")
        weights = tf.trainable_variables()
        for variables in (weights, weights[:1], [step], [step, weights[0]]):
            tf.train.Saver(variables)
        nodes = {node.name: node for node in converted(tf.train.export_meta_graph()).graph_def.node}
    names = [
        tf.make_ndarray(nodes[nodes[scope + "/SaveV2"].input[1]].attr["value"].tensor).tolist()
        for scope in ("save", "save_1", "save_2", "save_3")
    ]
    assert [SCALE.encode() in each for each in names] == [True, True, False, True]


@pytest.mark.unit
def test_the_scale_is_initialised_with_all_trained_variables_and_by_nothing_more():
    """Not by ops that initialise only some, nor by others than groups.

    Nor again by ops that run the init op among others.
    """
    with tf.Graph().as_default():
        loss = tf.reduce_mean(two_layers(tf.placeholder(tf.float32, (None, 12), "x")))
        tf.train.GradientDescentOptimizer(0.01).minimize(loss, name="train")
        for name, number in (("a_part", 1), ("init", 4), ("part", 3)):
            tf.group(
                *[
                    v.initializer
                    for v in sorted(tf.trainable_variables(), key=lambda v: v.op.name)[:number]
                ],
                name=name,
            )
        with tf.control_dependencies([v.initializer for v in tf.trainable_variables()]):
            tf.constant("ready", name="said")
        for name in ("all", "start"):
            tf.group(
                tf.get_default_graph().get_operation_by_name("init"),
                tf.no_op("before_" + name),
                name=name,
            )
        mixed = converted(tf.train.export_meta_graph())
    waits = {
        node.name
        for node in mixed.graph_def.node
        if any(text.startswith("^graphmp/loss_scale/scale/Assign") for text in node.input)
    }
    assert waits == {"init"}


@pytest.mark.parametrize("first", [False, True])
def test_variables_that_a_checkpoint_initialises(first, tmp_path):
    """`init_from_checkpoint` gives some variables a second initialiser; either may be in use."""
    path = str(tmp_path / "pretrained")
    with tf.Graph().as_default(), tf.Session() as session:
        kernel = tf.get_variable("kernel", [12, 1])
        session.run(kernel.initializer)
        tf.train.Saver([kernel]).save(session, path)
    with tf.Graph().as_default():
        x = vectors()
        loss = square(tf.matmul(x, tf.get_variable("kernel", [12, 1])))
        tf.train.AdamOptimizer(0.1).minimize(loss + square(x + tf.get_variable("b", [12])))
        if first:
            tf.global_variables_initializer()
        tf.train.init_from_checkpoint(path, {"kernel": "kernel"})
        if not first:
            tf.global_variables_initializer()
        tf.train.Saver()
        original = tf.train.export_meta_graph()
    converted = graphmp.convert(original).meta_graph
    (init,) = [node for node in converted.graph_def.node if node.name == "init"]
    assert sum(name.startswith("^graphmp/loss_scale/") for name in init.input) == 3
    proof = verify(original, converted)
    assert proof.ok, proof.claims


def test_two_scales(tmp_path):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (None, 12), "x")
        tf.placeholder(tf.float32, (None, 1), "y")
        trains = []
        for name in ("A", "B"):
            with tf.variable_scope(name):
                trains.append(
                    tf.train.AdamOptimizer(0.01).minimize(
                        tf.reduce_mean(two_layers(x)), var_list=tf.trainable_variables(name)
                    )
                )
        tf.group(*trains, name="train")
        tf.global_variables_initializer()
        mixed = converted(
            tf.train.export_meta_graph(saver_def=tf.train.Saver().saver_def),
            loss_scale_initial=64.0,
            loss_scale_growth_interval=2,
        )
    values = run(mixed, 3, save=str(tmp_path / "mixed"))
    assert values[SCALE] == values["graphmp/loss_scale_1/scale"] == 128.0
    assert changed(values, run(mixed, restore=str(tmp_path / "mixed"))) == []


def test_a_graph_without_a_saver_or_an_init_op():
    """The scale initialises itself, and is saved by a Saver made after the import."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (None, 12), "x")
        tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(two_layers(x)), name="train")
        mixed = converted(tf.train.export_meta_graph(), loss_scale_initial=64.0)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(mixed)
        assert {SCALE, GOOD, SKIPPED} <= {v.op.name for v in tf.global_variables()}
        with tf.Session(graph=graph) as sess:
            for variable in tf.global_variables():
                if not variable.op.name.startswith("graphmp/"):
                    sess.run(variable.initializer)
            assert sess.run("graphmp/loss_scale/current:0") == 64.0
            sess.run("train", {"x:0": VECTORS})
            assert [sess.run(name + ":0") for name in (SCALE, GOOD, SKIPPED)] == [64.0, 1, 0]
            sess.run(tf.global_variables_initializer())
            assert sess.run(GOOD + ":0") == 0


@pytest.mark.unit
def test_the_collection_lists_the_scales_state():
    with tf.Graph().as_default():
        tf.train.import_meta_graph(converted(built()))
        assert sorted(v.op.name for v in tf.get_collection("graphmp_loss_scale")) == [
            GOOD,
            SCALE,
            SKIPPED,
        ]


@pytest.mark.parametrize("of_conversion", [False, True])
def test_the_first_format_has_no_scale(of_conversion, tmp_path):
    """Such a checkpoint is one file without an index: TensorFlow wrote them until 0.12."""
    first_format = {"write_version": tf.train.SaverDef.V1}
    original = built(**first_format)
    rewriting = graphmp.convert(
        built(**(first_format if of_conversion else {})),
        loss_scale_initial=64.0,
        loss_scale_growth_interval=2,
    )
    mixed = rewriting.meta_graph
    first = run(mixed if of_conversion else original, 2, save=str(tmp_path / "first"))
    assert not (tmp_path / "first.index").exists()
    second = run(mixed, restore=str(tmp_path / "first"))
    assert models(second) == models(first) and second[SCALE] == 64.0
    run(mixed, 2, save=str(tmp_path / "second"))
    assert run(mixed, restore=str(tmp_path / "second"))[SCALE] == (64.0 if of_conversion else 128.0)
    said = [row["node"] for row in rewriting.report["warnings"] if row["code"] == "GMP126"]
    assert said == (["save/save"] if of_conversion else [])
    assert not of_conversion or verify(original, mixed).ok


def test_restore_of_a_float32_checkpoint_by_a_new_saver(tmp_path):
    original = built()
    run(original, 1, save=str(tmp_path / "original"))
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted(original))
        with tf.Session(graph=graph) as sess:
            assert sorted(graphmp.restore(tf.train.Saver(), sess, str(tmp_path / "original"))) == [
                GOOD,
                SCALE,
                SKIPPED,
            ]
            assert sess.run("graphmp/loss_scale/current:0") == 2.0**15


def test_restore_looks_through_all_shards_of_a_new_saver(tmp_path):
    """A sharded Saver restores the scale, whose device has another name, by an op of its own."""
    original = built()
    for node in original.graph_def.node:
        node.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    run(original, 1, save=str(tmp_path / "original"))
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted(original))
        saver = tf.train.Saver(sharded=True)
        assert sum(op.type == "RestoreV2" for op in graph.get_operations()) > 2
        with tf.Session(graph=graph) as sess:
            missing = graphmp.restore(saver, sess, str(tmp_path / "original"))
    assert sorted(missing) == [GOOD, SCALE, SKIPPED]


SCRIPT = """
import os, sys
import numpy as np
import tensorflow.compat.v1 as tf
from tests.support.models import TARGETS, VECTORS
FEED = {"x:0": VECTORS, "y:0": TARGETS}
meta, folder = sys.argv[1:]
with tf.Graph().as_default():
    tf.train.import_meta_graph(meta)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=folder, save_checkpoint_steps=2, save_checkpoint_secs=None
    ) as sess:
        for step in range(100):
            feed = dict(FEED, **{"x:0": FEED["x:0"] * (np.inf if step == 2 else 1)})
            _, count = sess.run(["train", "global_step:0"], feed)
            print(count, flush=True)
            if step == 8:
                os.kill(os.getpid(), 9)
"""


def test_killed_and_restored(forks, tmp_path):
    """MonitoredTrainingSession saves and restores by the graph's own Saver, which is kept."""
    with tf.Graph().as_default():
        x, y = (
            tf.placeholder(tf.float32, (None, 12), "x"),
            tf.placeholder(tf.float32, (None, 1), "y"),
        )
        loss = tf.reduce_mean(tf.square(y - two_layers(x)))
        step = tf.train.get_or_create_global_step()
        tf.train.AdamOptimizer(0.01).minimize(loss, step, name="train")
        tf.global_variables_initializer()
        saver = tf.train.Saver()
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        mixed = converted(
            tf.train.export_meta_graph(saver_def=saver.saver_def),
            loss_scale_initial=64.0,
            loss_scale_growth_interval=3,
        )
    (tmp_path / "mixed.meta").write_bytes(mixed.SerializeToString())
    folder, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = forks.run(str(script), str(tmp_path / "mixed.meta"), str(folder), flags=None)
    assert done.status == -signal.SIGKILL and done.out.split()[-1] == "8"
    path = tf.train.latest_checkpoint(str(folder))
    reader = tf.train.NewCheckpointReader(path)
    saved = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    assert saved[SKIPPED] == 1 and saved[SCALE] == 64.0 * 0.5 * 2 * 2
    with tf.Graph().as_default():
        tf.train.import_meta_graph(mixed)
        names = [v.op.name for v in tf.global_variables()]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder)) as sess:
            found = dict(zip(names, sess.run([name + ":0" for name in names])))
    assert sorted(names) == sorted(saved)
    assert [
        name
        for name in names
        if np.asarray(found[name]).tobytes() != np.asarray(saved[name]).tobytes()
    ] == []


def one_weight():
    w = tf.get_variable("w", (12, 1))
    sgd().minimize(square(tf.matmul(vectors(), w)), name="train")


@pytest.mark.unit
def test_a_graph_without_a_collection_of_variables_is_given_none():
    """A Saver that is made later would save the scale alone."""
    bare = tf.MetaGraphDef()
    bare.graph_def.CopyFrom(painting.built(one_weight).graph_def)
    assert tf.GraphKeys.GLOBAL_VARIABLES not in converted(bare).collection_def


@pytest.mark.unit
def test_variables_whose_definitions_name_no_initialiser_are_trained():
    meta_graph = painting.built(one_weight)
    for collection in meta_graph.collection_def.values():
        for number, data in enumerate(collection.bytes_list.value):
            definition = parse("tensorflow.VariableDef", data)
            definition.initializer_name = ""
            collection.bytes_list.value[number] = definition.SerializeToString()
    (loss,) = graphmp.convert(meta_graph).report["losses"]
    assert loss["scale"]
