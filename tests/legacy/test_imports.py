"""TensorFlow 1 scripts, unmodified, in forks, after `legacy.install()`, which changes nothing of
TensorFlow 1.

What the scripts print is compared with what TensorFlow 1.15.5 printed, on every TensorFlow.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from graphmp import legacy
from graphmp.errors import GraphmpError
from graphmp.legacy import table
from tests.support.places import ROOT

RUNNER = """
import graphmp.environment, runpy, sys
from graphmp import legacy
legacy.install()
legacy.install()
runpy.run_path(sys.argv[1], run_name="__main__")
"""
ON_1 = tf.VERSION.startswith("1.")


@pytest.fixture(scope="module")
def run(forks):
    """Runs a script in a fork, after a line of code, and returns the JSON object that it prints
    last.
    """

    def run(script: str, folder: pathlib.Path, before: str = "") -> Any:
        path = written(script, folder)
        (folder / "runner.py").write_text(before + RUNNER)
        ended = forks.run("runner.py", str(path), flags=None, folder=str(folder))
        assert ended.status == 0, ended.err[-3000:]
        return json.loads(ended.out.splitlines()[-1])

    return run


def run_by_itself(script: str, folder: pathlib.Path) -> Any:
    """The same in a process that has imported nothing before."""
    command = [sys.executable, "-c", RUNNER, str(written(script, folder))]
    env = dict(os.environ, PYTHONPATH=str(ROOT))
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=env, cwd=str(folder)
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def written(script: str, folder: pathlib.Path) -> pathlib.Path:
    """The script as a file."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(script))
    return path


TALK = """
    import json
    import numpy as np
    import tensorflow as tf

    flags = tf.app.flags
    flags.DEFINE_float("rate", 0.05, "learning rate")
    FLAGS = flags.FLAGS

    inputs = tf.placeholder(tf.float32, [8, 8, 8, 3])
    labels = tf.placeholder(tf.int32, [8])
    tensor = tf.layers.conv2d(inputs, 4, 3, padding="same")
    tensor = tf.contrib.layers.batch_norm(tensor, fused=True, activation_fn=tf.nn.relu)
    tensor = tf.layers.dense(tf.contrib.layers.flatten(tensor), 5)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tensor)
    train = tf.train.MomentumOptimizer(FLAGS.rate, 0.9).minimize(loss, tf.train.get_or_create_global_step())


    def main(_):
        random = np.random.RandomState(0)
        feed = {inputs: random.randn(8, 8, 8, 3), labels: random.randint(5, size=8)}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [float(session.run([loss, train], feed)[0]) for _ in range(5)]
        names = [v.name for v in tf.global_variables()]
        print(json.dumps({"losses": losses, "names": names, "updates": len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))}))


    if __name__ == "__main__":
        tf.app.run()
"""
TALK_VARIABLES = """
    conv2d/kernel conv2d/bias BatchNorm/beta BatchNorm/moving_mean BatchNorm/moving_variance dense/kernel dense/bias global_step
    conv2d/kernel/Momentum conv2d/bias/Momentum BatchNorm/beta/Momentum dense/kernel/Momentum dense/bias/Momentum
"""


def test_script_of_the_talk_trains(run, tmp_path):
    result = run(TALK, tmp_path)
    assert [name.split(":")[0] for name in result["names"]] == TALK_VARIABLES.split()
    assert result["losses"][-1] < 0.7 * result["losses"][0]
    assert result["updates"] == 2


SLIM = """
    import json
    import numpy as np
    import tensorflow as tf
    import tensorflow.contrib.slim as slim

    tf.set_random_seed(1)
    images = tf.constant(np.random.RandomState(0).randn(4, 8, 8, 3).astype("f"))
    with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(1e-3)):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params={"scale": True, "is_training": True}):
            net = slim.repeat(images, 2, slim.conv2d, 4, [3, 3], scope="conv")
        net = slim.max_pool2d(net, [2, 2], scope="pool")
        net = slim.dropout(slim.flatten(net), 0.9, is_training=True)
        logits = slim.fully_connected(net, 3, activation_fn=None, scope="logits")
    slim.losses.softmax_cross_entropy(logits, slim.one_hot_encoding([0, 1, 2, 0], 3))
    total = slim.losses.get_total_loss()
    train = slim.learning.create_train_op(total, tf.train.GradientDescentOptimizer(0.1), clip_gradient_norm=1.0)
    loss = slim.learning.train(train, None, number_of_steps=3, log_every_n_steps=1, save_summaries_secs=0)
    names = lambda variables: [v.op.name for v in variables]
    print(json.dumps({
        "loss": float(loss),
        "all": names(slim.get_variables()),
        "conv_1": names(slim.get_variables("conv/conv_1")),
        "weights": names(slim.get_variables_by_name("weights")),
        "losses": len(slim.losses.get_losses()),
        "regularization": len(slim.losses.get_regularization_losses()),
    }))
"""
SLIM_VARIABLES = """
    conv/conv_1/weights conv/conv_1/BatchNorm/gamma conv/conv_1/BatchNorm/beta
    conv/conv_1/BatchNorm/moving_mean conv/conv_1/BatchNorm/moving_variance
    conv/conv_2/weights conv/conv_2/BatchNorm/gamma conv/conv_2/BatchNorm/beta
    conv/conv_2/BatchNorm/moving_mean conv/conv_2/BatchNorm/moving_variance logits/weights logits/biases
"""


def test_slim_trains(run, tmp_path):
    result = run(SLIM, tmp_path)
    assert result["all"] == SLIM_VARIABLES.split() + ["global_step"]
    assert result["conv_1"] == SLIM_VARIABLES.split()[:5]
    assert result["weights"] == ["conv/conv_1/weights", "conv/conv_2/weights", "logits/weights"]
    assert (result["losses"], result["regularization"]) == (1, 3)
    assert 0 < result["loss"] < 5


NUMBERS = """
    import json
    import numpy as np
    import tensorflow as tf
    from tensorflow.contrib import layers, rnn, seq2seq, legacy_seq2seq

    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it takes longer than the steps

    def evaluate(build):
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            parts = tf.contrib.framework.nest.flatten(build())
            result = tf.add_n([tf.reduce_sum(tf.square(part)) for part in parts])
            variables = tf.global_variables()
            gradients = [g for g in tf.gradients(result, tf.trainable_variables()) if g is not None] if variables else []
            session.run([v.initializer for v in variables], {v.initializer.inputs[1]: value(v) for v in variables})
            return [" ".join(sorted(v.op.name for v in variables)), float("%.4g" % session.run([result, gradients])[0])]

    def value(v):
        numbers = np.linspace(-0.5, 0.5, v.shape.num_elements(), dtype="f")
        return numbers.reshape(v.shape.as_list()) + ("variance" in v.name)

    def image():
        return tf.reshape(tf.linspace(-1.0, 1.0, 2 * 4 * 4 * 3), [2, 4, 4, 3])

    def matrix():
        return tf.reshape(tf.linspace(-1.0, 1.0, 2 * 6), [2, 6])

    def steps():
        return tf.unstack(tf.reshape(tf.linspace(-1.0, 1.0, 3 * 2 * 4), [3, 2, 4]))

    def unrolled(cell):
        return lambda: rnn.static_rnn(cell(), steps(), dtype=tf.float32)

    def looped(cell):
        return lambda: tf.nn.dynamic_rnn(cell(), tf.stack(steps()), sequence_length=[2, 3], dtype=tf.float32, time_major=True)

    def pair():
        return [rnn.BasicLSTMCell(3), rnn.LSTMBlockCell(3)]

    plainly = tf.autograph.experimental.do_not_convert(evaluate)  # AutoGraph takes as long as all else
    builds = json.load(open("builds.json"))
    print(json.dumps({name: (evaluate if name in %r else plainly)(eval(build)) for name, build in builds.items()}))
"""
# What each piece of contrib makes and gives on TensorFlow 1.15.5, its variables filled with values
# from -0.5 to 0.5: how to build it, the sum of the squares of its results, its variables.
PIECES = {
    "batch_norm": (
        "lambda: layers.batch_norm(image(), scale=True)",
        31.95,
        "BatchNorm/beta BatchNorm/gamma BatchNorm/moving_mean BatchNorm/moving_variance",
    ),
    "batch_norm not fused": (
        "lambda: layers.batch_norm(image(), fused=False, is_training=False)",
        41.22,
        "BatchNorm/beta BatchNorm/moving_mean BatchNorm/moving_variance",
    ),
    "bow_encoder": (
        "lambda: layers.bow_encoder([[1, 2, 0], [2, 3, 4]], 5, 3)",
        0.1926,
        "bow_encoder/embeddings",
    ),
    "conv2d": (
        "lambda: layers.conv2d(image(), 4, 3, normalizer_fn=layers.batch_norm)",
        51.71,
        (
            "Conv/BatchNorm/beta Conv/BatchNorm/moving_mean Conv/BatchNorm/moving_variance"
            " Conv/weights"
        ),
    ),
    "conv2d_transpose": (
        "lambda: layers.conv2d_transpose(image(), 4, 3, 2)",
        82.62,
        "Conv2d_transpose/biases Conv2d_transpose/weights",
    ),
    "embed_sequence": (
        "lambda: layers.embed_sequence([[1, 2], [2, 3]], 5, 3, unique=True)",
        0.3163,
        "EmbedSequence/embeddings",
    ),
    "fully_connected": (
        (
            "lambda: [layers.fully_connected(matrix(), 4), layers.fully_connected(matrix(), 4,"
            " scope='named')]"
        ),
        7.475,
        "fully_connected/biases fully_connected/weights named/biases named/weights",
    ),
    "gdn": ("lambda: layers.gdn(image())", 1164.0, "gdn/reparam_beta gdn/reparam_gamma"),
    "layer_norm": ("lambda: layers.layer_norm(image())", 32.03, "LayerNorm/beta LayerNorm/gamma"),
    "separable_conv2d": (
        "lambda: layers.separable_conv2d(image(), 4, 3, 1)",
        13.47,
        (
            "SeparableConv2d/biases SeparableConv2d/depthwise_weights"
            " SeparableConv2d/pointwise_weights"
        ),
    ),
    "AttentionCellWrapper": (
        "looped(lambda: rnn.AttentionCellWrapper(rnn.BasicLSTMCell(3), 2))",
        6.528,
        (
            "rnn/attention_cell_wrapper/attention/attn_v"
            " rnn/attention_cell_wrapper/attention/attn_w rnn/attention_cell_wrapper/attention/bias"
            " rnn/attention_cell_wrapper/attention/kernel"
            " rnn/attention_cell_wrapper/attn_output_projection/bias"
            " rnn/attention_cell_wrapper/attn_output_projection/kernel"
            " rnn/attention_cell_wrapper/basic_lstm_cell/bias"
            " rnn/attention_cell_wrapper/basic_lstm_cell/kernel rnn/attention_cell_wrapper/bias"
            " rnn/attention_cell_wrapper/kernel"
        ),
    ),
    "BasicLSTMCell": (
        "unrolled(lambda: rnn.BasicLSTMCell(3, forget_bias=0.0))",
        0.7392,
        "rnn/basic_lstm_cell/bias rnn/basic_lstm_cell/kernel",
    ),
    "BasicLSTMCell looped": (
        "looped(lambda: rnn.BasicLSTMCell(3))",
        1.784,
        "rnn/basic_lstm_cell/bias rnn/basic_lstm_cell/kernel",
    ),
    "BasicRNNCell": (
        "unrolled(lambda: rnn.BasicRNNCell(3))",
        7.562,
        "rnn/basic_rnn_cell/bias rnn/basic_rnn_cell/kernel",
    ),
    "Conv2DLSTMCell": (
        (
            "lambda: rnn.static_rnn(rnn.Conv2DLSTMCell(input_shape=[4, 4, 3], output_channels=2,"
            " kernel_shape=[3, 3]), [image()], dtype=tf.float32)"
        ),
        32.01,
        "rnn/conv_2d_lstm_cell/biases rnn/conv_2d_lstm_cell/kernel",
    ),
    "CoupledInputForgetGateLSTMCell": (
        (
            "unrolled(lambda: rnn.CoupledInputForgetGateLSTMCell(3, use_peepholes=True, num_proj=2,"
            " num_unit_shards=2))"
        ),
        0.5183,
        (
            "rnn/coupled_input_forget_gate_lstm_cell/B rnn/coupled_input_forget_gate_lstm_cell/W_0"
            " rnn/coupled_input_forget_gate_lstm_cell/W_1"
            " rnn/coupled_input_forget_gate_lstm_cell/W_F_diag"
            " rnn/coupled_input_forget_gate_lstm_cell/W_O_diag"
            " rnn/coupled_input_forget_gate_lstm_cell/W_P_0"
        ),
    ),
    "EmbeddingWrapper": (
        (
            "lambda: rnn.static_rnn(rnn.EmbeddingWrapper(rnn.GRUCell(3), 5, 2), [tf.constant([1,"
            " 2])], dtype=tf.float32)"
        ),
        0.2727,
        (
            "rnn/embedding_wrapper/embedding rnn/embedding_wrapper/gru_cell/candidate/bias"
            " rnn/embedding_wrapper/gru_cell/candidate/kernel"
            " rnn/embedding_wrapper/gru_cell/gates/bias rnn/embedding_wrapper/gru_cell/gates/kernel"
        ),
    ),
    "GLSTMCell": (
        "unrolled(lambda: rnn.GLSTMCell(4, number_of_groups=2, num_proj=2))",
        2.03,
        (
            "rnn/glstm_cell/bias_f rnn/glstm_cell/bias_i rnn/glstm_cell/bias_j"
            " rnn/glstm_cell/bias_o rnn/glstm_cell/group0/kernel rnn/glstm_cell/group1/kernel"
            " rnn/glstm_cell/projection/kernel"
        ),
    ),
    "GRUBlockCell": (
        "unrolled(lambda: rnn.GRUBlockCell(3))",
        1.897,
        "rnn/gru_cell/b_c rnn/gru_cell/b_ru rnn/gru_cell/w_c rnn/gru_cell/w_ru",
    ),
    "GRUBlockCellV2": (
        "unrolled(lambda: rnn.GRUBlockCellV2(3))",
        1.897,
        (
            "rnn/gru_cell/candidate/bias rnn/gru_cell/candidate/kernel rnn/gru_cell/gates/bias"
            " rnn/gru_cell/gates/kernel"
        ),
    ),
    "HighwayWrapper": (
        "unrolled(lambda: rnn.HighwayWrapper(rnn.GRUCell(4), couple_carry_transform_gates=False))",
        3.346,
        (
            "rnn/carry_b rnn/carry_w rnn/gru_cell/candidate/bias rnn/gru_cell/candidate/kernel"
            " rnn/gru_cell/gates/bias rnn/gru_cell/gates/kernel rnn/transform_b rnn/transform_w"
        ),
    ),
    "IndRNNCell": (
        "unrolled(lambda: rnn.IndRNNCell(3))",
        5.032,
        "rnn/ind_rnn_cell/bias rnn/ind_rnn_cell/kernel_u rnn/ind_rnn_cell/kernel_w",
    ),
    "IndyGRUCell": (
        "unrolled(lambda: rnn.IndyGRUCell(3))",
        1.471,
        (
            "rnn/indy_gru_cell/candidate/bias rnn/indy_gru_cell/candidate/kernel"
            " rnn/indy_gru_cell/candidate/kernel_u rnn/indy_gru_cell/gates/bias"
            " rnn/indy_gru_cell/gates/kernel_u rnn/indy_gru_cell/gates/kernel_w"
        ),
    ),
    "IndyLSTMCell": (
        "unrolled(lambda: rnn.IndyLSTMCell(3))",
        0.07963,
        "rnn/indy_lstm_cell/bias rnn/indy_lstm_cell/kernel_u rnn/indy_lstm_cell/kernel_w",
    ),
    "InputProjectionWrapper": (
        "unrolled(lambda: rnn.InputProjectionWrapper(rnn.GRUCell(3), 2))",
        1.632,
        (
            "rnn/input_projection_wrapper/bias rnn/input_projection_wrapper/gru_cell/candidate/bias"
            " rnn/input_projection_wrapper/gru_cell/candidate/kernel"
            " rnn/input_projection_wrapper/gru_cell/gates/bias"
            " rnn/input_projection_wrapper/gru_cell/gates/kernel"
            " rnn/input_projection_wrapper/kernel"
        ),
    ),
    "IntersectionRNNCell": (
        "unrolled(lambda: rnn.IntersectionRNNCell(3, num_in_proj=3))",
        3.091,
        (
            "rnn/intersection_rnn_cell/bias rnn/intersection_rnn_cell/in_projection/bias "
            "rnn/intersection_rnn_cell/in_projection/kernel rnn/intersection_rnn_cell/kernel"
        ),
    ),
    "LSTMBlockCell": (
        "unrolled(lambda: rnn.LSTMBlockCell(3, use_peephole=True, cell_clip=0.1))",
        0.1101,
        (
            "rnn/lstm_cell/bias rnn/lstm_cell/kernel rnn/lstm_cell/w_f_diag rnn/lstm_cell/w_i_diag"
            " rnn/lstm_cell/w_o_diag"
        ),
    ),
    "LSTMBlockFusedCell": (
        (
            "lambda: rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(3))(tf.stack(steps()),"
            " dtype=tf.float32, sequence_length=[1, 3])"
        ),
        1.055,
        "lstm_fused_cell/bias lstm_fused_cell/kernel",
    ),
    "LSTMCell": (
        "looped(lambda: rnn.LSTMCell(3, use_peepholes=True, num_proj=2))",
        0.3747,
        (
            "rnn/lstm_cell/bias rnn/lstm_cell/kernel rnn/lstm_cell/projection/kernel"
            " rnn/lstm_cell/w_f_diag rnn/lstm_cell/w_i_diag rnn/lstm_cell/w_o_diag"
        ),
    ),
    "LayerNormBasicLSTMCell": (
        "looped(lambda: rnn.LayerNormBasicLSTMCell(3))",
        4.567,
        (
            "rnn/layer_norm_basic_lstm_cell/forget/beta rnn/layer_norm_basic_lstm_cell/forget/gamma"
            " rnn/layer_norm_basic_lstm_cell/input/beta rnn/layer_norm_basic_lstm_cell/input/gamma"
            " rnn/layer_norm_basic_lstm_cell/kernel rnn/layer_norm_basic_lstm_cell/output/beta"
            " rnn/layer_norm_basic_lstm_cell/output/gamma rnn/layer_norm_basic_lstm_cell/state/beta"
            " rnn/layer_norm_basic_lstm_cell/state/gamma"
            " rnn/layer_norm_basic_lstm_cell/transform/beta"
            " rnn/layer_norm_basic_lstm_cell/transform/gamma"
        ),
    ),
    "MultiRNNCell": (
        (
            "unrolled(lambda: rnn.MultiRNNCell([rnn.DropoutWrapper(rnn.GRUCell(4)),"
            " rnn.ResidualWrapper(rnn.UGRNNCell(4))]))"
        ),
        3.926,
        (
            "rnn/multi_rnn_cell/cell_0/gru_cell/candidate/bias"
            " rnn/multi_rnn_cell/cell_0/gru_cell/candidate/kernel"
            " rnn/multi_rnn_cell/cell_0/gru_cell/gates/bias"
            " rnn/multi_rnn_cell/cell_0/gru_cell/gates/kernel"
            " rnn/multi_rnn_cell/cell_1/ugrnn_cell/bias rnn/multi_rnn_cell/cell_1/ugrnn_cell/kernel"
        ),
    ),
    "NASCell": (
        "unrolled(lambda: rnn.NASCell(3, num_proj=2, use_bias=True))",
        4.462e-05,
        (
            "rnn/nas_cell/bias rnn/nas_cell/kernel rnn/nas_cell/projection_weights"
            " rnn/nas_cell/recurrent_kernel"
        ),
    ),
    "OutputProjectionWrapper": (
        "unrolled(lambda: rnn.OutputProjectionWrapper(rnn.GRUCell(3), 2, tf.nn.relu))",
        3.542,
        (
            "rnn/output_projection_wrapper/bias"
            " rnn/output_projection_wrapper/gru_cell/candidate/bias"
            " rnn/output_projection_wrapper/gru_cell/candidate/kernel"
            " rnn/output_projection_wrapper/gru_cell/gates/bias"
            " rnn/output_projection_wrapper/gru_cell/gates/kernel"
            " rnn/output_projection_wrapper/kernel"
        ),
    ),
    "SRUCell": (
        "unrolled(lambda: rnn.SRUCell(3))",
        0.2614,
        "rnn/sru_cell/bias rnn/sru_cell/kernel",
    ),
    "legacy_seq2seq.rnn_decoder": (
        (
            "lambda: legacy_seq2seq.rnn_decoder(steps(), tf.zeros([2, 4]), rnn.GRUCell(4), lambda"
            " output, _: output)"
        ),
        1.57,
        (
            "rnn_decoder/gru_cell/candidate/bias rnn_decoder/gru_cell/candidate/kernel"
            " rnn_decoder/gru_cell/gates/bias rnn_decoder/gru_cell/gates/kernel"
        ),
    ),
    "seq2seq.sequence_loss": (
        (
            "lambda: seq2seq.sequence_loss(tf.stack(steps()), tf.constant([[0, 1], [2, 3], [1,"
            " 1]]), tf.constant([[1.0, 0.5]] * 3))"
        ),
        2.003,
        "",
    ),
    "stack_bidirectional_dynamic_rnn": (
        (
            "lambda: rnn.stack_bidirectional_dynamic_rnn(pair(), pair(), tf.stack(steps()),"
            " dtype=tf.float32)"
        ),
        5.236,
        (
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/bw/basic_lstm_cell/bias "
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/bw/basic_lstm_cell/kernel "
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/basic_lstm_cell/bias "
            "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/basic_lstm_cell/kernel "
            "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/lstm_cell/bias "
            "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/lstm_cell/kernel "
            "stack_bidirectional_rnn/cell_1/bidirectional_rnn/fw/lstm_cell/bias "
            "stack_bidirectional_rnn/cell_1/bidirectional_rnn/fw/lstm_cell/kernel"
        ),
    ),
    "stack_bidirectional_rnn": (
        "lambda: rnn.stack_bidirectional_rnn(pair(), pair(), steps(), dtype=tf.float32)",
        2.118,
        (
            "stack_bidirectional_rnn/cell_0/bw/basic_lstm_cell/bias"
            " stack_bidirectional_rnn/cell_0/bw/basic_lstm_cell/kernel"
            " stack_bidirectional_rnn/cell_0/fw/basic_lstm_cell/bias"
            " stack_bidirectional_rnn/cell_0/fw/basic_lstm_cell/kernel"
            " stack_bidirectional_rnn/cell_1/bw/lstm_cell/bias"
            " stack_bidirectional_rnn/cell_1/bw/lstm_cell/kernel"
            " stack_bidirectional_rnn/cell_1/fw/lstm_cell/bias"
            " stack_bidirectional_rnn/cell_1/fw/lstm_cell/kernel"
        ),
    ),
}


# A cell, a cell around another and a stack of cells run as a script has them, rewritten by
# AutoGraph.
REWRITTEN = ["AttentionCellWrapper", "MultiRNNCell", "NASCell"]


@pytest.fixture(scope="module")
def numbers(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "builds.json").write_text(
        json.dumps({name: build for name, (build, _, _) in PIECES.items()})
    )
    return run(NUMBERS.replace("%r", repr(REWRITTEN)), folder)


@pytest.mark.parametrize("piece", sorted(PIECES))
def test_contrib_makes_the_variables_and_numbers_of_tensorflow_1(numbers, piece):
    _, number, variables = PIECES[piece]
    assert numbers[piece] == [variables, pytest.approx(number, rel=2e-3)]


WORDS = """
    import json
    import tensorflow as tf
    from tensorflow.contrib import learn

    texts = ["the NASAHouse isn't on-line", "The cat , the Cat and the dog", ""]
    words = learn.preprocessing.VocabularyProcessor(5)
    rows = [row.tolist() for row in words.fit_transform(texts)]
    words.save("words")
    again = learn.preprocessing.VocabularyProcessor.restore("words")
    often = learn.preprocessing.VocabularyProcessor(3, min_frequency=1, tokenizer_fn=lambda texts: (text.split() for text in texts)).fit(texts)
    print(json.dumps([
        rows, len(words.vocabulary_), [row.tolist() for row in again.transform(["a dog the cat"])], list(again.reverse([[1, 2, 0]])),
        [row.tolist() for row in often.transform(["dog , the cat"])], len(often.vocabulary_), str(next(words.transform(["x"])).dtype),
    ]))
"""


def test_words_become_numbers(run, tmp_path):
    rows, known, others, texts, trimmed, often, dtype = run(WORDS, tmp_path)
    assert (rows, known) == ([[1, 2, 3, 4, 5], [6, 7, 1, 8, 9], [0, 0, 0, 0, 0]], 11)
    assert (others, texts) == ([[0, 10, 1, 7, 0]], ["the NASA <UNK>"])
    assert (trimmed, often, dtype) == ([[0, 0, 1]], 2, "int64")


FORMS = """
    import json
    import sys
    import tensorflow as plain
    import tensorflow as tf
    import tensorflow.contrib.layers as L
    import tensorflow.contrib.slim as slim
    import tensorflow.keras
    import tensorflow.keras.backend as K
    from tensorflow import flags, logging
    from tensorflow.contrib import layers, rnn, slim as slim2
    from tensorflow.contrib.framework import arg_scope, nest
    import tensorflow.contrib.framework.python.ops.arg_scope
    from tensorflow.contrib.framework.python.ops import add_arg_scope, arg_scope as of_package
    from tensorflow.contrib.framework.python.ops.arg_scope import arg_scope as of_module
    from tensorflow.contrib.layers import batch_norm, conv2d as convolution
    from tensorflow.contrib.layers.python.layers import utils
    from tensorflow.contrib.layers.python.layers.initializers import xavier_initializer
    from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _linear
    from tensorflow.contrib.slim.nets import resnet_v1
    from tensorflow.contrib.slim.python.slim.nets import vgg
    from tensorflow.contrib.training import HParams
    from tensorflow.core.framework import graph_pb2
    from tensorflow.keras.layers import Dense
    from tensorflow.keras.models import Sequential
    from tensorflow.python.client import device_lib
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import rnn_cell
    import tensorflow.compat.v1 as v1

    everything = {}
    exec("from tensorflow.contrib.layers import *", everything)
    hparams = HParams(rate=0.1, sizes=[1, 2], name="x", fast=True).parse("rate=1,sizes=[3,4],name=y z,fast=false")
    resnet_v1.resnet_v1_50(tf.zeros([1, 32, 32, 3]), 3)
    _linear([tf.zeros([2, 3]), tf.zeros([2, 1])], 4, True)
    print(json.dumps({
        "same": [
            plain is tf is sys.modules["tensorflow"],
            layers.batch_norm is batch_norm is tf.contrib.layers.batch_norm is everything["batch_norm"],
            slim.conv2d is slim2.conv2d is tf.contrib.slim.conv2d,
            rnn.BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell,
            Dense is tf.keras.layers.Dense,
            issubclass(rnn_cell.LSTMCell, rnn_cell.RNNCell),
            ops.Graph is tf.Graph is v1.Graph,
            of_module is of_package is arg_scope,
        ],
        "hparams": hparams.values(),
        "resnet": len(slim.get_model_variables("resnet_v1_50")),
        "linear": [v.name for v in tf.global_variables()[-2:]],
        "has": [hasattr(tf, "nothing"), hasattr(tf.contrib, "nothing"), hasattr(tf.contrib, "__nothing__"), hasattr(tf.contrib.layers, "conv2d")],
        "eager": tf.executing_eagerly(),
        "resource": isinstance(tf.Variable(1.0), v1.Variable) and tf.Variable(1.0).dtype._is_ref_dtype,
        "contrib": type(tf.contrib).__module__.split(".")[0],
        "train in sys.modules": "tensorflow.train" in sys.modules,
        "version": tf.__version__ == tf.VERSION,
    }))
"""


def test_every_form_of_import(tmp_path):
    result = run_by_itself(FORMS, tmp_path)
    assert result["same"] == [True] * 8
    assert result["hparams"] == {"rate": 1.0, "sizes": [3, 4], "name": "y z", "fast": False}
    assert result["resnet"] == 108
    assert result["linear"] == ["kernel:0", "bias:0"]
    assert result["has"] == [False, False, False, True]
    assert not result["eager"] and result["resource"] and result["version"]
    assert ON_1 or result["train in sys.modules"]
    assert (result["contrib"] == "graphmp") is not ON_1


MISSING = """
    import json
    import tensorflow as tf
    from tensorflow.contrib import ffmpeg, learn
    import tensorflow.contrib.quantize as quantize

    def attempt(function):
        try:
            return str(function())
        except Exception as error:
            return "%s: %s" % ([c.__name__ for c in type(error).__mro__[1:3]], error)

    def import_symbol():
        from tensorflow.contrib.ffmpeg import encode_audio

    def import_module():
        import tensorflow.contrib.opt.python.training.shampoo

    print(json.dumps([
        attempt(lambda: tf.contrib.ffmpeg.decode_audio),
        attempt(lambda: ffmpeg.decode_audio),
        attempt(lambda: learn.preprocessing.ByteProcessor(3)),
        attempt(lambda: quantize.create_eval_graph),
        attempt(lambda: tf.contrib.layers.real_valued_column("x")),
        attempt(import_symbol),
        attempt(import_module),
        attempt(lambda: getattr(ffmpeg, "nothing", "default")),
        attempt(lambda: ffmpeg.__wrapped__),
    ]))
"""


@pytest.mark.skipif(ON_1, reason="TensorFlow 1 has all of contrib")
def test_missing_symbols_are_named_with_the_line_that_used_them(run, tmp_path):
    results = run(MISSING, tmp_path)
    line = (
        "['GraphmpError', '%s']: GMP018: %s:%d: tf.contrib.%s has no successor in TensorFlow %s;"
        " the last with tf.contrib is 1.15.5"
    )
    script = str(tmp_path / "train.py")
    uses = [
        ("AttributeError", "tf.contrib.ffmpeg.decode_audio", "ffmpeg.decode_audio"),
        ("AttributeError", "lambda: ffmpeg.decode_audio", "ffmpeg.decode_audio"),
        ("AttributeError", "learn.preprocessing", "learn.preprocessing.ByteProcessor"),
        ("AttributeError", "quantize.create_eval_graph", "quantize.create_eval_graph"),
        ("AttributeError", "real_valued_column", "layers.real_valued_column"),
    ]
    lines = MISSING.splitlines()
    numbers = [
        next(number for number, text in enumerate(lines, 1) if use in text) for _, use, _ in uses
    ]
    assert "without its call the script trains" in results[3]  # advice beside the version
    assert [text.partition("; it rewrites")[0] for text in results[:5]] == [
        line % (kind, script, number, symbol, tf.VERSION)
        for number, (kind, _, symbol) in zip(numbers, uses)
    ]
    assert results[5:7] == ["None", "None"]  # imported, and not used
    assert results[7] == "default"
    assert (
        results[8]
        == "['Exception', 'BaseException']: module 'tensorflow.contrib.ffmpeg' has no attribute"
        " '__wrapped__'"
    )


@pytest.mark.unit
def test_error_is_one_of_graphmp():
    if not ON_1:
        from graphmp.legacy import missing

        error = missing.attribute("ffmpeg.decode_audio")
        assert isinstance(error, GraphmpError) and error.code == "GMP018" and error.exit_status == 1


@pytest.mark.unit
def test_the_tables_alone_know_the_replacements():
    folder = ROOT / "graphmp" / "legacy" / "contrib"
    modules = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }
    sources = {source for row in table.MODULES.values() for source in row} | set(
        table.NAMES.values()
    )
    own = {
        source.split(":")[0] for source in sources if source.startswith("graphmp.legacy.contrib.")
    }
    texts = [path.read_text("utf-8") for path in folder.rglob("*.py")]
    helpers = {
        module for module in modules - own if any("from %s import" % module in t for t in texts)
    }
    assert own | helpers == modules
    others = [path for path in (ROOT / "graphmp").rglob("*.py") if folder not in path.parents]
    assert sorted(
        path.name for path in others if "graphmp.legacy.contrib." in path.read_text("utf-8")
    ) == ["earlier.py", "table.py"]


IN_GRAPHS = """
import tensorflow as tf
if hasattr(tf.compat, 'v1'):
    tf.compat.v1.disable_eager_execution()
import model
"""
ONLY_SOMETIMES = """
import tensorflow as tf
if tf.__version__ < '2':
    tf.set_random_seed(1)
"""
NEEDED = [
    ({"train.py": "import tensorflow as tf"}, True),
    ({"train.py": "def main():\n  from tensorflow.contrib import slim"}, True),
    ({"train.py": "import tensorflow.compat.v1 as tf"}, False),
    ({"train.py": "from tensorflow.compat import v1 as tf"}, False),
    ({"train.py": "import tensorflow as tf\ntf = tf.compat.v1"}, False),
    ({"train.py": "import tensorflow as tf\ntf.disable_v2_behavior()"}, False),
    ({"train.py": "# compat.v1\nimport tensorflow as tf"}, True),
    ({"train.py": "import numpy"}, False),
    ({"train.py": "import model", "model.py": "import tensorflow as tf"}, True),
    (
        {
            "train.py": "from nets import small",
            "nets/small.py": "from .. import x\nfrom . import base",
            "nets/base.py": "import tensorflow",
        },
        True,
    ),
    (
        {
            "train.py": "import tensorflow, model",
            "model.py": "import train, deeper",
            "deeper.py": "import tensorflow.compat.v1",
        },
        False,
    ),
    ({"train.py": "import model", "other.py": "import tensorflow"}, False),
    (
        {
            "train.py": "import tensorflow.compat.v1 as tf\nimport model",
            "model.py": "from tensorflow.contrib import layers",
        },
        True,
    ),
    (
        {
            "train.py": (
                "import tensorflow.compat.v1 as tf\ntry:\n    from tensorflow.contrib import layers"
                "\nexcept ImportError:\n    layers = None"
            )
        },
        False,
    ),
    ({"train.py": IN_GRAPHS, "model.py": "import tensorflow as tf\ntf.get_variable"}, True),
    ({"train.py": IN_GRAPHS, "model.py": "import tensorflow as tf\ntf.matmul"}, False),
    ({"train.py": IN_GRAPHS, "model.py": ONLY_SOMETIMES}, False),
    (
        {"train.py": IN_GRAPHS, "model.py": "import tensorflow as tf\ntf = tf.compat.v1\ntf.log"},
        False,
    ),
    (
        {
            "train.py": "import tensorflow as tf\ntf.compat.v1.logging\nimport model",
            "model.py": "import tensorflow as tf\ndef build():\n    tf.get_variable",
        },
        False,
    ),
    (
        {
            "train.py": "import tensorflow as tf\ntf.compat.v1.logging\nimport model",
            "model.py": "import tensorflow as tf\nclass Adafactor(tf.train.Optimizer):\n    pass",
        },
        True,
    ),
    (
        {
            "train.py": "import tensorflow as tf\nimport model\ntf.flags.FLAGS",
            "model.py": "import tensorflow as tf\ndef build():\n    tf.compat.v1.get_variable",
        },
        True,
    ),
    (
        {
            "train.py": "import util\ndef main(rate=util.tf.matmul):\n    import model",
            "util.py": "import tensorflow as tf\ntf.compat.v1.logging",
            "model.py": "import tensorflow as tf\ntf.flags.FLAGS",
        },
        False,
    ),
    (
        {
            "train.py": "import util\nif util.tf.__version__ < '2':\n    import model",
            "util.py": "import tensorflow as tf\ntf.compat.v1.logging",
            "model.py": "import tensorflow as tf\ntf.flags.FLAGS",
        },
        False,
    ),
    (
        {
            "train.py": "import util\nimport tensorflow as tf\ndef f(at=tf.app.run): pass",
            "util.py": "import tensorflow.compat.v1",
        },
        True,
    ),
    (
        {
            "train.py": "import util\nimport tensorflow as tf\nf = lambda: tf.app.run()",
            "util.py": "import tensorflow.compat.v1",
        },
        False,
    ),
    ({"train.py": "import tensorflow\nprint 1"}, False),
    ({"train.py": "import tensorflow, broken", "broken.py": "print 1"}, True),
]


@pytest.mark.unit
@pytest.mark.parametrize("files, answer", NEEDED)
def test_needed(tmp_path, files, answer):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert legacy.written(tmp_path / "train.py").needs_version_1 is (answer and not ON_1)


@pytest.mark.unit
def test_what_a_program_lacks_that_selects_its_version(tmp_path):
    (tmp_path / "train.py").write_text("import tensorflow.compat.v1 as tf\nimport model")
    for text, lacks in (("tf.matmul", False), ("tf.get_variable", True)):
        (tmp_path / "model.py").write_text("import tensorflow as tf\nlambda: " + text)
        facts = legacy.written(tmp_path / "train.py")
        assert (facts.needs_version_1, facts.asks_for_version_1) == (False, lacks and not ON_1)


@pytest.mark.unit
def test_needed_without_a_file(tmp_path):
    assert not legacy.written(tmp_path / "train.py").needs_version_1


@pytest.mark.unit
def test_needed_by_what_pythonpath_holds(tmp_path, monkeypatch):
    for folder, text in (
        ("scripts", "from net import unet"),
        ("code/net", "from net import layers"),
        ("lib/site-packages/net", "import tensorflow.compat.v1"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "unet.py").write_text(text)
    (tmp_path / "code/net/layers.py").write_text("import tensorflow as tf")
    script = tmp_path / "scripts" / "unet.py"
    assert not legacy.written(script).needs_version_1
    monkeypatch.setattr(
        sys,
        "path",
        [sys.path[0], str(tmp_path / "lib/site-packages"), str(tmp_path / "code"), *sys.path[1:]],
    )
    assert legacy.written(script).needs_version_1 is not ON_1


NUMPY = """
    import json, warnings
    warnings.simplefilter("ignore")
    import tensorflow as tf
    import numpy as np
    kinds = [np.zeros(2, np.float).dtype.name, np.zeros(2, np.int).dtype.kind, np.zeros(2, np.bool8).dtype.name, np.array("a", np.str).dtype.kind]
    values = [float(np.Inf), float(np.float_(2)), np.asscalar(np.array([3])), int(np.product([2, 3])), bool(np.alltrue([True, False]))]
    six = np.arange(6)
    shapes = [np.reshape(*args, **kwargs).shape for args, kwargs in [
        ((six, (2, 3)), {}), ((six, [-1, 2], "F"), {}), ((six,), {"newshape": (3, 2)}), ((), {"a": six, "newshape": 6, "order": "C"})]]
    numbers = [np.in1d([[1, 2], [3, 4]], [2, 3]).tolist(), float(np.trapz([1, 2])), np.asfarray([1], np.int32).dtype.name, np.mat("1 2").shape]
    ragged = [np.array([(np.zeros(3), np.zeros(2))] * 4), np.asarray([[1], [1, 2]])]
    try:
        refused = np.array([[1], [1, 2]], np.float32)
    except ValueError:
        refused = True
    same, copied = np.array(six, copy=False), np.array(six, np.float32, copy=False)
    copies = [np.shares_memory(same, six), copied.dtype.name, np.array([1, 2], copy=False).tolist()]
    f, h, d, i = np.float32, np.float16, np.float64, np.int64
    types = [sorted(np.sctypes)[0], np.float32 in np.sctypes["float"], np.cast["int32"]([1.7]).tolist(), np.obj2sctype(np.ones(2, f)).__name__, np.obj2sctype(3, "none"),
             np.dtype(np.longfloat).kind, [str(np.find_common_type(*each)) for each in [([f], [d, i]), ([i], [f]), ([], [h, i]), ([f, d], []), ([], [])]]]
    print(json.dumps([kinds, values, shapes, numbers, types, [[array.dtype.name, array.shape] for array in ragged], refused, copies]))
"""


@pytest.mark.parametrize("module", ["tensorflow", "tensorflow.compat.v1"])
def test_numpy_has_its_old_names_and_arguments(run, tmp_path, module):
    """Also for a script that asks for TensorFlow 1 itself."""
    program = NUMPY.replace("import tensorflow as", "import %s as" % module)
    kinds, values, shapes, numbers, types, ragged, refused, copies = run(program, tmp_path)
    assert kinds == ["float64", "i", "bool", "U"]
    assert values == [float("inf"), 2.0, 3, 6, False]
    assert shapes == [[2, 3], [3, 2], [3, 2], [6]]
    assert numbers == [[False, True, True, False], 1.5, "float64", [1, 2]]
    common = ["float32", "float64", "float64", "float64", "None"]
    assert types == ["complex", True, [1], "float32", "none", "f", common]
    assert ragged == [["object", [4, 2]], ["object", [2]]] and refused
    assert copies == [True, "float32", [1, 2]]


TENSORS = """
    import json
    import tensorflow as tf
    x = tf.placeholder(tf.float32, [2])
    w = tf.get_variable("w", [2])
    print(json.dumps([
        type(x) is tf.Tensor, type(x + w) == tf.Tensor, {tf.Tensor: 1}[type(tf.constant(1))],
        isinstance(w, tf.Tensor), type(x).__name__, str(type(x)), hasattr(tf.Tensor, "get_shape"),
    ]))
"""


def test_tensors_are_of_the_class_tensor(run, tmp_path):
    name = "<class 'tensorflow.python.framework.ops.Tensor'>"
    assert run(TENSORS, tmp_path) == [True, True, 1, False, "Tensor", name, True]


LIBRARIES = """
    import importlib.util
    import json
    import scipy.misc
    import tensorflow as tf
    from scipy import misc

    def attempt(text):
        try:
            exec(text, globals())
        except Exception as error:
            return "%s: %s" % (type(error).__name__, error)

    print(json.dumps([
        attempt("scipy.misc.imread('x.png')"),
        attempt("misc.imresize"),
        attempt("from scipy.misc import imsave"),
        attempt("import scipy.misc.pilutil"),
        attempt("misc.nothing"),
        hasattr(misc, "toimage"),
        attempt("from scipy.misc import logsumexp as moved"),
        float(globals().get("moved", lambda _: 0)([0.0])),
        attempt("import gym"),
        importlib.util.find_spec("gym") is None,
        importlib.util.find_spec("scipy.misc.imread") is None,
        scipy.__version__,
    ]))
"""


def test_what_libraries_dropped_is_named_with_what_to_use(run, tmp_path):
    results = run(LIBRARIES, tmp_path, "import sys; sys.modules['PIL'] = None")
    errors, (there, moved_error, moved, gym, no_gym, no_function, version) = (
        results[:5],
        results[5:],
    )
    text = "%s: SciPy 1.3.0 removed scipy.misc.%s (this is SciPy " + version + "): %s"
    served = "pip install pillow, by which it is served, or use "
    assert errors[:4] == [
        text % ("AttributeError", "imread", served + "imageio.v2.imread"),
        text
        % (
            "AttributeError",
            "imresize",
            served + "PIL.Image.fromarray(image).resize((width, height))",
        ),
        text
        % (
            "ImportError",
            "imsave",
            served + "imageio.v2.imwrite, which doesn't scale floats to 0..255",
        ),
        text % ("ImportError", "pilutil", served + "imageio.v2 and PIL.Image"),
    ]
    assert errors[4:] == ["AttributeError: module 'scipy.misc' has no attribute 'nothing'"]
    assert (there, moved_error, moved, no_gym, no_function) == (False, None, 0.0, True, True)
    assert (
        gym.startswith("ModuleNotFoundError: No module named 'gym'")
        and "pip install 'gym<0.26'" in gym
    )


LOGGING = """
    import json, logging
    import tensorflow as tf
    print(json.dumps(len(logging.getLogger().handlers)))
"""


def test_the_script_sets_its_own_logging_up(run, tmp_path):
    assert run(LOGGING, tmp_path) == 0


BY_THEMSELVES = """
    import json, sys
    import gym
    import scipy.misc
    print(json.dumps([gym.VERSION, scipy.misc.__name__, isinstance(sys.modules["scipy.misc"].__path__, list), hasattr(scipy.misc, "imread")]))
"""


def test_a_gym_is_left_alone_and_no_scipy_misc_is_needed(run, tmp_path):
    (tmp_path / "gym.py").write_text("VERSION = 3")
    assert run(
        BY_THEMSELVES, tmp_path, "import sys; sys.modules.update({'scipy.misc': None, 'PIL': None})"
    ) == [
        3,
        "scipy.misc",
        True,
        False,
    ]


MNIST = """
    import gzip, json, struct, sys
    import numpy as np
    from tensorflow.examples.tutorials.mnist import input_data
    import tensorflow.examples.tutorials.mnist.input_data as same

    def write(name, array):
        head = struct.pack(">%dI" % (1 + array.ndim), 0x0800 + array.ndim, *array.shape)
        with gzip.open("data/%s-ubyte.gz" % name, "wb") as file:
            file.write(head + array.astype(np.uint8).tobytes())

    try:
        input_data.read_data_sets("data")
    except IOError as error:
        missing = str(error)
    import os
    os.mkdir("data")
    for name, count in (("train", 60), ("t10k", 10)):
        write(name + "-images-idx3", np.arange(count * 784).reshape(count, 28, 28) % 251)
        write(name + "-labels-idx1", np.arange(count) % 10)
    data = input_data.read_data_sets("data", one_hot=True, validation_size=20)
    batches = [data.train.next_batch(25) for _ in range(4)]
    print(json.dumps({
        "missing": missing, "same": same is input_data, "sizes": [part.num_examples for part in data],
        "shapes": [list(batches[0][0].shape), list(batches[-1][1].shape)], "dtype": str(batches[0][0].dtype),
        "epochs": data.train.epochs_completed, "largest": float(max(images.max() for images, _ in batches)),
        "seen": sorted(int(label.argmax()) for label in np.concatenate([labels for _, labels in batches])[:40]),
    }))
"""


@pytest.mark.skipif(ON_1, reason="TensorFlow 1 has its own loader")
def test_the_loader_of_mnist(run, tmp_path):
    found = run(MNIST, tmp_path)
    assert found["missing"].startswith(
        "data/train-images-idx3-ubyte.gz: no such file, and nothing is downloaded; put MNIST's four"
        " files there"
    )
    assert (found["same"], found["sizes"], found["epochs"]) == (True, [40, 20, 10], 2)
    assert (found["shapes"], found["dtype"]) == ([[25, 784], [25, 10]], "float32")
    assert found["largest"] <= 1
    assert found["seen"] == sorted(n % 10 for n in range(20, 60))


LAYERS = """
    import json
    import tensorflow as tf
    x = tf.placeholder(tf.float32, [None, 4])
    print(json.dumps([made(3).apply(x).shape[-1].value for made in (tf.keras.layers.Dense, tf.layers.Dense)]))
"""


def test_layers_of_keras_can_be_applied(run, tmp_path):
    assert run(LAYERS, tmp_path) == [3, 3]
