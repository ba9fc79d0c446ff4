"""Hints for scripts that end with an error which a newer library caused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import unfit

NEW = int(np.__version__.split(".")[0]) >= 2
SCRIPT = """
    import numpy as np
    import tensorflow as tf
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.Variable(np.sqrt(0.5) * np.ones((4, 2), np.float32))
    tf.matmul(x, w)
"""


@pytest.mark.unit
@pytest.mark.parametrize(
    "error, hinted",
    [
        (TypeError("Input 'b' has type float64 that does not match type float32 of 'a'"), True),
        (ValueError("x.dtype=<dtype: 'float32'> and rate.dtype=<dtype: 'float64'>"), True),
        (TypeError("expected float32, got int64; float32 is needed"), False),
        (TypeError("float64 is not float64"), False),
        (KeyError("float64 and float32"), False),
    ],
)
def test_which_errors_numpy_may_have_caused(error, hinted):
    assert bool(unfit.promoted(error)) == (hinted and NEW)


@pytest.mark.unit
@pytest.mark.skipif(hasattr(tf, "estimator"), reason="there are Estimators here")
def test_modules_of_estimators_under_their_names_of_tensorflow_1():
    error = ImportError("cannot import name 'tpu_config' from 'x'", name="tensorflow.python.tpu")
    found = str(unfit.without_estimator(error, "train.py:3"))
    assert found.startswith("GMP026: train.py:3: ") and "pip install tensorflow-estimator" in found
    other = ImportError("cannot import name 'tpus' from 'x'", name="tensorflow.python.tpu")
    assert unfit.without_estimator(other, "train.py:3") is None


@pytest.mark.unit
def test_a_number_of_an_array():
    error = TypeError("only 0-dimensional arrays can be converted to Python scalars")
    assert unfit.promoted(error).endswith("pip install 'numpy<2.4'")
    stored = ValueError("setting an array element with a sequence.")
    assert unfit.promoted(stored) == ""
    stored.__cause__ = error
    assert unfit.promoted(stored).endswith("pip install 'numpy<2.4'")
    assert unfit.promoted(TypeError("only size-1 arrays can be converted")) == ""


@pytest.mark.unit
def test_older_versions_of_numpy(monkeypatch):
    error = TypeError("float64 and float32")
    monkeypatch.setattr(np, "__version__", "1.26.4")
    assert unfit.promoted(error) == ""
    monkeypatch.setattr(np, "__version__", "2.0.0")
    assert unfit.promoted(error).endswith("pip install 'numpy<2'")


@pytest.mark.skipif(not NEW or tf.VERSION < "2", reason="NumPy 1 makes float32 of it")
def test_a_script_says_it_once(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("".join(line[4:] + "\n" for line in SCRIPT.splitlines()))
    ended = forks.run("train.py")
    assert ended.status == 1
    assert ended.err.count("pip install 'numpy<2'") == 1


@pytest.mark.skipif(tf.VERSION < "2", reason="TensorFlow 1 has all names")
def test_a_script_that_lists_names_of_contrib(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "from tensorflow.contrib import distributions as all_of\n{name: 1 for name in dir(all_of)}"
    )
    for name, hints in ("Normal", 0), ("Binomial", 1):
        (tmp_path / "train.py").write_text("%s[%r]\n" % (script, name))
        ended = forks.run("train.py")
        assert ended.status == hints
        assert ended.err.count("the script listed the names of tf.contrib.distributions") == hints
