"""The data that `graphmp audit` takes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.audit_command import audited


@pytest.mark.parametrize(
    "data",
    ["--data=data.npz", "--data=feeds.py:generated", "--data=feeds.py:by_step", "--random_data"],
)
def test_each_kind_of_data(folder, capfd, data):
    value = audited(capfd, "good.meta", data)
    assert value["agrees"] is True and value["steps"] == value["measured_steps"] == 2
    assert value["data"] == ("random, seed 0" if data == "--random_data" else data.split("=")[1])


def test_json_has_what_it_is_to_have(folder, capfd):
    value = audited(capfd, "good.meta", "--data=data.npz")
    assert set(value) == {
        "agrees", "arithmetic", "compute_dtype", "data", "disagreeing", "first_not_finite", "flags", "left_out", "losses", "measured_steps",
        "overflowed", "roles", "schema", "seconds", "source", "steps", "tensors", "tolerance",
    }  # fmt: skip
    assert (value["schema"], value["source"], value["compute_dtype"], value["tolerance"]) == (
        "graphmp.audit/1",
        "good.meta",
        "float16",
        0.1,
    )
    assert set(value["losses"][0]) == {
        "advice",
        "converted",
        "difference",
        "loss",
        "original",
        "scales",
        "skipped",
    }
    assert set(value["losses"][0]["advice"]) == {
        "flushed", "flushed_now", "flushed_scaled", "largest", "powers", "scale", "smallest", "unused_above", "used",
    }  # fmt: skip
    assert set(value["roles"]) == {"activation", "activation gradient", "weight gradient", "weight"}
    assert set(value["tensors"][0]) == {
        "counted", "elements", "exponents", "first_exponent_field", "flag", "flushed", "flushed_share", "half", "largest", "name", "not_finite",
        "op", "order", "original_not_finite", "overflow", "overflow_share", "reason", "relative_error", "role", "subnormal", "subnormal_share",
    }  # fmt: skip


def test_the_seed_decides_on_random_data(folder, capfd):
    losses = [
        audited(capfd, "good.meta", "--random_data", "--seed=%d" % seed)["losses"][0]["original"]
        for seed in (1, 1, 2)
    ]
    assert losses[0] == pytest.approx(losses[1]) and losses[0] != pytest.approx(losses[2])


def test_a_checkpoint_is_where_it_starts(folder, capfd, files):
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        saver = tf.train.import_meta_graph(files["good.meta"])
        session.run(
            [variable.assign(tf.zeros_like(variable)) for variable in tf.global_variables()]
        )
        saver.save(session, "./zeros", write_meta_graph=False)
    value = audited(capfd, "good.meta", "--data=data.npz", "--checkpoint=zeros")
    assert value["losses"][0]["original"][0] == pytest.approx(np.log(10))


def test_conversion_flags_are_taken(folder, capfd):
    value = audited(
        capfd,
        "good.meta",
        "--data=data.npz",
        "--compute_dtype=bfloat16",
        "--loss_scale=256",
        "--keep_float32=^before/MatMul$",
    )
    assert value["compute_dtype"] == "bfloat16" and value["losses"][0]["scales"] == [256.0, 256.0]
    tensors = {row["name"]: row for row in value["tensors"]}
    assert (
        tensors["before/MatMul"]["half"] is False
        and tensors["before/MatMul"]["reason"] == "user rule: --keep_float32=^before/MatMul$"
    )
    assert tensors["after/MatMul"]["half"] is True
