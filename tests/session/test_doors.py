"""The methods of TensorFlow that are wrapped: arguments may be given by TensorFlow's names."""

from __future__ import annotations

import inspect

import pytest
import tensorflow.compat.v1 as tf

from graphmp.session.live import runs
from graphmp.tf_hooks import internals, sessions

pytestmark = pytest.mark.unit

WRAPPED = [
    *(
        (runs._DOORS, internals.base_session(), name)
        for name in ("run", "make_callable", "partial_run_setup", "_make_callable_from_options")
    ),
    (runs._DOORS, tf.train.Saver, "save"),
    (runs._DOORS, tf.train.Saver, "restore"),
    *(
        (sessions._Doors(print), internals.base_session(), name)
        for name in ("run", "partial_run", "make_callable", "_make_callable_from_options")
    ),
]


@pytest.mark.parametrize("doors, owner, name", WRAPPED)
def test_parameters_have_the_names_of_tensorflow(doors, owner, name):
    original = inspect.unwrap(getattr(owner, name))
    ours = list(inspect.signature(getattr(doors, name.lstrip("_"))).parameters)
    theirs = list(inspect.signature(original).parameters)
    given = [each for each in ours[1:] if each not in ("args", "kwargs")]
    assert given[1:] == theirs[1 : len(given)]
