"""Conversions and the results of their proofs."""

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.verify import verify


def converted(original, **flags):
    """The rewrite's conversion of a graph."""
    found = rewrite(original, Config.make(**flags), Policy.default("float16")).meta_graph
    return found.parsed() if hasattr(found, "parsed") else found


def open_claims(original, other, expected=None):
    """The claims about a conversion that failed or could not be proved, by name."""
    return {
        claim.name: claim.text
        for claim in verify(original, other, expected).claims
        if claim.verdict in ("failed", "not proved")
    }


def by_recipe(model, **options):
    """The graph of a model without the recipe and by it, given its decorated build function."""
    return tuple(
        _graph(model, decorate)
        for decorate in (lambda build: build, graphmp.mixed_precision(**options))
    )


def _graph(model, decorate):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        model(decorate)
        return tf.train.export_meta_graph()
