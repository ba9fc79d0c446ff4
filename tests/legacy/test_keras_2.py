"""Scripts of standalone Keras 2, on tf-keras, where Keras 3 or none is installed."""

from __future__ import annotations

import importlib
import sys
import textwrap

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import unfit, written
from graphmp.legacy.libraries import keras_2, several_gpus

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
INTERNALS = """
    from keras import backend as K
    from keras.backend.tensorflow_backend import is_tensor
    from keras.engine.topology import Container, Layer
    from keras.layers import Deconvolution2D, Dense, Highway, Input
    from keras.legacy import interfaces
    from keras.models import Model
    from keras.optimizers import Optimizer
    from keras.utils.conv_utils import conv_output_length, normalize_tuple
    from keras.utils.generic_utils import func_dump, has_arg, to_list
    import numpy as np

    class Momentum(Optimizer):
        def __init__(self, lr=0.1):
            super().__init__()
            self.lr = K.variable(lr, name="lr")

        @interfaces.legacy_get_updates_support
        def get_updates(self, loss, params):
            moments = [K.zeros(K.get_variable_shape(each)) for each in params]
            self.updates = []
            for each, g, m in zip(params, self.get_gradients(loss, params), moments):
                moved = 0.9 * m - self.lr * g
                self.updates += [K.update(m, moved), K.update(each, each + moved)]
            return self.updates

    x = Input((4,))
    assert is_tensor(K.constant(1.0)) and to_list(2) == [2] and has_arg(to_list, "x")
    model = Model(x, Dense(3, activation="softmax")(Highway(activation="tanh")(x)))
    assert isinstance(model, Container)
    model.compile(Momentum(), "categorical_crossentropy")
    before = model.get_weights()
    model.fit(np.ones((4, 4), "f"), np.eye(4, 3, dtype="f"), batch_size=1, verbose=0)
    assert all((a != b).any() for a, b in zip(before, model.get_weights()))
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
def test_what_modules_inside_of_keras_2_had(forks, script):
    """With an optimizer that assigns by itself."""
    ended = forks.run(script(INTERNALS))
    assert ended.status == 0, ended.err[-2000:]
    assert "graphmp: 4 training steps; loss scale" in ended.err
    assert "9 of 9 matmuls and convolutions in float16" in ended.err


@needs_keras_2
def test_layers_of_keras_1():
    layers = importlib.import_module("graphmp.legacy.libraries.keras_1_layers")
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as session:
        x = random.standard_normal((3, 4)).astype(np.float32)
        highway, maxout = layers.Highway(activation="relu"), layers.MaxoutDense(5, nb_feature=2)
        outputs = [highway(tf.constant(x)), maxout(tf.constant(x))]
        session.run(tf.global_variables_initializer())
        (w, w_carry, b, b_carry), (each, added), (mixed, largest) = session.run(
            [highway.weights, maxout.weights, outputs]
        )
    gate = 1 / (1 + np.exp(-(x @ w_carry + b_carry)))
    np.testing.assert_allclose(
        mixed, gate * np.maximum(x @ w + b, 0) + (1 - gate) * x, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        largest, np.max([x @ each[i] + added[i] for i in range(2)], 0), rtol=1e-5, atol=1e-6
    )


@needs_keras_2
def test_a_model_on_several_gpus(monkeypatch):
    """Soft placement puts them on the CPU. The last part has what is left over."""
    model_on = several_gpus.multi_gpu_model
    with tf.Graph().as_default(), tf.Session(
        config=tf.ConfigProto(allow_soft_placement=True)
    ) as session:
        tf.keras.backend.set_session(session)
        x = tf.keras.Input((4,))
        model = tf.keras.models.Model(x, tf.keras.layers.Dense(3, name="out")(x))
        with pytest.raises(ValueError, match="TensorFlow finds 0"):
            model_on(model, gpus=2)
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["one", "two"])
        for gpus in (None, 2, [1, 0]):
            both = model_on(model, gpus, cpu_relocation=gpus == 2)
            rows = np.arange(20.0, dtype=np.float32).reshape(5, 4)
            if gpus != 2:
                np.testing.assert_allclose(
                    both.predict(rows, batch_size=5), model.predict(rows), rtol=1e-6
                )
            assert {op.device for op in session.graph.get_operations()} >= {"/device:GPU:1"}
            assert both.predict(rows).shape == (5, 3)
        with pytest.raises(ValueError, match="gpus is 3"):
            model_on(model, 3)


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
