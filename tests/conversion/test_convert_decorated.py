"""`graphmp convert` on a script that decorates its functions itself.

It converts their float32 graph by its own flags, and says so.
"""

from __future__ import annotations

import json

import pytest

from tests.support.commands import graphmp

SCRIPT = """
import graphmp
import tensorflow.compat.v1 as tf

@graphmp.mixed_precision(%s)
def %s(x):
    return tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [4, 4]))))

tf.disable_v2_behavior() if tf.__version__ > "2" else None
tf.train.GradientDescentOptimizer(0.1).minimize(%s(tf.placeholder(tf.float32, [8, 4])))
"""


@pytest.mark.parametrize(
    "options, flags, words",
    [
        (
            "loss_scale=128.0, clip_norm=5.0",
            ["--loss_scale=128"],
            "is decorated with --clip_norm=5, and a conversion goes by its own flags",
        ),
        ("loss_scale=128.0", ["--loss_scale=128"], ""),
        (
            "loss_scale=lambda step: 2.0",
            [],
            "is decorated with a loss scale that is a tensor or function",
        ),
    ],
)
def test_a_decorated_function_of_any_name(
    built_in_forks, capfd, tmp_path, monkeypatch, options, flags, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(SCRIPT % (options, "make_net", "make_net"))
    status, out, err = graphmp(capfd, "convert", "net.py", *flags)
    assert status == 0, err
    assert "engine       rewrite" in out and "3 of 3 matmuls" in out
    warnings = json.loads((tmp_path / "net_graphmp" / "report.json").read_text())["warnings"]
    assert [(row["code"], row["node"]) for row in warnings] == (
        [("GMP123", "make_net")] if words else []
    )
    assert ("warning      GMP123 make_net %s" % words in out) == bool(words)


def test_a_decorated_build_function_goes_by_the_recipe(
    built_in_forks, capfd, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        SCRIPT % ("clip_norm=5.0", "build_training_model", "build_training_model")
    )
    status, out, err = graphmp(capfd, "convert", "net.py")
    assert status == 0, err
    assert (
        "engine       recipe" in out
        and "GMP123 build_training_model is decorated with --clip_norm=5, and" in out
    )
