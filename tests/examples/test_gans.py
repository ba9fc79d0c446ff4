"""The examples with two networks: sizes, fading in, a loss scale for each loss, and the plot."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.gallery import build, path_of

SCALES = ["graphmp/loss_scale", "graphmp/loss_scale_1"]
SCOPES = ["discriminator", "generator"]


def inputs(size, noise):
    return tf.placeholder(tf.float32, [None, size, size, 3], name="images"), tf.placeholder(
        tf.float32, [None, noise], name="noise"
    )


def feed(size, noise):
    random = np.random.RandomState(0)
    return {
        "images:0": random.uniform(-1, 1, (4, size, size, 3)),
        "noise:0": random.normal(size=(4, noise)),
    }


def test_opponents_learn_from_what_the_other_was(module, graph):
    minus, plus = (
        tf.get_variable(name, initializer=value) for name, value in (("minus", 2.0), ("plus", 3.0))
    )
    losses = {"minus": minus * plus, "plus": -minus * plus}
    train_op = module("training").opponents(
        losses, [tf.train.GradientDescentOptimizer(1.0) for _ in losses]
    )
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        assert session.run([minus, plus, tf.train.get_global_step()]) == [-1, 5, 1]


@pytest.mark.unit
def test_a_full_dcgan_is_the_papers(module, graph):
    counts = build(module("dcgan"), *inputs(64, 100), 128, 2e-4, "channels_last")
    kernels = 25 * (3 * 128 + 128 * 256 + 256 * 512 + 512 * 1024)
    generator = 100 * 16 * 1024 + kernels + 3 + 2 * (1024 + 512 + 256 + 128)
    assert counts == {
        "generator": generator,
        "discriminator": kernels + 128 + 2 * (256 + 512 + 1024) + 16 * 1024 + 1,
    }
    strides = [
        tuple(op.get_attr("strides")) for op in graph.get_operations() if op.type == "Conv2D"
    ]
    assert set(strides) == {(1, 2, 2, 1)}


@pytest.mark.unit
def test_a_full_progressive_gan_is_the_papers(module, graph):
    counts = build(module("progressive_gan"), *inputs(128, 512), 100, 512, 1e-3)

    def convolution(size, bottom, top):
        return (size * size * bottom + 1) * top

    blocks = [
        (512, 512),
        (512, 512),
        (512, 512),
        (512, 256),
        (256, 128),
        (128, 64),
    ]  # channels at 4, 8 to 128 pixels of height
    generator = convolution(1, 512, 16 * 512) + sum(
        convolution(3, first, last) for first, last in blocks[1:]
    )
    generator += (
        convolution(3, 512, 512)
        + sum(convolution(3, last, last) for _, last in blocks[1:])
        + convolution(1, 128, 3)
        + convolution(1, 64, 3)
    )
    discriminator = sum(
        convolution(3, last, last) + convolution(3, last, first) for first, last in blocks[1:]
    )
    discriminator += (
        convolution(1, 3, 64)
        + convolution(1, 3, 128)
        + convolution(3, 513, 512)
        + convolution(1, 16 * 512, 512)
        + 513
    )
    assert counts == {"generator": generator, "discriminator": discriminator}


def test_fine_layers_are_faded_in(module, graph):
    example = module("progressive_gan")
    (images, noise), fade = inputs(16, 8), tf.placeholder(tf.float32, [])
    made, score = example.generate(noise, fade, 16, 8), example.discriminate(images, fade, 8)
    coarse = example.doubled(example.halved(made))
    given = feed(16, 8)
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        flat = dict(
            given, **{"images:0": session.run(example.doubled(example.halved(images)), given)}
        )
        for share in (0.0, 0.5, 1.0):
            shown, blurred, of_fine = session.run([made, coarse, score], {**given, fade: share})
            of_coarse = session.run(score, {**flat, fade: share})
            apart = [np.abs(shown - blurred).max(), np.abs(of_fine - of_coarse).max()]
            assert [distance < 1e-6 for distance in apart] == [share == 0] * 2


def test_coarse_images_come_first(module, graph):
    build(module("progressive_gan"), *inputs(8, 4), 10, 4, 1e-3)
    fade, step = graph.get_tensor_by_name("clip_by_value:0"), tf.train.get_global_step()
    with tf.Session(graph=graph) as session:
        found = [session.run(fade, {step: number}) for number in (0, 10, 15, 20, 29)]
    assert found == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-6)


def converted(build, *arguments):
    """The training step of a graph that is rewritten, for fetches by name, and the graph."""
    train_op = build(*arguments)[-1].name
    meta_graph = graphmp.convert(tf.get_default_graph()).meta_graph
    graph = tf.Graph()
    with graph.as_default():
        tf.train.import_meta_graph(meta_graph)
    return train_op, graph


def decorated(build, *arguments):
    """The same for a graph built by the recipe."""
    return graphmp.mixed_precision(engine="recipe")(build)(*arguments)[
        -1
    ].name, tf.get_default_graph()


@pytest.mark.parametrize("way", [converted, decorated])
def test_a_gans_losses_have_independent_scales(way, module, graph):
    train_op, graph = way(
        module("dcgan").build_training_model, *inputs(8, 4), 4, 1e-3, "channels_last"
    )
    with graph.as_default():
        for overflows in range(2):
            assert_one_is_skipped(graph, train_op, overflows)


def assert_one_is_skipped(graph, train_op, overflows):
    """Assert that a step changes nothing for the one of two losses that overflows."""
    with tf.Session(graph=graph, config=graphmp.session_config()) as session:
        session.run(tf.global_variables_initializer())
        variables = {scope: tf.trainable_variables(scope) for scope in SCOPES}
        tf.global_variables(SCALES[overflows] + "/scale")[0].load(2.0**100, session)
        before = session.run(variables)
        session.run(train_op, feed(8, 4))
        after = session.run(variables)
        scales, skipped = session.run(
            [
                [scale + "/current:0" for scale in SCALES],
                [scale + "/skipped_steps:0" for scale in SCALES],
            ]
        )
    changed = [
        any(np.any(one != other) for one, other in zip(before[scope], after[scope]))
        for scope in SCOPES
    ]
    assert (
        skipped == [overflows == number for number in range(2)] == [not moved for moved in changed]
    )
    assert scales[overflows] == 2.0**99 and 1 <= scales[1 - overflows] <= 2.0**15


@pytest.mark.parametrize(
    "argv, flags", [([], []), (["--mixed_precision"], None)], ids=["run", "decorator"]
)
def test_plot_draws_losses_and_scales(argv, flags, forks, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    ended = forks.run(
        path_of("dcgan"),
        "--smoke",
        "--image_size=8",
        "--width=4",
        "--steps=2",
        "--plot=traces.svg",
        *argv,
        flags=flags,
    )
    assert ended.status == 0, ended.err
    picture = (tmp_path / "traces.svg").read_text()
    labels = re.findall("<!-- (.*_loss|graphmp/.*|loss scale) -->", picture)
    assert sorted(labels) == ["discriminator_loss", "generator_loss", *SCALES, "loss scale"]
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("traces")]) == 1


def test_plot_draws_losses_alone_in_float32(forks, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    ended = forks.run(
        path_of("dcgan"),
        "--smoke",
        "--image_size=8",
        "--width=4",
        "--steps=2",
        "--plot=traces.png",
        flags=None,
    )
    assert ended.status == 0, ended.err
    assert (tmp_path / "traces.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.unit
@pytest.mark.parametrize(
    "path, words",
    [
        ("a.bmp", "found a.bmp, accepted are names that end in .png or .svg"),
        ("none/a.png", "found none/a.png, whose folder is not there"),
        ("a.png", "matplotlib, which draws it, is not installed: pip install matplotlib"),
    ],
)
def test_what_cannot_be_drawn_is_said_at_once(path, words, module, tmp_path, monkeypatch, capsys):
    training = module("training")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training.plotting.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["dcgan.py", "--smoke", "--plot=" + path])
    with pytest.raises(SystemExit) as ended:
        training.start("", module("dcgan").SIZES)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("error: argument --plot: %s\n" % words)
