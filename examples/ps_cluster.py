"""Parameter servers and workers on this machine: between-graph replication of TensorFlow 1.

    python examples/ps_cluster.py --smoke
    python examples/ps_cluster.py --smoke --prefix="graphmp run --compute_dtype=bfloat16"
    python examples/ps_cluster.py --smoke --mixed_precision

The servers hold the variables; each worker trains on its part of every batch, asynchronously or,
with --updates=sync, synchronised by SyncReplicasOptimizer. --model=embedding has a table whose rows
are looked up on the servers; --partitions splits every variable. Processes that die are restarted;
with --checkpoint_dir training then continues from the last checkpoint. --prefix is put before the
command of each worker. A job that starts its processes itself gives each its role in TF_CONFIG, as
for Estimators.
"""

import training  # before TensorFlow: see training.py

# isort: split
import time

import cluster
import tensorflow.compat.v1 as tf

SIZES = {
    "ps": (1, 1, "parameter servers"),
    "workers": (2, 2, "workers"),
    "updates": ("async", "async", "whether workers wait for each other", "async", "sync"),
    "model": ("cnn", "cnn", "what to train", "cnn", "embedding"),
    "partitions": (1, 1, "parts that each variable is split into"),
    "variables": ("reference", "reference", "kind of variable", "reference", "resource"),
    "batch_size": (64, 16, "images or sentences a step, of all workers together"),
    "steps": (200, 20, "training steps"),
    "image_size": (32, 16, "height and width of the images"),
    "classes": (10, 10, "classes to tell apart"),
    "vocabulary": (1000, 100, "words of the embedding"),
    "width": (128, 32, "channels of the convolutions, size of the embedding"),
    "learning_rate": (0.05, 0.05, "of the momentum optimizer"),
    "restarts": (5, 5, "restarts of processes that die"),
    "checkpoint_dir": ("", "", "folder for the checkpoints of the chief, the first worker"),
    "prefix": ("", "", "prefix of the command of each worker"),
}
LENGTH = 12  # words in a sentence
MOMENTUM = 0.9


def build_training_model(features, labels, optimizer, flags):
    """Build the model, its loss and its training op.

    Args:
        features: float32 images (batch, height, width, 3), or int32 words (batch, length), each of
            which predicts the next.
        labels: int32 classes (batch,), or the following words (batch, length).
        optimizer: a tf.train.Optimizer.
        flags: of which model, width, classes and vocabulary are used.

    Returns:
        `features`, `labels`, the loss, and the op that trains one step.
    """
    if flags.model == "cnn":
        top = tf.layers.conv2d(
            features, flags.width, 3, 2, "same", activation=tf.nn.relu, name="conv1"
        )
        top = tf.layers.conv2d(
            top, 2 * flags.width, 3, 2, "same", activation=tf.nn.relu, name="conv2"
        )
        top = tf.layers.dense(
            tf.reduce_mean(top, [1, 2]), 4 * flags.width, tf.nn.relu, name="hidden"
        )
        logits = tf.layers.dense(top, flags.classes, name="logits")
    else:
        table = tf.get_variable(
            "table",
            (flags.vocabulary, flags.width),
            initializer=tf.random_normal_initializer(stddev=0.3),
        )
        top = tf.nn.embedding_lookup(table, features, partition_strategy="div")
        logits = tf.layers.dense(
            tf.layers.dense(top, flags.width, tf.nn.relu, name="hidden"),
            flags.vocabulary,
            name="logits",
        )
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return features, labels, loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())


def placeholders(flags):
    """The placeholders for features and labels."""
    if flags.model == "cnn":
        return training.image_placeholders(flags)
    shape = (None, LENGTH - 1)
    return tf.placeholder(tf.int32, shape, name="inputs"), tf.placeholder(
        tf.int32, shape, name="labels"
    )


def batches(flags):
    """Endless features and labels of the whole batch, the same in each worker."""
    if flags.model == "cnn":
        return training.image_batches(flags)
    return ((words[:, :-1], words[:, 1:]) for words in training.sentences(flags, LENGTH))


def build_worker(flags, spec, task):
    """Build the graph of one worker: variables on the servers, everything else on the worker.

    Returns:
        Inputs, loss, train op and hooks.
    """
    optimizer, hooks = (
        tf.train.MomentumOptimizer(flags.learning_rate, MOMENTUM),
        [tf.train.StopAtStepHook(last_step=flags.steps)],
    )
    if flags.updates == "sync":
        optimizer = tf.train.SyncReplicasOptimizer(
            optimizer, flags.workers, total_num_replicas=flags.workers
        )
    partitioner = tf.fixed_size_partitioner(flags.partitions) if flags.partitions > 1 else None
    scope = tf.variable_scope(
        "", partitioner=partitioner, use_resource=flags.variables == "resource"
    )
    with scope, tf.device(
        tf.train.replica_device_setter(cluster=spec, worker_device="/job:worker/task:%d" % task)
    ):
        features, labels, loss, train_op = training.precision(flags)(build_training_model)(
            *placeholders(flags), optimizer, flags
        )
    if flags.updates == "sync":
        hooks.append(optimizer.make_session_run_hook(task == 0))
    return (features, labels), loss, train_op, hooks


def work(flags, spec, task):
    """Train as one of the workers."""
    server = tf.train.Server(spec, "worker", task)
    inputs, loss, train_op, hooks = build_worker(flags, spec, task)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
    options = dict(
        checkpoint_dir=flags.checkpoint_dir or None,
        save_checkpoint_steps=flags.log_every,
        save_checkpoint_secs=None,
    )
    begin, images, source, told = time.time(), 0, batches(flags), 0
    with tf.train.MonitoredTrainingSession(
        server.target,
        task == 0,
        hooks=hooks,
        config=config,
        stop_grace_period_secs=2,
        log_step_count_steps=None,
        **options,
    ) as session:
        while not session.should_stop():
            part = [array[task :: flags.workers] for array in next(source)]
            value, step, _ = session.run(
                [loss, tf.train.get_global_step(), train_op], dict(zip(inputs, part))
            )
            images += len(part[0])
            if step // flags.log_every > told:  # another worker may have done the steps between
                told = step // flags.log_every
                print("worker %d  step %4d  loss %.4f" % (task, step, value), flush=True)
    print(
        "worker %d  %.1f %s/s"
        % (task, images / (time.time() - begin), "images" if flags.model == "cnn" else "sentences"),
        flush=True,
    )


def main():
    """Start the cluster, or run as the process of it that TF_CONFIG names."""
    flags = training.start(__doc__, SIZES, data_format=True)
    if flags.plot:
        training.refuse(
            "argument --plot: a cluster draws nothing; --checkpoint_dir keeps its summaries for "
            "TensorBoard"
        )
    role = cluster.own_role()
    if role is None:
        cluster.launch({"ps": flags.ps, "worker": flags.workers}, flags.restarts, flags.prefix)
    elif role[1] == "ps":
        tf.train.Server(tf.train.ClusterSpec(role[0]), "ps", role[2]).join()
    else:
        work(flags, tf.train.ClusterSpec(role[0]), role[2])


if __name__ == "__main__":
    main()
