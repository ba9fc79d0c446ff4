"""The optimizers of TensorFlow 1, and a hand-written one."""

from __future__ import annotations

import itertools
from typing import Any, Iterator

import pytest
import tensorflow.compat.v1 as tf

from tests.support.hand_written import AdamWeightDecay

OPTIMIZERS = {
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.01),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    "Nesterov": lambda: tf.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True),
    "Adam": lambda: tf.train.AdamOptimizer(0.01),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.01),
    "CentredRMSProp": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.01),
    "AdagradDA": lambda: tf.train.AdagradDAOptimizer(0.01, tf.train.get_or_create_global_step()),
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(0.01),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.01),
    "ProximalGradientDescent": lambda: tf.train.ProximalGradientDescentOptimizer(0.01),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.01),
    "AdamWeightDecay": lambda: AdamWeightDecay(0.01),
}
VARIANTS = {
    "CentredRMSProp",
    "Nesterov",
    "ProximalAdagrad",
    "ProximalGradientDescent",
}  # of others; they differ in their kernels only
GRADIENTS_ALL_DENSE = {"AdamWeightDecay"}  # its arithmetic doesn't support IndexedSlices
TAKE_NO_STEP = {"AdamWeightDecay"}  # leaves global_step to its caller, as BERT's does


def _kinds(one: bool) -> Iterator[Any]:
    """Optimizer, sparse gradients, resource variables: two of an optimizer's four kinds.

    The others run with --slow. `one`: always one kind, and none of VARIANTS.
    """
    for (number, optimizer), sparse, use_resource in itertools.product(
        enumerate(sorted(OPTIMIZERS)), (False, True), (False, True)
    ):
        if sparse and optimizer in GRADIENTS_ALL_DENSE:
            continue
        name = "%s-%s-%s" % (
            optimizer,
            "sparse" if sparse else "dense",
            "resource" if use_resource else "reference",
        )
        always = (sparse == use_resource) != bool(number % 2) and not (
            one and (sparse != bool(number // 2 % 2) or optimizer in VARIANTS)
        )
        yield pytest.param(
            optimizer, sparse, use_resource, id=name, marks=[] if always else pytest.mark.slow
        )


KINDS = list(_kinds(one=False))
ONE_KIND_EACH = list(
    _kinds(one=True)
)  # for tests that treat the updates of an optimizer as a whole
