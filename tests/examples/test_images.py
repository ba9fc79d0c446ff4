"""The examples that classify images: sizes, pictures read from files, softmax, recipe steps."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.gallery import build, path_of, pictures

VARIABLES = {
    "conv/kernel",
    "hidden/kernel",
    "hidden/bias",
    "logits/kernel",
    "logits/bias",
}  # of the recipe's model: the nodes that float16 affects
NORM = {"norm/gamma", "norm/beta"}


def test_a_full_alexnet_is_torchvisions(module, graph):
    counts = build(module("alexnet"), *pictures(), 1000, 64, 0.1, "channels_last")
    assert sum(counts.values()) == 61100840
    assert counts["fc6"] == (6 * 6 * 256 + 1) * 4096


@pytest.mark.unit
def test_a_full_googlenet_is_the_papers(module, graph):
    counts = build(module("googlenet"), *pictures(), 1000, 64, 5, 0.1, "channels_last")
    auxiliary = sum(count for scope, count in counts.items() if scope.startswith("auxiliary"))
    assert (
        sum(counts.values()) == 13378280 and sum(counts.values()) - auxiliary == 6998552
    )  # as Caffe's bvlc_googlenet
    assert images(graph) == {28: [256, 480], 14: [512, 512, 512, 528, 832], 7: [832, 1024]}
    assert len(graph.get_collection(tf.GraphKeys.LOSSES)) == 3


@pytest.mark.unit
def test_a_full_inception_v2_is_slims(module, graph):
    counts = build(module("inception_v2"), *pictures(), 1000, 64, 4, 0.1, "channels_last")
    base = (
        sum(counts.values()) - counts["logits"] + normalised()
    )  # slim's count has means and variances, and no scales
    assert (
        base == 10173112 + 2 * 64
    )  # the first convolution has a bias instead of the normalisation
    assert images(graph) == {28: [256, 320], 14: [576] * 5, 7: [1024] * 3}
    depthwise = graph.get_operation_by_name("stem/separable_conv2d/depthwise")
    assert depthwise.outputs[0].shape.as_list() == [None, 112, 112, 24]


@pytest.mark.slow
def test_a_full_inception_v3_is_torchvisions(module, graph):
    inputs = tf.placeholder(tf.float32, [None, 299, 299, 3]), tf.placeholder(tf.int32, [None])
    counts = build(module("inception_v3"), *inputs, 1000, 32, 4, 0.1, "channels_last")
    assert sum(counts.values()) == 27161264
    assert images(graph) == {35: [256, 288, 288], 17: [768] * 5, 8: [1280, 2048, 2048]}
    assert graph.get_tensor_by_name("auxiliary/whole/Conv2D:0").shape.as_list() == [None, 1, 1, 768]


def images(graph):
    """The channels of the Inception modules' images, by image height."""
    found = collections.defaultdict(list)
    for op in graph.get_operations():
        if op.type == "ConcatV2" and op.name.startswith("inception") and op.name.count("/") == 1:
            found[int(op.outputs[0].shape[1])].append(int(op.outputs[0].shape[3]))
    return found


def normalised():
    """The number of normalised channels, over all layers."""
    return sum(
        int(variable.shape[0])
        for variable in tf.trainable_variables()
        if variable.op.name.endswith("/gamma")
    )


@pytest.mark.unit
def test_the_network_of_keras_is_its_examples(module, graph):
    program = module("keras_cifar10")
    program.build_training_model(*pixels(), 32, 1e-4, "softmax")
    assert (
        sum(int(np.prod(variable.shape.as_list())) for variable in tf.trainable_variables())
        == 1250858
    )


def pixels():
    return tf.placeholder(tf.uint8, [None, 32, 32, 3], name="pixels"), tf.placeholder(
        tf.int32, [None], name="labels"
    )


@pytest.mark.unit
@pytest.mark.parametrize("activation, kind", [("softmax", "Softmax"), ("sigmoid", "Sigmoid")])
def test_keras_final_activation_stays_float32_unasked(activation, kind, module, graph):
    module("keras_cifar10").build_training_model(*pixels(), 8, 1e-4, activation)
    nodes = graphmp.convert(graph).meta_graph.graph_def.node
    final = [node for node in nodes if node.op == kind]
    products = [node for node in nodes if node.op in ("Conv2D", "MatMul")]
    assert len(final) == 2 and {node.attr["T"].type for node in final} == {
        tf.float32.as_datatype_enum
    }  # in training and in the test
    assert len(products) > 12 and {node.attr["T"].type for node in products} == {
        tf.float16.as_datatype_enum
    }


def cifar10(folder, records=20):
    """Write CIFAR-10's files with few images.

    The value of a pixel encodes its file, channel, row and column.
    """
    random = np.random.RandomState(0)
    channels, rows, columns = np.meshgrid(np.arange(3), np.arange(32), np.arange(32), indexing="ij")
    for number, name in enumerate(
        ["data_batch_%d.bin" % each for each in range(1, 6)] + ["test_batch.bin"]
    ):
        planes = (100 * channels + rows + 2 * columns + number).astype(np.uint8).reshape(1, -1)
        labels = random.randint(0, 10, (records, 1)).astype(np.uint8)
        (folder / name).write_bytes(
            np.hstack([labels, np.repeat(planes, records, axis=0)]).tobytes()
        )


@pytest.mark.unit
def test_cifar10s_files_are_read(module, tmp_path):
    cifar10(tmp_path)
    program = module("keras_cifar10")
    found, labels = program.read(str(tmp_path), program.TRAINING_FILES)
    assert (found.shape, found.dtype, labels.shape, labels.dtype) == (
        (100, 32, 32, 3),
        np.uint8,
        (100,),
        np.int32,
    )
    assert found[99, 5, 7].tolist() == [
        5 + 14 + 4,
        105 + 14 + 4,
        205 + 14 + 4,
    ]  # red, green and blue of row 5, column 7
    assert labels[:20].tolist() == list(
        (tmp_path / "data_batch_1.bin").read_bytes()[:: program.RECORD]
    )


@pytest.mark.unit
def test_without_cifar10_there_are_digits(module):
    program = module("keras_cifar10")
    (images, labels), (test, _) = program.pictures("", test=False), program.pictures("", test=True)
    assert (images.shape, images.dtype, labels.dtype) == (
        (1597, 32, 32, 3),
        np.uint8,
        np.int32,
    ) and len(test) == 200
    assert images.min() == 0 and images.max() == 254 and set(labels) == set(range(10))
    assert (images[:, ::4, ::4, :1] == images[:, 3::4, 1::4]).all()  # grey squares of 4 x 4 pixels


def test_keras_learns_digits(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = forks.run(
        path_of("keras_cifar10"),
        "--smoke",
        flags=["--compute_dtype=bfloat16"] if tf.__version__ > "2" else None,
    )
    assert ended.status == 0, ended.err
    assert float(ended.out.split("test accuracy ")[1].split()[0]) > 0.5


def test_keras_trains_on_cifar10_and_is_tested(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cifar10(tmp_path)
    ended = forks.run(
        path_of("keras_cifar10"), "--smoke", "--steps=2", "--data_dir=%s" % tmp_path, flags=None
    )
    assert ended.status == 0, ended.err
    last = ended.out.splitlines()[-2:]
    assert last[0].startswith("test accuracy 0.") and last[1].endswith(" images/s")


def spoilt(folder, name, data):
    """Write the files, one of them with other content; None removes it."""
    cifar10(folder)
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, data, words",
    [
        (
            "data_batch_3.bin",
            None,
            "data_batch_3.bin: there is no such file; --data_dir takes the folder with "
            "data_batch_1.bin, ",
        ),
        (
            "data_batch_2.bin",
            b"\1" * 5000,
            "data_batch_2.bin: found 5000 bytes, accepted are records of 3073: the file is "
            "truncated, or not CIFAR-10's",
        ),
        ("data_batch_5.bin", b"", "data_batch_5.bin: found 0 bytes, accepted are records of 3073"),
        (
            "data_batch_1.bin",
            b"\x0b" * 3073,
            "data_batch_1.bin: found label 11, accepted are 0 to 9: the file is not CIFAR-10's",
        ),
    ],
)
def test_bad_files_of_cifar10(name, data, words, module, tmp_path, capsys):
    spoilt(tmp_path, name, data)
    program = module("keras_cifar10")
    with pytest.raises(SystemExit) as ended:
        program.read(str(tmp_path), program.TRAINING_FILES)
    refused(ended.value, capsys.readouterr(), words)


def refused(ended, captured, words):
    """Assert that a program ended with status 2 and an error in one line."""
    assert (ended.code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1 and ": error: " in captured.err and words in captured.err


def imagenette(folder, each=4, classes=3):
    """Write JPEG pictures in Imagenette's folders, with one colour per class.

    Heights and widths differ.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        colours = tf.placeholder(tf.uint8, [None, None, 3])
        encoded = tf.image.encode_jpeg(colours, quality=95)
        for number in range(classes):
            target = folder / "train" / ("n0%d" % number)
            target.mkdir(parents=True)
            for picture in range(each):
                flat = np.full((20 + picture, 30, 3), 80 * number, np.uint8)
                (target / ("%d.JPEG" % picture)).write_bytes(session.run(encoded, {colours: flat}))
    return str(folder)


def test_imagenettes_pictures_are_resized_once(module, tmp_path, monkeypatch):
    folder = imagenette(tmp_path)
    program = module("imagenette")
    found, labels = program.read(folder, 16)
    assert (found.shape, found.dtype, labels.dtype) == ((12, 16, 16, 3), np.uint8, np.int32)
    assert isinstance(found, np.memmap) and not found.flags.writeable
    assert labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.abs(found.astype(int) - 80 * labels[:, None, None, None]).max() <= 1
    (cache,) = tmp_path.glob("*.*")
    assert cache.name.startswith("train_16_") and cache.suffix == ".npy"
    monkeypatch.setattr(program, "_resize", None)  # not called again
    assert np.array_equal(program.read(folder, 16)[0], found)
    (tmp_path / "train" / "n00" / "0.JPEG").unlink()
    with pytest.raises(TypeError):  # other pictures: another file
        program.read(folder, 16)


def test_imagenette_trains_by_epochs(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = imagenette(tmp_path / "data")
    argv = ["--smoke", "--epochs=2", "--batch_size=4", "--log_every=1", "--data_dir=" + folder]
    ended = forks.run(path_of("imagenette"), *argv, flags=None)
    assert ended.status == 0, ended.err
    assert [line.split()[:2] for line in ended.out.splitlines()[:-1]] == [
        ["step", str(step)] for step in range(1, 7)
    ]  # 12 pictures, 4 per step
    ended = forks.run(path_of("imagenette"), "--smoke", "--data_dir=" + folder, flags=None)
    assert (ended.status, ended.out) == (
        2,
        "",
    ) and "argument --batch_size: found 16, accepted is 12 at most" in ended.err


@pytest.mark.parametrize("data", [b"no picture", None])
def test_bad_pictures(data, module, tmp_path, capfd):
    folder = imagenette(tmp_path, each=1)
    bad = tmp_path / "train" / "n01" / "0.JPEG"
    bad.write_bytes(bad.read_bytes()[:100] if data is None else data)
    size = bad.stat().st_size
    with pytest.raises(SystemExit) as ended:
        module("imagenette").read(folder, 16)
    assert ended.value.code == 2
    assert (
        "%s: found %d bytes that are no JPEG picture, or not all of one" % (bad, size)
        in capfd.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_a_folder_without_pictures(module, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        module("imagenette").read(str(tmp_path), 16)
    refused(
        ended.value,
        capsys.readouterr(),
        "found 0 pictures in 0 folders, accepted is a folder with train/CLASS/NAME.JPEG, 10 "
        "classes at most",
    )


@pytest.fixture(scope="module")
def steps(forks, tmp_path_factory):
    """The folder that talk_steps.py wrote, and its output."""
    folder = tmp_path_factory.mktemp("steps")
    argv = [
        "--image_size=8",
        "--nlabel=10",
        "--data_format=channels_last",
        "-o",
        str(folder / "out"),
    ]
    ended = forks.run(path_of("talk_steps"), *argv, flags=None)
    assert ended.status == 0, ended.err
    return folder / "out", ended.out


STEPS = ["original", "float16", "float32_loss", "float32_storage", "loss_scale", "clip"]


def step_graph(folder, number):
    graph = tf.MetaGraphDef()
    graph.ParseFromString((folder / ("%d_%s.meta" % (number, STEPS[number]))).read_bytes())
    return graph


def changes(folder, number):
    """The changes of a step, by category."""
    return collections.defaultdict(
        list, graphmp.diff(step_graph(folder, number - 1), step_graph(folder, number)).groups()
    )


def dtypes(found):
    """The nodes whose dtype changed, as `before -> after`."""
    result = collections.defaultdict(set)
    for change in found["dtype"]:
        result["%s -> %s" % (change.before, change.after)].add(change.node)
    return result


def added_ops(folder, number, found):
    ops = {node.name: node.op for node in step_graph(folder, number).graph_def.node}
    return collections.Counter(ops[change.node] for change in found["node added"])


def test_the_steps_are_written_and_shown(steps):
    folder, out = steps
    expected = {"%d_%s.meta" % each for each in enumerate(STEPS)} | {
        "%d_%s.html" % each for each in enumerate(STEPS) if each[0]
    }
    assert {path.name for path in folder.iterdir()} == expected
    assert [line for line in out.splitlines() if line.startswith("== ")] == [
        "== %s -> %s" % pair for pair in zip(STEPS, STEPS[1:])
    ]
    assert len(out.splitlines()) < 300


def test_float16_casts_the_images_and_all_of_the_model_follows(steps):
    found = changes(steps[0], 1)
    narrowed = dtypes(found)["float32 -> float16"]
    assert set(dtypes(found)) == {"float32 -> float16"}
    assert (
        VARIABLES | {"conv/Conv2D", "hidden/MatMul", "logits/MatMul"} <= narrowed
        and not NORM & narrowed
    )
    assert set(added_ops(steps[0], 1, found)) == {"Cast"} and not found["node removed"]


def test_float32_loss_casts_the_logits(steps):
    found = changes(steps[0], 2)
    assert {change.node for change in found["node added"]} == {
        "Cast_1",
        "gradients/Cast_1_grad/Cast",
    }
    assert all(
        "sparse_softmax_cross_entropy_loss" in change.node and "Cast" in change.node
        for change in found["node removed"]
    )
    assert set(dtypes(found)) == {"float16 -> float32"}
    assert (
        not {"conv/Conv2D", "hidden/MatMul", "logits/MatMul"} & dtypes(found)["float16 -> float32"]
        and len(found["dtype"]) == 3
    )


def test_float32_storage_widens_the_variables_and_casts_where_they_are_read(steps):
    found = changes(steps[0], 3)
    assert set(dtypes(found)) == {"float16 -> float32"}
    widened = dtypes(found)["float16 -> float32"]
    assert (
        VARIABLES | {name + "/Momentum" for name in VARIABLES} <= widened
        and not {"conv/Conv2D", "hidden/MatMul", "logits/MatMul"} & widened
    )
    casts = {name + "/float16" for name in VARIABLES} | {
        "gradients/%s/float16_grad/Cast" % name for name in VARIABLES
    }
    assert {change.node for change in found["node added"]} == casts


def test_loss_scale_multiplies_the_loss_and_divides_the_gradients(steps):
    found = changes(steps[0], 4)
    ops = added_ops(steps[0], 4, found)
    assert (
        ops["RealDiv"] == len(VARIABLES | NORM) and ops["Mul"] == 3
    )  # the loss, and the two gradients of that product
    assert set(found) & {"dtype", "node removed", "edge via cast"} == set()
    updates = {change.node for change in found["rewired"] if "ApplyMomentum" in change.node}
    assert updates == {"Momentum/update_%s/ApplyMomentum" % name for name in VARIABLES | NORM}


def test_clip_puts_the_global_norm_in_between(steps):
    found = changes(steps[0], 5)
    assert {change.node.partition("/")[0] for change in found["node added"]} == {
        "clip_by_global_norm",
        "global_norm",
    }
    assert added_ops(steps[0], 5, found)["L2Loss"] == len(VARIABLES | NORM)
    assert {change.category for each in found.values() for change in each} == {
        "node added",
        "rewired",
        "meta graph",
    }


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_each_step_trains(number, steps, graph):
    tf.train.import_meta_graph(step_graph(steps[0], number))
    variables = {variable.op.name: variable for variable in tf.trainable_variables()}
    (loss,), (train_op,) = (
        graph.get_collection(key) for key in (tf.GraphKeys.LOSSES, tf.GraphKeys.TRAIN_OP)
    )
    random = np.random.RandomState(0)
    feed = {"inputs:0": random.uniform(-1, 1, (4, 8, 8, 3)), "labels:0": random.randint(0, 10, 4)}
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        value, _ = session.run([loss, train_op], feed)
        after = session.run(variables)
        assert np.isfinite(value) and session.run(loss, feed) < value
    assert all(
        np.any(before[name] != after[name]) and np.all(np.isfinite(after[name]))
        for name in variables
    )
    half = {name for name, array in after.items() if array.dtype == np.float16}
    assert half == (VARIABLES if STEPS[number] in ("float16", "float32_loss") else set())
