"""Names of tf.contrib that nothing serves: errors at their use, not at their import."""

from __future__ import annotations

import re
from typing import List

import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.skipif(
    tf.VERSION.startswith("1."), reason="TensorFlow 1 has all of contrib"
)
# No one has asked for these: kafka and ignite are data sources, tensor_forest wants kernels.
UNUSED = """
import tensorflow as tf
from tensorflow.contrib.tensor_forest import Forest
from tensorflow.contrib.tensor_forest.python import tensor_forest
import tensorflow.contrib.kafka.python.ops as kafka_ops
from tensorflow.contrib import ignite
KINDS = {"forest": tf.contrib.tensor_forest.Forest, "other": None}
class Settings:
    kind = tf.contrib.kafka.KafkaDataset
def later():
    from tensorflow.contrib.kafka import KafkaDataset
    import tensorflow.contrib.ignite.python.ops.ignite_dataset as dataset
    return KafkaDataset, dataset
"""
USES = {
    "called": ("Forest(3)", "tensor_forest.Forest"),
    "subclassed": ("class Mine(Forest): pass", "tensor_forest.Forest"),
    "read": ("Forest.trees", "tensor_forest.Forest"),
    "its class asked": ("isinstance(3, Forest)", "tensor_forest.Forest"),
    "added": ("Forest + 1", "tensor_forest.Forest"),
    "printed": ("print(Forest)", "tensor_forest.Forest"),
    "called out of a table": ("KINDS['forest']()", "tensor_forest.Forest"),
    "called out of a class": ("Settings.kind()", "kafka.KafkaDataset"),
    "called in a module": (
        "tensor_forest.build(3)",
        "tensor_forest.python.tensor_forest",
    ),
    "called in a package": ("ignite.IgniteDataset()", "ignite.IgniteDataset"),
    "called by its path": ("kafka_ops.kafka_op_loader.load()", "kafka.python.ops.kafka_op_loader"),
    "read in a function": ("(lambda: ignite.Dataset)()", "ignite.Dataset"),
    "called after a late import": ("later()[0]('topic')", "kafka.KafkaDataset"),
}
PREPARED = """
import tensorflow as tf
try:
    from tensorflow.contrib.kafka import KafkaDataset
except ImportError:
    print("no dataset")
try:
    import tensorflow.contrib.ignite.python.ops as ops
except (ImportError, ValueError):
    print("no ops")
try:
    import needing
except Exception:
    print("no module")
try:
    Forest = tf.contrib.tensor_forest.Forest
except AttributeError:
    print("no forest")
print(hasattr(tf.contrib.kafka, "KafkaDataset"), getattr(tf.contrib.kafka, "nothing", 5))
"""
NEEDING = "from tensorflow.contrib.tensor_forest import Forest\n"


@pytest.fixture
def ran(forks, tmp_path, monkeypatch):
    """Runs a script under graphmp run."""
    monkeypatch.chdir(tmp_path)

    def run(script: str, mode: str = "on"):
        (tmp_path / "train.py").write_text(script)
        return forks.run("train.py", flags=["--legacy_imports=" + mode])

    return run


def errors(ended) -> List[str]:
    """The lines that graphmp printed as errors."""
    return [line for line in ended.said if line.startswith("error")]


def test_what_is_not_used_stops_nothing(ran):
    ended = ran(UNUSED + "later()\nprint('ran', hash(Forest) is not None)\n")
    assert (ended.out, errors(ended)) == ("ran True\n", [])


def test_a_use_is_an_error_with_its_line(ran):
    ended = ran(UNUSED + "\nForest(3)\n")
    line = len(UNUSED.splitlines()) + 2
    (error,) = errors(ended)
    assert ended.status == 1 and not ended.out
    assert re.match(r"error GMP018: \S*train.py:%d: tf.contrib.tensor_forest.Forest" % line, error)
    assert "Traceback" not in ended.err


def test_every_use_is_an_error_with_its_line(ran):
    script, lines = UNUSED, {}
    for number, (name, (statement, _)) in enumerate(USES.items()):
        script += "def use_%d():\n    %s\n" % (number, statement)
        lines[name] = len(script.splitlines())
    script += (
        "for number in range(%d):\n    try:\n        globals()['use_%%d' %% number]()\n" % len(USES)
    )
    script += "    except Exception as error:\n        print(error)\n"
    found = ran(script).out.splitlines()
    for (name, (_, symbol)), text in zip(USES.items(), found):
        assert re.match(r"GMP018: \S*train.py:%d: tf.contrib.%s" % (lines[name], symbol), text), (
            name
        )
    assert len(found) == len(USES)


@pytest.mark.parametrize(
    "statement",
    ["from tensorflow.contrib.kafka import KafkaDataset", "x = tf.contrib.kafka.KafkaDataset"],
)
def test_strict_stops_at_the_import(ran, statement):
    script = "import tensorflow as tf\n%s\ntf.Session\n" % statement
    (error,) = errors(ran(script, "strict"))
    assert re.match(r"error GMP018: \S*train.py:2: tf.contrib.kafka.KafkaDataset", error)


def test_a_script_that_is_prepared_gets_the_error_at_once(ran, tmp_path):
    (tmp_path / "needing.py").write_text(NEEDING)
    ended = ran(PREPARED)
    assert ended.out.splitlines() == [
        "no dataset",
        "no ops",
        "no module",
        "no forest",
        "False 5",
    ], ended.err
