"""SavedModels, as TensorFlow writes them.

One graph or several, binary or text, of sessions and of objects.
"""

from __future__ import annotations

import shutil

import pytest
import tensorflow.compat.v1 as tf
from google.protobuf import text_format

from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io import saved_model
from graphmp.graph.io.messages import serialize
from tests.support.tiny import meta_graph

TINY = meta_graph("x Placeholder dtype=float32", "y Relu x T=float32")
TAGS = {"one": ["serve"], "several": ["train", "serve", "gpu,serve"], "text": ["train", "serve"]}

# Run in a fork: objects are saved while TensorFlow executes eagerly.
OBJECT = """
import sys
import tensorflow.compat.v1 as tf
tf.enable_v2_behavior()

class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones([3, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def __call__(self, x):
        return tf.matmul(x, self.w)

tf.saved_model.save(Model(), sys.argv[1])
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder of SavedModels of one model.

    `one` by simple_save, `several` and `text` by the builder.
    """
    folder = tmp_path_factory.mktemp("exported")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], "x")
        y = tf.layers.dense(x, 2, name="y")
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(y))
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(folder / "one"), {"x": x}, {"y": y})
        for name in ("several", "text"):
            builder = tf.saved_model.Builder(str(folder / name))
            builder.add_meta_graph_and_variables(session, TAGS[name][0].split(","))
            for tags in TAGS[name][1:]:
                builder.add_meta_graph(tags.split(","))
            builder.save(as_text=name == "text")
    return folder


def write(folder, *tagged):
    """A SavedModel of graphs with these tags."""
    message = saved_model.new()
    message.saved_model_schema_version = 1
    for tags, graph in tagged:
        message.meta_graphs.add().CopyFrom(graph)
        message.meta_graphs[-1].meta_info_def.tags.extend(tags)
    (folder / "saved_model.pb").write_bytes(message.SerializeToString())
    return message


def refusal(path, tag=""):
    with pytest.raises(GraphmpError) as caught:
        read_graph(path, tag)
    assert "\n" not in str(caught.value)
    assert str(path) in caught.value.message
    assert caught.value.exit_status == BAD_INPUT
    return caught.value


@pytest.mark.parametrize(
    "name, tags", [(name, tags) for name in sorted(TAGS) for tags in TAGS[name]]
)
def test_graph_of_each_tag_set(exported, name, tags):
    with tf.Graph().as_default(), tf.Session() as session:
        expected = tf.saved_model.load(session, tags.split(","), str(exported / name))
    read = read_graph(exported / name, tags)
    assert sorted(read.meta_info_def.tags) == tags.split(",")
    assert serialize(read) == serialize(expected)
    (file,) = (exported / name).glob("saved_model.*")
    assert serialize(read_graph(file, tags)) == serialize(read)


def test_one_graph_needs_no_tag(exported, tmp_path):
    assert serialize(read_graph(exported / "one")) == serialize(
        read_graph(exported / "one", "serve")
    )
    shutil.copy(str(exported / "one" / "saved_model.pb"), str(tmp_path / "renamed.meta"))
    assert serialize(read_graph(tmp_path / "renamed.meta")) == serialize(
        read_graph(exported / "one")
    )


@pytest.mark.parametrize("tags", ["serve,gpu", "gpu,serve", " serve , gpu ", "serve,gpu,serve,"])
def test_tags_are_a_set(exported, tags):
    assert serialize(read_graph(exported / "several", tags)) == serialize(
        read_graph(exported / "several", "gpu,serve")
    )


@pytest.mark.parametrize(
    "name, tag, message",
    [
        (
            "several",
            "",
            (
                "found a SavedModel with 3 graphs; accepted is --tag=gpu,serve or --tag=serve or"
                " --tag=train"
            ),
        ),
        (
            "several",
            ",",
            (
                "found a SavedModel with 3 graphs; accepted is --tag=gpu,serve or --tag=serve or"
                " --tag=train"
            ),
        ),
        (
            "several",
            "gpu",
            (
                "no graph of the SavedModel has the tags --tag=gpu; accepted is --tag=gpu,serve or"
                " --tag=serve or --tag=train"
            ),
        ),
        ("text", "", "found a SavedModel with 2 graphs; accepted is --tag=serve or --tag=train"),
        (
            "text",
            "Train",
            (
                "no graph of the SavedModel has the tags --tag=Train; accepted is --tag=serve or"
                " --tag=train"
            ),
        ),
        (
            "one",
            "train",
            "no graph of the SavedModel has the tags --tag=train; accepted is --tag=serve",
        ),
    ],
)
def test_tags_that_are_missing_or_not_there(exported, name, tag, message):
    error = refusal(exported / name, tag)
    assert error.code == "GMP002"
    assert error.message.endswith(": " + message)


@pytest.mark.unit
@pytest.mark.parametrize("graph", [TINY, TINY.graph_def], ids=["MetaGraphDef", "GraphDef"])
@pytest.mark.parametrize(
    "form",
    [tf.MetaGraphDef.SerializeToString, lambda graph: text_format.MessageToString(graph).encode()],
    ids=["binary", "text"],
)
def test_a_tag_is_for_saved_models(tmp_path, graph, form):
    (tmp_path / "g").write_bytes(form(graph))
    error = refusal(tmp_path / "g", "serve")
    assert error.code == "GMP002"
    assert error.message.endswith(
        ": --tag=serve: found a %s; accepted with a tag is a SavedModel" % type(graph).__name__
    )


@pytest.mark.unit
def test_graphs_without_tags_and_odd_ones(tmp_path):
    write(tmp_path, ([], TINY))
    assert read_graph(tmp_path).graph_def == TINY.graph_def
    assert refusal(tmp_path, "serve").message.endswith("accepted is --tag=''")
    message = write(tmp_path, (["a b"], TINY), ([], TINY))
    assert read_graph(tmp_path) == message.meta_graphs[1]
    assert read_graph(tmp_path, "a b") == message.meta_graphs[0]
    assert refusal(tmp_path, "a").message.endswith("accepted is --tag='' or --tag='a b'")


@pytest.mark.unit
def test_without_a_schema_version(tmp_path):
    message = write(tmp_path, (["serve"], TINY))
    message.saved_model_schema_version = 0
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    assert read_graph(tmp_path) == message.meta_graphs[0]


@pytest.mark.unit
def test_the_binary_file_goes_first_as_in_tensorflow(tmp_path):
    message = write(tmp_path, (["serve"], TINY))
    (tmp_path / "saved_model.pbtxt").write_text("never read")
    assert read_graph(tmp_path) == message.meta_graphs[0]


@pytest.mark.unit
def test_only_the_graph_that_is_taken_must_be_whole(tmp_path):
    write(
        tmp_path,
        (["empty"], tf.MetaGraphDef()),
        (["whole"], TINY),
        (["cyclic"], meta_graph("a NoOp ^b", "b NoOp ^a")),
    )
    assert len(read_graph(tmp_path, "whole").graph_def.node) == 2
    assert "found a graph with no nodes" in refusal(tmp_path, "empty").message
    assert "node a depends on itself" in refusal(tmp_path, "cyclic").message
    assert refusal(tmp_path, "cyclic").code == refusal(tmp_path, "empty").code == "GMP008"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("name", ["one", "text"])
def test_cut_short(exported, tmp_path, name, share):
    (file,) = (exported / name).glob("saved_model.*")
    data = file.read_bytes().rstrip()
    (tmp_path / file.name).write_bytes(data[: int(share * len(data))])
    assert refusal(tmp_path).code == "GMP008"
    assert str(tmp_path / file.name) in refusal(tmp_path).message


def test_saved_model_of_objects(forks, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "saved"
    script.write_text(OBJECT)
    assert forks.run(str(script), str(folder), flags=None).status == 0
    graph = read_graph(folder)
    assert {"VarHandleOp", "StatefulPartitionedCall"} <= {node.op for node in graph.graph_def.node}
    assert "MatMul" in {
        node.op for function in graph.graph_def.library.function for node in function.node_def
    }
    assert list(graph.meta_info_def.tags) == ["serve"]
    assert serialize(read_graph(folder / "saved_model.pb", "serve")) == serialize(graph)
