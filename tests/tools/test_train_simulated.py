"""tools/train_simulated.py with a fake training program: its input, and the use of its output."""

import json
import shutil

import pytest

from graphmp.gate.reading import read_graph
from graphmp.policy.dtypes import HALF
from tests.support.places import DATA, TOOLS

ALIKE = {
    "run": "ok",
    "converted": "ok",
    "finite": [True, True],
    "variables": 4,
    "cosine": [0.5, 0.995],
}
PROGRAM = """
import shutil, sys
for path in sys.argv[1:3]:
    shutil.copy(path, %r)
print(%r)
"""


@pytest.fixture
def train_simulated(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import train_simulated

    return train_simulated


def test_half_precision_is_simulated_and_peers_lower_what_is_asked(
    train_simulated, tmp_path, capsys
):
    program, peer = tmp_path / "pretends.py", tmp_path / "peer.jsonl"
    program.write_text(PROGRAM % (str(tmp_path), json.dumps(ALIKE)))
    peer.write_text(json.dumps({"file": "epoch=1.meta", "cosine": 0.9}) + "\n")
    assert (
        train_simulated.main(
            [
                "--train_pair=%s" % program,
                "--peer=%s" % peer,
                str(shutil.copy(DATA / "images.meta", tmp_path / "epoch=1.meta")),
                "loss_scale=dynamic",
            ]
        )
        == 0
    )
    assert (
        capsys.readouterr().out
        == "epoch=1.meta: median cosine 0.9950 of 4 variables, at least 0.8800\n"
    )
    original, converted = (
        read_graph(str(tmp_path / name)).graph_def for name in ("original.meta", "simulated.meta")
    )
    assert not any(node.attr["T"].type in HALF for node in converted.node)
    added = {node.name for node in converted.node} - {node.name for node in original.node}
    assert any(name.endswith("_graphmp_rounded") for name in added) and any(
        "loss_scale" in name for name in added
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "answer, peer, agrees, words",
    [
        (ALIKE, 0.9, True, "at least 0.8800"),
        (
            dict(ALIKE, cosine=[0.1, 0.97]),
            None,
            False,
            "median cosine 0.9700 of 4 variables, at least 0.9800",
        ),
        (dict(ALIKE, finite=[True, False]), None, False, "not finite after training"),
        (
            dict(ALIKE, finite=[False, True]),
            None,
            True,
            "no verdict: the original's variables are not finite after training",
        ),
        (
            dict(ALIKE, converted="ValueError: no"),
            None,
            False,
            "the conversion does not train: ValueError: no",
        ),
        (
            {"run": "no update ops"},
            None,
            True,
            "no verdict: the original can't be trained on made-up batches: no update ops",
        ),
        (None, None, False, "not trained in the time"),
    ],
)
def test_verdicts(train_simulated, answer, peer, agrees, words):
    found, said = train_simulated.verdict(answer, peer)
    assert found is agrees and said.endswith(words)


@pytest.mark.unit
@pytest.mark.parametrize(
    "medians, agrees, words",
    [
        ([0.9], True, "median cosine 0.9000 of 4 variables, at least 0.8800"),
        ([0.5, 0.9, 0.9, 0.9, 0.86], True, "0.8900 of 4 variables, at least 0.8800; the mean of 4"),
        ([0.85, 0.9, 0.85, 0.85, 0.85], False, "the mean of 4 further runs, 0.8500 to 0.9000"),
        ([0.85, 0.9, None, 0.9, 0.9], False, "not trained in the time"),
    ],
)
def test_a_run_below_the_bound_is_replaced_by_the_mean_of_others(
    train_simulated, medians, agrees, words
):
    waiting, asked = list(medians), []

    def train(changed):
        asked.append(changed)
        median = waiting.pop(0)
        return median and dict(ALIKE, cosine=[0.1, median])

    again = [{"loss_scale": scale} for scale in "abcd"]
    found, said = train_simulated.judged(train, again, 0.9)
    assert found is agrees and words in said
    assert asked == [{}, *again][: len(medians)]


@pytest.mark.unit
@pytest.mark.parametrize(
    "median, is_dynamic, agrees, words",
    [
        (0.99, False, True, "no verdict: its gradients need a dynamic scale: median cosine 0.9900"),
        (0.99, True, True, "median cosine 0.9900 of 4 variables, at least 0.9800, in 24 steps"),
        (0.97, False, False, "in few steps"),
        (0.97, True, False, "in few steps"),
        (None, True, False, "in few steps"),
    ],
)
def test_a_pair_that_falls_short_is_trained_longer_with_a_dynamic_scale(
    train_simulated, median, is_dynamic, agrees, words
):
    def train(changed, steps):
        assert (changed, steps) == ({"loss_scale": "dynamic"}, 24)
        return median and dict(ALIKE, cosine=[0.1, median])

    found, said = train_simulated.judged_longer(train, "in few steps", is_dynamic)
    assert found is agrees and said.startswith(words)


@pytest.mark.unit
def test_a_pair_that_falls_short_has_not_passed_if_it_trains_no_longer(train_simulated):
    def train(changed, steps):
        return dict(ALIKE, finite=[False, False])

    assert train_simulated.judged_longer(train, "in few steps", True) == (False, "in few steps")
