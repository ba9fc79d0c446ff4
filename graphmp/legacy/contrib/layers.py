"""Functions of `tf.contrib.layers` that tf-slim lacks: embeddings of sequences.

Missing: the feature columns, which `tf.feature_column` replaced with other arguments and variables.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

__all__ = ["bow_encoder", "embed_sequence", "embedding_lookup_unique"]


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: Optional[str] = None
) -> tf.Tensor:
    """`tf.nn.embedding_lookup` that looks each distinct id up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        unique, positions = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.nn.embedding_lookup(params, unique, partition_strategy)
        embedded = tf.reshape(
            tf.gather(rows, positions), tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0)
        )
        embedded.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return embedded


def embed_sequence(
    ids: Any,
    vocab_size: Optional[int] = None,
    embed_dim: Optional[int] = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Optional[bool] = None,
) -> tf.Tensor:
    """Map ids of shape [batch, length] to embeddings of shape [batch, length, embed_dim].

    The variable is `EmbedSequence/embeddings`.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. Got %s and %s"
            % (vocab_size, embed_dim)
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        embeddings = _embeddings(shape, initializer, regularizer, trainable)
        return (
            embedding_lookup_unique(embeddings, ids)
            if unique
            else tf.nn.embedding_lookup(embeddings, ids)
        )


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Optional[bool] = None,
) -> tf.Tensor:
    """The mean of the embeddings of a sequence's ids, shape [batch, embed_dim].

    The variable is `bow_encoder/embeddings`. With `sparse_lookup`, ids of 0 are padding in a dense
    `ids` and don't count.
    """
    if not vocab_size or not embed_dim:
        raise ValueError("Must specify vocab size and embedding dimension")
    is_sparse = isinstance(ids, tf.SparseTensor)
    if is_sparse and not sparse_lookup:
        raise TypeError("ids are expected to be dense Tensor, got: %s" % ids)
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = _embeddings([vocab_size, embed_dim], initializer, regularizer, trainable)
        if not sparse_lookup:
            return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)
        sparse = ids if is_sparse else tf.sparse.from_dense(ids)
        return tf.nn.safe_embedding_lookup_sparse(
            [embeddings], sparse, combiner="mean", default_id=0
        )


def _embeddings(shape: Any, initializer: Any, regularizer: Any, trainable: bool) -> tf.Variable:
    model_variable = internals.fetch("tf_slim.ops.variables:model_variable")
    return model_variable(
        "embeddings",
        shape=shape,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
    )
