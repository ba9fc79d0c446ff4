"""Collections, signatures, devices, names and the saver survive the rewrite."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.version import __version__
from tests.support import painting
from tests.support.painting import built, chain, converted, decide, nodes, rewrite, verified
from tests.support.places import ROOT
from tests.support.structure import _cond, _loop_with_gradient, _rnn, _trained


def test_everything_else_survives():
    before = built(_trained)
    with tf.Graph().as_default():
        before.saver_def.CopyFrom(
            tf.train.Saver([tf.Variable(1.0, use_resource=False)]).as_saver_def()
        )
    before.signature_def["serving"].outputs["loss"].name = "loss:0"
    before.asset_file_def.add(filename="words.txt")
    after = verified(before, ["loss:0"])
    assert set(after.collection_def) == set(before.collection_def) | {"graphmp"}
    for key in before.collection_def:
        assert after.collection_def[key] == before.collection_def[key], key
    for part in ("meta_info_def", "saver_def", "signature_def", "asset_file_def"):
        assert getattr(after, part) == getattr(before, part), part
    assert after.graph_def.versions == before.graph_def.versions
    assert [f.signature for f in after.graph_def.library.function] == [
        f.signature for f in before.graph_def.library.function
    ]


@pytest.mark.unit
def test_only_contexts_change_among_collections():
    before = built(_loop_with_gradient)
    after = converted(before)
    changed = {
        key
        for key in before.collection_def
        if after.collection_def[key] != before.collection_def[key]
    }
    assert changed == {"while_context"} and set(after.collection_def) - set(
        before.collection_def
    ) == {"graphmp"}


@pytest.mark.unit
def test_the_mark():
    after = converted(chain("xa"), keep_float32=["nothing"])
    found = json.loads(after.collection_def["graphmp"].bytes_list.value[0].decode())
    assert (found["graphmp_version"], found["engine"]) == (__version__, "rewrite")
    assert found["flags"] == Config.make(keep_float32=["nothing"], loss_scale="none").as_flags()


@pytest.mark.unit
def test_no_node_gains_an_attribute():
    """Otherwise a TensorFlow that doesn't know the attribute couldn't load the converted graph."""
    before = chain("xaiad")
    after = converted(before)
    for name, node in nodes(before).items():
        assert set(nodes(after)[name].attr) == set(node.attr)
    assert set(nodes(after)["x0_graphmp_float16"].attr) == {"SrcT", "DstT"}


@pytest.mark.unit
def test_deciding_leaves_the_graph_as_it_is():
    before = chain("xaiad")
    untouched = painting.copy_of(before)
    decide(before)
    assert before == untouched


@pytest.mark.unit
@pytest.mark.parametrize("recorded", [False, True])
def test_rewriting_leaves_its_argument_as_it_is(recorded):
    before = built(_loop_with_gradient) if recorded else chain("xaiad")
    untouched = painting.copy_of(before)
    converted(before)
    assert before == untouched


@pytest.mark.unit
@pytest.mark.parametrize(
    "build", [_trained, _loop_with_gradient, _cond, _rnn], ids=lambda build: build.__name__
)
def test_a_second_rewrite_changes_nothing(build):
    before = built(build)
    assert serialize(converted(before)) == serialize(converted(before))
    once = rewrite(before)
    twice = rewrite(once.meta_graph)
    assert serialize(once.meta_graph) == serialize(twice.meta_graph)
    assert [row["code"] for row in twice.record.warnings] == ["GMP108"] and twice.record.done == []


@pytest.mark.slow
def test_the_same_bytes_in_any_process(tmp_path):
    script = (
        "import tests.support.started, hashlib, sys\n"
        "from tests.support import painting\n"
        "from graphmp.gate.reading import read_graph\n"
        "from graphmp.graph.io.messages import serialize\n"
        "print(hashlib.sha256(serialize(painting.converted(read_graph(sys.argv[1]))))"
        ".hexdigest())\n"
    )
    path = tmp_path / "graph.meta"
    path.write_bytes(serialize(built(_rnn)))
    environment = dict(
        os.environ, PYTHONHASHSEED="1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    )
    command = [sys.executable, "-c", script, str(path)]
    child = subprocess.run(
        command, cwd=str(ROOT), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    here = hashlib.sha256(serialize(converted(read_graph(str(path))))).hexdigest()
    assert child.stdout.decode().split()[-1] == here
