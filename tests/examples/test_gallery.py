"""The examples: each trains in float32 and in mixed precision, converts fully, and is listed."""

from __future__ import annotations

import io
import itertools
import json
import re
import runpy
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.commands import graphmp
from tests.support.gallery import NAMES, build, path_of, pictures
from tests.support.places import EXAMPLES

IMAGES = [name for name in NAMES if "data_format=True" in (EXAMPLES / (name + ".py")).read_text()]
CHANNELS_FIRST = {"dcgan", "vgg"}  # always trained so; the others with --slow
# With --slow only: the others have the same layers, and fewer, or the same parts.
LONG = {
    "alexnet",
    "googlenet",
    "inception_v2",
    "inception_v3",
    "progressive_gan",
    "resnet50",
    "seq2seq",
}
LONG |= {
    "keras_cifar10",
    "char_rnn",
    "conv_seq2seq",
    "dqn",
    "imagenette",
    "sentiment",
    "unet",
    "vae",
    "vgg",
}
# By `graphmp convert`, one of each kind: layers, two losses, matmuls only, Keras, a loop,
# attention, an embedding; all with --slow. `graphmp run` converts the others as well.
CONVERTED = {"vgg", "dcgan", "fully_connected", "keras_cifar10", "lstm", "transformer", "word2vec"}
FEWER = dict.fromkeys(("lstm", "transformer"), "--layers=1")  # if one layer shows the same as two
ENGINES = {
    "vgg": "recipe",
    "lstm": "rewrite",
}  # of `--engine=auto`: graphs built in half precision by the decorator, and left to the session
BY_RECIPE = {  # by `--engine=auto`: those whose conversion by the recipe is proved
    *("alexnet", "dcgan", "dqn", "fully_connected", "googlenet", "imagenette"),
    *("inception_v2", "inception_v3", "resnet50", "unet", "vae", "vgg"),
}
NEWEST = tf.__version__ > "2"
HALF = "bfloat16" if NEWEST else "float16"  # 1.15.5's CPU has no bfloat16 convolutions
CLOSE = (
    0.02 if NEWEST else 0.01
)  # the first three losses: bfloat16 noise in weights changes float32's by 1.2% (Inception v2)
FEW = [] if NEWEST else ["--steps=2"]  # and emulates float16
STEP = re.compile(r"^step +(\d+)((?:  \w*loss \S+)+)$", re.MULTILINE)


def train(forks, name, *argv, flags=None):
    """Train an example at --smoke; return a tuple of its losses by step, and how it ended.

    One loss falls; several, of networks that learn against each other, go up and down.
    """
    ended = forks.run(path_of(name), "--smoke", *argv, flags=flags)
    assert ended.status == 0, ended.err
    return {
        int(step): tuple(float(text) for text in losses.split()[1::2])
        for step, losses in STEP.findall(ended.out)
    }, ended


def assert_learns(losses):
    """Assert that all losses are finite and a single one falls, by the means of thirds."""
    values = np.array(list(losses.values()))
    third = len(values) // 3
    assert np.all(np.isfinite(values)), values
    assert values.shape[1] > 1 or values[-third:].mean() < 0.9 * values[:third].mean(), values


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """The working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("gallery"))
        yield


@pytest.fixture(scope="module", params=NAMES)
def trained(request, forks):
    """An example's name, and the result of its training in float32."""
    if request.param in LONG and not request.config.getoption("--slow"):
        pytest.skip("takes half a minute: run with --slow")
    return request.param, train(forks, request.param, "--log_every=1")


@pytest.fixture
def training(module):
    """The module that the examples share."""
    return module("training")


def test_it_learns_in_float32(trained):
    losses, ended = trained[1]
    assert list(losses) == list(range(1, len(losses) + 1)) and len(losses) >= 20
    assert_learns(losses)
    assert re.search(r"\n\d+\.\d \w+/s\n$", ended.out)


def test_it_trains_alike_in_mixed_precision(trained, forks):
    name, (expected, _) = trained
    losses, ended = train(forks, name, "--log_every=1", *FEW, flags=["--compute_dtype=" + HALF])
    found = np.array(list(losses.values()))
    wanted = np.array([expected[step] for step in losses])
    first = wanted[:3].mean(axis=0)
    assert found[0] == pytest.approx(
        wanted[0], abs=0.01 * np.abs(wanted[0]).max()
    )  # before any update
    assert found[:3].mean(axis=0) == pytest.approx(first, abs=CLOSE * np.abs(first).max())
    assert len(first) > 1 or found.mean() == pytest.approx(wanted.mean(), rel=0.06)
    assert NEWEST is (len(found) == len(expected))
    if NEWEST:
        assert_learns(losses)
    half, every = re.search(
        r"(\d+) of (\d+) matmuls and convolutions in " + HALF, ended.err
    ).groups()
    assert half == every and int(every) > 0


def test_it_converts_whole(trained, built_in_forks, tmp_path, capfd, request):
    name, (losses, _) = trained
    if name not in CONVERTED and not request.config.getoption("--slow"):
        pytest.skip("takes half a minute in all: run with --slow")
    status, out, err = graphmp(
        capfd,
        "convert",
        path_of(name),
        "-o",
        tmp_path / "out",
        "--json",
        "--",
        "--smoke",
        *FEWER.get(name, "").split(),
    )
    report = json.loads(out)
    assert status == 0, err
    assert report["coverage"]["converted_ops"] == report["coverage"]["tensor_core_ops"] > 0
    assert report["variables"]["float32"] == report["variables"]["count"] > 0
    assert [check for check in report["checks"] if check["status"] == "failed"] == []
    assert len(report["losses"]) == len(losses[1])  # each with a scale of its own
    assert report["engine"] == ("recipe" if name in BY_RECIPE else "rewrite")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if NEWEST or name == "lstm" else pytest.mark.slow)
        for name in sorted(ENGINES)
    ],
)
def test_it_trains_by_the_decorator(name, forks):
    losses, _ = train(
        forks,
        name,
        "--mixed_precision",
        "--compute_dtype=" + HALF,
        "--loss_scale=8",
        "--log_every=1",
        *FEW,
    )
    assert np.all(np.isfinite(list(losses.values())))
    if NEWEST:
        assert_learns(losses)


@pytest.mark.skipif(not NEWEST, reason="1.15.5's CPU has no channels-first convolutions")
def test_it_trains_alike_with_channels_first(trained, request, forks):
    name, (expected, _) = trained
    if name not in IMAGES:
        pytest.skip("it has no images")
    if name not in CHANNELS_FIRST and not request.config.getoption("--slow"):
        pytest.skip("takes a minute in all: run with --slow")
    found, _ = train(forks, name, "--steps=2", "--log_every=1", "--data_format=channels_first")
    assert found[1] + found[2] == pytest.approx(expected[1] + expected[2], rel=2e-3)


@pytest.mark.unit
@pytest.mark.parametrize("name", NAMES)
def test_its_help_says_what_it_shows(name, module, monkeypatch, capsys):
    module("training")  # removed again afterwards
    monkeypatch.setattr(sys, "argv", [path_of(name), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(path_of(name), run_name="__main__")
    out = capsys.readouterr().out
    first, _, rest = (EXAMPLES / (name + ".py")).read_text()[3:].partition("\n")
    assert ended.value.code == 0 and first in out
    commands = [
        "python examples/%s.py --smoke",
        "graphmp convert examples/%s.py",
        "graphmp run --compute_dtype=bfloat16 examples/%s.py --smoke",
    ]
    assert all(
        "    %s\n" % (command % name) in rest and command % name in out for command in commands
    )
    assert all(
        flag in out
        for flag in (
            "--smoke",
            "--steps",
            "--batch_size",
            "--seed",
            "--mixed_precision",
            "--compute_dtype",
            "--loss_scale",
        )
    )


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--steps=0"], "argument --steps: found 0, accepted is a number above 0"),
        (["--batch_size=-8"], "argument --batch_size: found -8, accepted is a number above 0"),
        (
            ["--loss_scale=8"],
            "arguments --compute_dtype and --loss_scale: they need --mixed_precision",
        ),
        (
            ["--mixed_precision", "--loss_scale=lots"],
            "GMP002: --loss_scale=lots: accepted are dynamic, none or a positive number that "
            "float32 can hold, from 1.2e-38 to 3.4e+38",
        ),
        (["--width=wide"], "argument --width: invalid int value: 'wide'"),
    ],
)
def test_bad_flags(flags, words, forks):
    ended = forks.run(path_of("lstm"), "--smoke", *flags, flags=None)
    assert (ended.status, ended.out) == (2, "")
    assert re.search(": error:? %s$" % re.escape(words), ended.err.splitlines()[-1])


def test_losses_are_printed_every_so_many_steps_and_repeat_by_the_seed(forks):
    losses, ended = train(forks, "fully_connected", "--steps=8", "--log_every=3")
    assert list(losses) == [1, 3, 6, 8]
    assert len(ended.out.splitlines()) == 5 and "\x1b" not in ended.out
    assert train(forks, "fully_connected", "--steps=8", "--log_every=3")[0] == losses
    others, ended = train(forks, "fully_connected", "--steps=1", "--seed=2")
    assert others[1] != losses[1]
    assert "samples/s" not in ended.out  # the first step doesn't count


@pytest.mark.unit
def test_a_bar_on_a_terminal_only(training, monkeypatch):
    for on_terminal in (True, False):
        out = io.StringIO()
        out.isatty = lambda on_terminal=on_terminal: on_terminal
        monkeypatch.setattr(sys, "stdout", out)
        with training._progress(2) as advance:
            advance()
            advance()
        assert ("training" in out.getvalue()) is on_terminal


def flags_of(training, monkeypatch, sizes, *argv):
    monkeypatch.setattr(sys, "argv", ["example.py", *argv])
    return training._parse_flags("", sizes, data_format=True)


@pytest.mark.unit
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_images_show_their_class(training, monkeypatch, graph, data_format):
    flags = flags_of(
        training,
        monkeypatch,
        training.IMAGENET,
        "--smoke",
        "--batch_size=40",
        "--data_format=" + data_format,
    )
    images, labels = next(training.image_batches(flags))
    assert [images.dtype, labels.dtype] == [np.float32, np.int32] and 1 < np.abs(
        images
    ).max() <= 1.5
    assert [p.dtype for p in training.image_placeholders(flags)] == [tf.float32, tf.int32]
    assert all(
        p.shape.is_compatible_with(a.shape)
        for p, a in zip(training.image_placeholders(flags), (images, labels))
    )
    distances = np.square(images[:, None] - images[None]).sum(axis=(2, 3, 4)) + np.diag(
        np.full(40, np.inf)
    )
    shared = np.array([(labels == label).sum() > 1 for label in labels])
    assert shared.sum() > 20 and np.array_equal(
        labels[distances.argmin(axis=1)][shared], labels[shared]
    )


@pytest.mark.unit
def test_sentences_follow_their_rule(training, monkeypatch):
    sizes = {"batch_size": (8, 8, ""), "steps": (1, 1, ""), "vocabulary": (50, 50, "")}
    flags = flags_of(training, monkeypatch, sizes)
    batches = list(itertools.islice(training.sentences(flags, 30), 20))
    assert all(batch.shape == (8, 30) and batch.dtype == np.int32 for batch in batches)
    tokens = np.concatenate(batches)
    assert tokens.min() == training.FIRST_TOKEN and tokens.max() < 50
    followers = {
        token: set(tokens[:, 1:][tokens[:, :-1] == token]) for token in np.unique(tokens[:, :-1])
    }
    assert max(map(len, followers.values())) == 2 and len(followers) > 10


@pytest.mark.parametrize(
    "depth, total",
    [
        (50, 25557032),
        pytest.param(101, 44549160, marks=pytest.mark.slow),
        pytest.param(152, 60192808, marks=pytest.mark.slow),
    ],
)
def test_a_full_resnet_is_the_papers(depth, total, module, graph):
    assert (
        sum(build(module("resnet50"), *pictures(), 1000, depth, 64, 0.1, "channels_last").values())
        == total
    )
    halves = {
        op.name
        for op in graph.get_operations()
        if op.type == "Conv2D" and op.get_attr("strides")[1] == 2
    }
    assert halves == {"stem/Conv2D"} | {
        "stage%d_block1/%s/Conv2D" % (stage, name)
        for stage in (2, 3, 4)
        for name in ("middle", "project")
    }


@pytest.mark.unit
def test_a_full_vgg_is_the_papers(module, graph):
    assert (
        sum(build(module("vgg"), *pictures(), 1000, 64, 0.1, "channels_last").values()) == 138357544
    )


@pytest.mark.unit
def test_a_full_transformer_has_berts_layers(module, graph):
    tokens, masked = tf.placeholder(tf.int32, [None, 128]), tf.placeholder(tf.bool, [None, 128])
    counts = build(module("transformer"), tokens, masked, 30528, 2, 12, 64, 1e-4)
    assert counts == {
        "embedding": 30528 * 768,
        "positions": 128 * 768,
        "layer0": 7087872,
        "layer1": 7087872,
        "norm": 2 * 768,
        "bias": 30528,
    }


@pytest.mark.unit
def test_the_lstm_loops(module, graph):
    tokens = tf.placeholder(tf.int32, [None, 200])
    build(module("lstm"), tokens, tokens, 50, 2, 8, 1e-3, trains=True)
    kinds = {op.type for op in graph.get_operations()}
    assert {"LoopCond", "StackPushV2", "TensorArrayReadV3"} <= kinds and not {
        "While",
        "StatelessWhile",
    } & kinds
    assert (
        sum(op.type == "MatMul" for op in graph.get_operations()) == 9
    )  # independent of the length


@pytest.mark.unit
def test_the_list_is_complete():
    linked = set(re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text()))
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    folders = {"%s/README.md" % path.parent.name for path in EXAMPLES.glob("*/README.md")}
    assert linked == files | folders


@pytest.mark.unit
@pytest.mark.parametrize("name", NAMES)
def test_it_knows_nothing_of_graphmp_and_is_short(name):
    text = (EXAMPLES / (name + ".py")).read_text()
    assert (
        not re.search("^ *(import|from) graphmp", text, re.MULTILINE)
        and len(text.splitlines()) < 200
    )
