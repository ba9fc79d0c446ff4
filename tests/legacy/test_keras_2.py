"""Scripts of standalone Keras 2, on tf-keras, where Keras 3 or none is installed."""

from __future__ import annotations

import sys
import textwrap

import pytest

from graphmp.legacy import unfit, written
from graphmp.legacy.libraries import keras_2

SERVED = keras_2.available()
needs_keras_2 = pytest.mark.skipif(not SERVED, reason="no tf-keras, or Keras 2 itself is installed")

WITH_TENSORFLOW = """
    import numpy as np
    import tensorflow as tf
    from keras import backend as K
    from keras.layers import Dense

    session = tf.Session()
    K.set_session(session)
    assert K.backend() == "tensorflow" and K.tf is tf
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 3])
    logits = Dense(3)(Dense(8, activation="relu")(x))
    loss = tf.losses.softmax_cross_entropy(y, logits)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: np.ones((6, 4)), y: np.eye(3)[[0, 1, 2, 0, 1, 2]]})
"""
OF_KERAS_2 = """
    import keras
    from keras.engine.topology import Layer
    from keras.layers.core import Dense
    from keras.models import Sequential
    from keras.utils import np_utils
    import numpy as np

    class Twice(Layer):
        def call(self, inputs):
            return 2 * inputs

    model = Sequential([Dense(8, input_dim=4), Twice(), Dense(3, activation="softmax")])
    model.compile("adam", "categorical_crossentropy")
    labels = np_utils.to_categorical([0, 1, 2, 0], 3)
    model.fit(np.ones((4, 4), "f"), labels, batch_size=2, epochs=2, verbose=0)
"""
ALIASES = """
    from keras import constraints, initializers, optimizers
    from keras.engine.topology import get_source_inputs
    from keras.layers import Dense
    from keras.models import Input, Model
    import numpy as np

    x = Input((4,))
    kept = dict(kernel_constraint=constraints.maxnorm(2.0), bias_initializer=initializers.one())
    y = Dense(3, activation="softmax")(Dense(8, **kept)(x))
    assert get_source_inputs(y)[0] is x
    model = Model(x, y)
    model.compile(optimizers.adam(lr=1e-3, clipnorm=1.0), "categorical_crossentropy")
    model.fit(np.ones((4, 4), "f"), np.eye(4, 3, dtype="f"), batch_size=1, verbose=0)
    assert optimizers.sgd is optimizers.SGD
"""
OF_KERAS_3 = """
    import keras.backend as K
    K.set_session(None)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Writes a script into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "train.py").write_text(textwrap.dedent(text))
        return "train.py"

    return write


@needs_keras_2
@pytest.mark.parametrize("text, steps", [(WITH_TENSORFLOW, 3), (OF_KERAS_2, 4), (ALIASES, 4)])
def test_a_script_of_keras_2_trains_in_sessions(forks, script, text, steps):
    ended = forks.run(script(text))
    assert ended.status == 0, ended.err[-2000:]
    assert "graphmp: %d training steps" % steps in ended.err
    assert "6 of 6 matmuls and convolutions in float16" in ended.err


@needs_keras_2
def test_a_script_that_fails_on_keras_3_is_told_what_to_do(forks, script):
    ended = forks.run(script(OF_KERAS_3))
    assert ended.status == 1
    assert "AttributeError" in ended.err
    assert "if it is written for Keras 2, --legacy_imports=on runs it on tf-keras" in ended.err


@needs_keras_2
@pytest.mark.unit
@pytest.mark.parametrize(
    "line, needed",
    [
        ("from keras.utils import np_utils", True),
        ("from keras.layers.core import Dense", True),
        ("from keras.backend.tensorflow_backend import set_session", True),
        ("import keras.objectives", True),
        ("from keras.layers import Dense", False),
    ],
)
def test_modules_that_only_keras_2_has_ask_for_tensorflow_1(tmp_path, line, needed):
    (tmp_path / "train.py").write_text(line + "\n")
    facts = written(tmp_path / "train.py")
    assert (facts.needs_version_1, facts.asks_for_version_1) == (needed, needed)


@needs_keras_2
@pytest.mark.unit
def test_hints_for_keras_3():
    error = ImportError("no module named keras.engine")
    assert "--legacy_imports=on" in unfit.newer_keras(error, {"keras", "numpy"})
    assert unfit.newer_keras(error, {"numpy"}) == ""
    assert unfit.newer_keras(KeyError("x"), {"keras"}) == ""
    assert "--legacy_imports=on" in unfit.why_nothing_trained({"keras"}, True, False)


@pytest.mark.unit
def test_an_installed_keras_2_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").write_text("")
    (tmp_path / "Keras-2.3.1.dist-info").mkdir()
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not keras_2.available()
    assert not keras_2.wanted(["keras.utils.np_utils"])
