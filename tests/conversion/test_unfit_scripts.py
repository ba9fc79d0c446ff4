"""Scripts that aren't for graphmp, and flags that stand in the wrong place.

One line says what it is and what to do.
"""

from __future__ import annotations

import sys

import pytest
import tensorflow.compat.v1 as tf

from graphmp import legacy
from graphmp.cli.misplaced import misplaced
from tests.support.estimator import SERVED

ON_1 = tf.__version__ < "2"
only_2 = pytest.mark.skipif(ON_1, reason="TensorFlow 1 executes graphs")
TAPE = """
import tensorflow as tf
w = tf.Variable([1.0])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(w * w)
w.assign_sub(tape.gradient(loss, w))
print(float(w.numpy()[0]))
"""
ESTIMATOR = """
import tensorflow as tf
tf.estimator.Estimator(None)
"""
WRITTEN = {
    "tape": (TAPE, (False, True)),
    "function": ("import tensorflow as tf\n@tf.function\ndef f(): pass", (False, True)),
    "numpy": ("from tensorflow import constant\nprint(constant(1).numpy())", (False, True)),
    "tape in TensorFlow 1": (
        "import tensorflow as tf\ntf.GradientTape\ntf.train.AdamOptimizer(1.0)",
        (True, False),
    ),
    "session": ("import tensorflow as tf\ntf.Session()", (True, False)),
    "keras": ("import tensorflow as tf\ntf.keras.Sequential()", (True, False)),
    "compat": ("import tensorflow.compat.v1 as tf\ntf.GradientTape", (False, False)),
    "other": ("import torch", (False, False)),
}


@pytest.mark.unit
@only_2
@pytest.mark.parametrize("name", WRITTEN)
def test_which_tensorflow_a_script_is_for(tmp_path, name):
    text, expected = WRITTEN[name]
    (tmp_path / "train.py").write_text(text)
    found = legacy.written(tmp_path / "train.py")
    assert (found.needs_version_1, bool(found.eagerly)) == expected


@only_2
def test_an_eager_script_runs_as_under_python(forks, net_folder):
    (net_folder / "train.py").write_text(TAPE)
    ended = forks.run("train.py")
    assert (ended.status, ended.out) == (0, "-1.0\n")
    assert ended.said[0].startswith(
        "warning GMP120: train.py executes eagerly (train.py:4: tf.GradientTape)"
    )
    assert "mixed_float16" in ended.said[0]


@pytest.mark.skipif(SERVED, reason="there are Estimators here")
def test_estimator(forks, net_folder):
    (net_folder / "train.py").write_text(ESTIMATOR)
    ended = forks.run("train.py")
    assert ended.status == 1
    assert "error GMP026" in ended.said[1]
    assert "pip install tensorflow-estimator==2.15.0" in ended.said[1]


def test_a_flag_behind_the_script(forks, net_folder):
    (net_folder / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    ended = forks.run("train.py", "--compute_dtype=bfloat16", "--batch_size=3")
    assert ended.out == "['--compute_dtype=bfloat16', '--batch_size=3']\n"
    assert (
        ended.said[1]
        == "warning GMP122: --compute_dtype=bfloat16 is handed to train.py; graphmp's flags stand"
        " before the script"
    )
    assert not any("batch_size" in line for line in ended.said)


@pytest.mark.unit
def test_a_flag_that_the_script_or_its_modules_name(tmp_path):
    (tmp_path / "train.py").write_text("flags.DEFINE_string('loss', '')")
    (tmp_path / "options.py").write_text("parser.add_argument('--clip_norm')")
    arguments = ["--loss=mse", "--clip_norm", "5", "--fetch=x"]
    (line,) = misplaced(
        str(tmp_path / "train.py"), arguments, ["loss", "clip_norm", "fetch"], "before `--`"
    )
    assert "--fetch=x is handed to" in line


def test_sessions_that_train_nothing(forks, net_folder):
    (net_folder / "train.py").write_text(
        "from net import *\nbuild()\nwith tf.Session() as s:"
        " s.run(tf.global_variables_initializer())\n"
    )
    ended = forks.run("train.py")
    assert ended.said[1].startswith("warning GMP120: sessions ran, and none of their runs wrote")
    assert ended.said[-1] == "nothing was trained in mixed precision in this process"


def test_a_script_that_leaves_tensorflow_to_its_children(forks, tmp_path):
    """It names TensorFlow in a function that this process does not call."""
    (tmp_path / "train.py").write_text(
        "import multiprocessing\ndef work():\n    import tensorflow\nwork if 0 else None\n"
    )
    ended = forks.run(str(tmp_path / "train.py"))
    assert ended.said[1:] == [
        "warning GMP120: no session ran",
        "nothing was trained in mixed precision in this process",
    ]


@pytest.mark.skipif(sys.version_info < (3, 8), reason="threads have no excepthook before")
def test_a_thread_that_failed_says_itself_why_nothing_was_trained(forks, tmp_path):
    (tmp_path / "train.py").write_text(
        "import threading\nimport tensorflow.compat.v1 as tf\n"
        "with tf.Graph().as_default(), tf.Session() as s: s.run(tf.constant(1))\n"
        "worker = threading.Thread(target=lambda: 1 / 0)\nworker.start()\nworker.join()\n"
    )
    ended = forks.run(str(tmp_path / "train.py"))
    assert "ZeroDivisionError" in ended.err
    assert ended.said[1:] == ["nothing was trained in mixed precision in this process"]


BY_HAND = """
import sys
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior() if tf.__version__ > "2" else None
x = tf.ones((4, 4))
weight = tf.get_variable("weight", (4, 4), use_resource="resource" in sys.argv)
with tf.control_dependencies([weight.assign_sub(tf.matmul(x, weight), name="step")]):
    done = tf.identity(x)
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    s.run(done)
    if "fail" in sys.argv:
        raise KeyError("it")
    if "both" in sys.argv:
        loss = tf.reduce_sum(tf.matmul(x, weight))
        s.run(tf.train.GradientDescentOptimizer(1e-3).minimize(loss))
"""


@pytest.mark.parametrize("argument", ("", "resource", "fail", "both"))
def test_training_by_gradients_that_the_graph_computes_itself(forks, tmp_path, argument):
    (tmp_path / "train.py").write_text(BY_HAND)
    ended = forks.run(str(tmp_path / "train.py"), argument)
    by_hand = [line for line in ended.said if "GMP120" in line]
    if argument == "both":
        assert not by_hand and "1 training step" in ended.said[-1]
        return
    (line,) = by_hand
    assert " updates weight from MatMul, in float32: a graph is converted where" in line
    assert line == ended.said[-1]  # it does not say that nothing was trained
    assert ended.status == (argument == "fail")
