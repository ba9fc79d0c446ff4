"""The export of a training step to HLO, and its timing."""

import collections
import importlib
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.options import Options
from graphmp.bench.kernels.names import uses_tensor_cores
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.places import ROOT, TOOLS

needs_xla = pytest.mark.skipif(
    tf.__version__ < "2", reason="XLA can be called ahead of time on TensorFlow 2 only"
)
needs_jax = pytest.mark.skipif(
    tf.__version__ < "2" or importlib.util.find_spec("jax") is None,
    reason="needs TensorFlow 2 and JAX: pip install 'graphmp[hlo]'",
)
NO_SCALE = dict(compute_dtype="bfloat16", loss_scale="none")
FIXED_SCALE = dict(compute_dtype="float16", loss_scale=128)


@pytest.fixture
def tool(monkeypatch):
    """Import a tool or one of its modules by name, as Python would from its folder."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module


def net(use_resource=False, steady=False):
    """A convolution, a dense layer, momentum and a step counter, on batches of any size.

    With `steady`, the values are the same in every run. Returns the MetaGraphDef.
    """
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        image, label = (
            tf.placeholder(tf.float32, [None, 8, 8, 4], "image"),
            tf.placeholder(tf.int64, [None], "label"),
        )
        start = dict(initializer=tf.constant_initializer(0.02)) if steady else {}
        filters = tf.get_variable("filters", [3, 3, 4, 8], **start)
        weights = tf.get_variable("weights", [128, 10], **start)
        hidden = tf.nn.relu(tf.nn.conv2d(image, filters, [1, 2, 2, 1], "SAME"))
        logits = tf.matmul(tf.reshape(hidden, [-1, 128]), weights)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="loss"
        )
        step = tf.train.create_global_step()
        tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, global_step=step)
        return tf.train.export_meta_graph()


def written(tmp_path, meta_graph):
    path = tmp_path / "net.meta"
    path.write_bytes(serialize(meta_graph))
    return path


def lowered(tool, meta_graph, **options):
    """The step of a graph, or of its conversion."""
    converted = graphmp.convert(meta_graph, **options).meta_graph if options else meta_graph
    source = tool("hlo.lowering").Source(meta_graph, [], Options(batch_size=4))
    return source.lower(converted), converted


def session_step(meta_graph, step, updates):
    """A session's results on the same batch and variables: losses, and variables written."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        for parameter in step.parameters:
            if parameter.is_variable:
                session.run(variables[parameter.name].initializer)
                variables[parameter.name].load(parameter.first, session)
        feeds = {
            parameter.name: parameter.first
            for parameter in step.parameters
            if not parameter.is_variable
        }
        losses = session.run({name: name + ":0" for name in step.losses}, feeds)
        session.run([graph.get_operation_by_name(name) for name in updates], feeds)
        names = [step.parameters[number].name for number in step.written]
        return dict(losses, **session.run({name: variables[name] for name in names}))


@needs_xla
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize(
    "options, tolerance",
    [({}, 1e-5), (FIXED_SCALE, 4e-3), (NO_SCALE, 3e-2)],
    ids=["float32", "float16", "bfloat16"],
)
def test_a_lowered_step_computes_what_a_session_does(tool, use_resource, options, tolerance):
    meta_graph = net(use_resource)
    step, converted = lowered(tool, meta_graph, **options)
    assert [parameter.name for parameter in step.parameters if not parameter.is_variable] == [
        "image:0",
        "label:0",
    ]
    assert step.losses == ["loss"] and len(step.written) == 4
    found = step.run()
    for name, value in session_step(
        converted, step, tool("hlo.step").find_step(meta_graph, []).updates
    ).items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
    moved = [
        number
        for number in step.written
        if np.any(found[step.parameters[number].name] != step.parameters[number].first)
    ]
    assert moved == step.written


@needs_xla
@pytest.mark.parametrize(
    "flags, column, precision",
    [([], "float32", 2), (["--as", "tf32"], "tf32", 0), (["--as", "converted"], "float16", 2)],
    ids=lambda value: str(value),
)
def test_export_writes_the_program_and_what_is_to_know_of_it(
    tool, tmp_path, monkeypatch, capsys, flags, column, precision
):
    monkeypatch.chdir(tmp_path)
    assert (
        tool("export_hlo").main([str(written(tmp_path, net())), "--batch_size", "4", *flags]) == 0
    )
    path = pathlib.Path("net.%s.hlo" % column)
    sidecar = json.loads(path.with_suffix(".json").read_text())
    # the convolution and its filter's gradient, 4 x 4 positions of 3 x 3 without padding; three
    # matmuls
    flops = 2 * 2 * 4 * 4 * 8 * (3 * 4 - 1) ** 2 + 3 * 2 * 4 * 128 * 10
    dtype = "float32" if column == "tf32" else column
    assert (sidecar["flops"], sidecar["products"]) == ({dtype: flops}, {dtype: 5})
    assert sidecar["column"] == column
    assert [
        (each["name"], each["role"], each["dtype"], each["shape"]) for each in sidecar["parameters"]
    ][:2] == [
        ("image:0", "feed", "float32", [4, 8, 8, 4]),
        ("label:0", "feed", "int64", [4]),
    ]
    variables = {
        number: each["name"]
        for number, each in enumerate(sidecar["parameters"])
        if each["role"] == "variable"
    }
    assert sorted(variables.values()) == [
        "filters",
        "filters/Momentum",
        "weights",
        "weights/Momentum",
    ]
    assert sidecar["results"][0] == {"name": "loss", "role": "loss"}
    assert [(each["parameter"], each["name"]) for each in sidecar["results"][1:]] == list(
        variables.items()
    )
    values = {each["name"]: each["values"] for each in sidecar["parameters"]}
    assert values["weights/Momentum"] == {"kind": "constant", "value": 0.0}
    assert (
        values["label:0"]["kind"] == "integers"
        and 0 <= values["label:0"]["low"] <= values["label:0"]["high"] < 10
    )
    assert abs(values["weights"]["std"] - np.sqrt(2 / (128 + 10))) < 0.01
    module = tool("hlo.lowering").hlo_pb2.HloModuleProto.FromString(path.read_bytes())
    found = [
        i
        for computation in module.computations
        for i in computation.instructions
        if i.opcode in ("dot", "convolution")
    ]
    assert {tuple(i.precision_config.operand_precision) for i in found} == {(precision, precision)}
    assert b"/site-packages/" not in path.read_bytes()
    assert (
        capsys.readouterr().out
        == "%s: 5 %s matmuls and convolutions, 9.27e-05 GFLOP a step, 6 parameters\n"
        % (path, dtype)
    )


@needs_xla
def test_the_same_files_each_time(tool, tmp_path):
    source = str(written(tmp_path, net()))
    for name in ("a.hlo", "b.hlo"):
        assert tool("export_hlo").main([source, "-o", str(tmp_path / name)]) == 0
    for ending in (".hlo", ".json"):
        assert (tmp_path / "a").with_suffix(ending).read_bytes() == (tmp_path / "b").with_suffix(
            ending
        ).read_bytes()


@needs_xla
def test_several_programs_of_a_graph_at_once(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    programs = ["--as", "float32", "--as", "converted", "--as", "own"]
    assert tool("export_hlo").main([str(written(tmp_path, net())), *programs]) == 0
    lines = [line.split(" matmuls")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "net.float32.hlo: 5 float32",
        "net.float16.hlo: 5 float16",
        "net.own.hlo: 5 float16",
    ]
    first, half, own = (
        json.loads((tmp_path / ("net.%s.json" % name)).read_text())
        for name in ("float32", "float16", "own")
    )
    assert first["parameters"] == half["parameters"] == own["parameters"]
    assert own["column"] == half["column"] == "float16"
    with pytest.raises(SystemExit):
        tool("export_hlo").parse(["net.meta", "-o", "a.hlo", *programs])
    assert "found 3 programs, accepted is one" in capsys.readouterr().err


@needs_xla
def test_a_batch_of_the_users_own(tool, tmp_path):
    np.savez(tmp_path / "data.npz", image=np.ones([6, 8, 8, 4], np.float32), label=np.full([6], 3))
    flags = [
        "--data",
        str(tmp_path / "data.npz"),
        "--batch_size",
        "6",
        "-o",
        str(tmp_path / "out.hlo"),
    ]
    assert tool("export_hlo").main([str(written(tmp_path, net())), *flags]) == 0
    image, label = json.loads((tmp_path / "out.json").read_text())["parameters"][:2]
    assert (image["shape"], image["values"]) == ([6, 8, 8, 4], {"kind": "constant", "value": 1.0})
    assert (label["shape"], label["values"]) == ([6], {"kind": "constant", "value": 3})


@needs_xla
def test_a_feed_that_decides_on_a_shape_becomes_a_constant(tool, tmp_path):
    with tf.Graph().as_default():
        x, rows = tf.placeholder(tf.float32, [8, 6], "x"), tf.placeholder(tf.int32, [], "rows")
        weight = tf.get_variable("weight", [12, 1])
        product = tf.matmul(tf.reshape(x, tf.stack([rows, 12])), weight)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(product))
        meta_graph = tf.train.export_meta_graph()
    np.savez(tmp_path / "data.npz", x=np.ones([8, 6], np.float32), rows=np.int32(4))
    flags = ["--data", str(tmp_path / "data.npz"), "-o", str(tmp_path / "out.hlo")]
    assert tool("export_hlo").main([str(written(tmp_path, meta_graph)), *flags]) == 0
    sidecar = json.loads((tmp_path / "out.json").read_text())
    assert sidecar["constants"] == ["rows:0"]
    assert [each["name"] for each in sidecar["parameters"]] == ["x:0", "weight"]


def looped():
    with tf.Graph().as_default():
        tf.disable_control_flow_v2()
        weight = tf.get_variable("weight", [4, 4])
        _, product = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, x: [i + 1, tf.matmul(x, weight)],
            [0, tf.ones([4, 4])],
            name="steps",
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(product))
        return tf.train.export_meta_graph()


def sampled():
    with tf.Graph().as_default():
        weight, label = tf.get_variable("weight", [20, 4]), tf.placeholder(tf.int64, [8, 1])
        loss = tf.nn.nce_loss(weight, tf.zeros([20]), label, tf.ones([8, 4]), 5, 20)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(loss))
        return tf.train.export_meta_graph()


def untrained():
    with tf.Graph().as_default():
        tf.matmul(tf.ones([2, 2]), tf.get_variable("weight", [2, 2]))
        return tf.train.export_meta_graph()


def uninitialised():
    with tf.Graph().as_default():
        start = tf.placeholder(tf.float32, [2, 2])
        weight = tf.get_variable("weight", initializer=start, use_resource=False)
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_sum(tf.matmul(tf.ones([2, 2]), weight))
        )
        return tf.train.export_meta_graph()


def skipping():
    return graphmp.convert(
        net(), compute_dtype="float16", loss_scale="dynamic", loss_scale_initial=128
    ).meta_graph


@needs_xla
@pytest.mark.parametrize(
    "build, words",
    [
        (
            looped,
            "GMP020: node steps/Enter: the step goes through the while loop steps/while_context, "
            "and XLA lowers no while loop of TensorFlow 1",
        ),
        (
            sampled,
            "GMP020: XLA does not lower the step: it has no kernel for "
            "LogUniformCandidateSampler (node nce_loss/LogUniformCandidateSampler)",
        ),
        (untrained, "GMP023: no training step was found in the graph; name it with --train_op=OP"),
        (uninitialised, "GMP024: variable weight: no initialiser in the graph gives it a value: "),
        (
            skipping,
            "is skipped by a Switch, and XLA lowers no Switch; export the original with "
            "--as=converted, or convert it with --loss_scale=128",
        ),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(tool, tmp_path, capfd, build, words):
    assert (
        tool("export_hlo").main([str(written(tmp_path, build())), "-o", str(tmp_path / "out.hlo")])
        == 2
    )
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("graphmp: error GMP0") and words in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.meta"]


@pytest.mark.unit
@pytest.mark.skipif(tf.__version__ > "2", reason="TensorFlow 2 has what the tool needs")
def test_export_says_that_it_needs_tensorflow_2(tool, capsys):
    assert tool("export_hlo").main(["graph.meta"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("export_hlo: found TensorFlow 1.")


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags", [["--loss_scale", "dynamic"], ["--batch_size", "0"], ["-o", "net.json"]]
)
def test_bad_flags(tool, flags, capsys):
    with pytest.raises(SystemExit) as stopped:
        tool("export_hlo").parse(["graph.meta", *flags])
    assert stopped.value.code == 2 and "accepted are" in capsys.readouterr().err


def stateful():
    """Ops on reference variables of many kinds, in an order set by control edges.

    Returns the GraphDef, its initialisers, and the ops to run.
    """
    with tf.Graph().as_default() as graph:
        v, m, n = (
            tf.get_variable(
                name, [4, 2], initializer=tf.constant_initializer(0.5), use_resource=False
            )
            for name in "vmn"
        )
        count = tf.get_variable(
            "count", [], tf.int64, initializer=tf.zeros_initializer(), use_resource=False
        )
        gradient = tf.constant(np.arange(8.0).reshape(4, 2), tf.float32)
        ops = [lambda: tf.raw_ops.ApplyAdam(
            var=v._ref(), m=m._ref(), v=n._ref(), beta1_power=0.9, beta2_power=0.99,
            lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-3, grad=gradient,
        )]  # fmt: skip
        ops += [
            lambda: tf.assign_add(v, gradient),
            lambda: tf.assign_sub(m, 2 * gradient),
            lambda: tf.assign(n, v._ref() + 1),
        ]
        ops += [
            lambda: tf.scatter_add(v, [1, 1], [[1.0, 2.0], [3.0, 4.0]]),
            lambda: tf.scatter_nd_update(m, [[0]], [[7.0, 8.0]]),
        ]
        ops += [
            lambda: tf.raw_ops.ApplyGradientDescent(var=n._ref(), alpha=0.5, delta=gradient),
            lambda: tf.assign_add(count, 2),
        ]
        ops += [
            lambda: tf.raw_ops.SparseApplyAdagrad(
                var=v._ref(), accum=n._ref(), lr=0.1, grad=gradient[:2], indices=[3, 0]
            )
        ]
        last = []
        for make in ops:
            with tf.control_dependencies(last):
                last = [
                    tf.reduce_sum(tf.cast(make(), tf.float32)).op
                ]  # reads the reference that the op returns
        with tf.control_dependencies(last):
            tf.identity(
                tf.reduce_sum(v._ref()) * tf.cast(tf.is_variable_initialized(v), tf.float32),
                name="after",
            )
        return graph.as_graph_def(), [variable.initializer.name for variable in (v, m, n, count)]


def values_of(graph_def, initializers, fetches, feeds=None):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        session.run(initializers)
        return session.run(fetches, feeds)


def op_defs(graph_def):
    return OpDefs(tf.MetaGraphDef(graph_def=graph_def))


def test_reference_variables_become_resource_variables(tool):
    graph_def, initializers = stateful()
    rewritten = tool("hlo.resources").with_resource_variables(graph_def, op_defs(graph_def))
    ops = {node.op for node in rewritten.node}
    assert {
        "ResourceApplyAdam",
        "AssignAddVariableOp",
        "ResourceScatterAdd",
        "ResourceScatterNdUpdate",
        "ResourceSparseApplyAdagrad",
    } <= ops
    assert not ops & {"VariableV2", "Assign", "ApplyAdam", "ScatterAdd", "IsVariableInitialized"}
    fetches = ["after:0"] + [node.name + ":0" for node in graph_def.node if node.op == "Sum"]
    for name, expected, found in zip(
        fetches, *(values_of(graph, initializers, fetches) for graph in (graph_def, rewritten))
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


@pytest.mark.unit
def test_an_op_without_a_namesake_for_resources_is_named(tool):
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("counter", [], tf.int32, use_resource=False)
        tf.raw_ops.CountUpTo(ref=variable._ref(), limit=5, name="up") if hasattr(
            tf.raw_ops, "CountUpTo"
        ) else tf.count_up_to(variable, 5, name="up")
        tf.raw_ops.RefSelect(index=0, inputs=[variable._ref(), variable._ref()], name="either")
        graph_def = graph.as_graph_def()
    with pytest.raises(
        GraphmpError, match="GMP020: node either: RefSelect takes a reference to a variable"
    ):
        tool("hlo.resources").with_resource_variables(graph_def, op_defs(graph_def))


@pytest.mark.unit
def test_reads_come_before_writes_that_no_edge_orders(tool):
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
        read = variable.read_value()
        write = variable.assign_add(1.0, read_value=False)
        with tf.control_dependencies([write]):
            late = variable.read_value()
        graph_def = graph.as_graph_def()
    tool("hlo.resources").reads_first(graph_def)
    nodes = {node.name: node for node in graph_def.node}
    assert "^" + read.op.inputs[0].op.name in nodes[write.name].input
    assert "^" + late.op.inputs[0].op.name not in nodes[write.name].input


def conditional():
    """A conditional with another in one branch, and its gradient."""
    with tf.Graph().as_default() as graph:
        tf.disable_control_flow_v2()
        outer, inner, x = (
            tf.placeholder(tf.bool, [], "outer"),
            tf.placeholder(tf.bool, [], "inner"),
            tf.placeholder(tf.float32, [3], "x"),
        )
        product = tf.cond(
            outer,
            lambda: tf.cond(inner, lambda: x * x, lambda: 3 * x) + tf.constant(1.0),
            lambda: -x,
            name="either",
        )
        tf.identity(product, name="product")
        tf.identity(tf.gradients(product, [x])[0], name="gradient")
        return graph.as_graph_def()


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_conditionals_become_selections(tool, outer, inner):
    graph_def = conditional()
    rewritten = tool("hlo.conditionals").selected(graph_def)
    assert not {node.op for node in rewritten.node} & {"Switch", "Merge"}
    feeds = {"outer:0": outer, "inner:0": inner, "x:0": [1.0, 2.0, 3.0]}
    for expected, found in zip(
        *(
            values_of(graph, [], ["product:0", "gradient:0"], feeds)
            for graph in (graph_def, rewritten)
        )
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.unit
def test_a_write_in_a_branch_is_refused(tool):
    with tf.Graph().as_default() as graph:
        tf.disable_control_flow_v2()
        variable = tf.get_variable("v", [], use_resource=True)
        tf.cond(
            tf.placeholder(tf.bool, [], "predicate"),
            lambda: variable.assign_add(1.0).op,
            tf.no_op,
            name="maybe",
        )
    with pytest.raises(
        GraphmpError,
        match="GMP020: node maybe/AssignAddVariableOp: it writes in a branch of a conditional, "
        "on predicate",
    ):
        tool("hlo.conditionals").selected(graph.as_graph_def())


@pytest.mark.unit
def test_time_says_that_jax_is_missing(tool, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert tool("time_hlo").main(["a.hlo"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert (
        len(error) == 1
        and error[0].startswith("time_hlo: ")
        and error[0].endswith("pip install 'graphmp[hlo]', on a GPU jax[cuda13]")
    )


@pytest.mark.unit
def test_the_table_of_timed_files(tool):
    row = dict(
        file="a/net.float32.hlo",
        column="float32",
        ms=2.0,
        ms_quartiles=[1.9, 2.2],
        times=1.0,
        gflops=50.0,
        of_rate=0.5,
        memory=3 * 2**20,
        losses=[0.25],
    )
    row.update(
        products={"f32 dot": 3},
        kernels=[
            dict(name="s884", milliseconds=0.75, tensor_core=True),
            dict(name="add", milliseconds=0.25, tensor_core=False),
        ],
    )
    lines = (
        tool("hlo.shown")
        .shown(
            {
                "device": "d",
                "platform": "gpu",
                "jax": "1",
                "matmul_gflops": {"float32": 100.0},
                "files": [row],
            }
        )
        .splitlines()
    )
    assert lines[0] == "d (gpu), JAX 1; large matmuls, GFLOP/s: float32 100"
    assert lines[3].split() == [
        "net.float32.hlo",
        "float32",
        "2.000",
        "1.900..2.200",
        "1.00",
        "50.0",
        "50.0%",
        "3",
        "MiB",
        "0.25",
    ]
    assert lines[5:] == [
        "net.float32.hlo: 3 f32 dot",
        "  1.000 ms of kernels a step, 75.0% on Tensor Cores",
        "  *    0.750 ms  s884",
        "       0.250 ms  add",
    ]


def timed(*arguments):
    """Run time_hlo.py in another process, without TensorFlow."""
    command = [
        sys.executable,
        str(TOOLS / "time_hlo.py"),
        "--platform",
        "cpu",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@needs_jax
def test_files_are_timed_beside_each_other(tool, tmp_path):
    source = str(written(tmp_path, net(steady=True)))
    np.savez(
        tmp_path / "data.npz", image=np.full([4, 8, 8, 4], 0.5, np.float32), label=np.full([4], 3)
    )
    paths = [tmp_path / name for name in ("a.hlo", "b.hlo", "c.hlo")]
    for path, flags in zip(
        paths, ([], ["--as", "tf32"], ["--as", "converted", "--compute_dtype", "bfloat16"])
    ):
        assert (
            tool("export_hlo").main(
                [source, "--data", str(tmp_path / "data.npz"), "-o", str(path), *flags]
            )
            == 0
        )
    done = timed(*paths, "--rounds", 1, "--steps", 1, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["column"] for row in found["files"]] == ["float32", "tf32", "bfloat16"]
    assert set(found["matmul_gflops"]) == {"float32", "tf32", "bfloat16"}
    for row, expected in zip(found["files"], [third_loss(source)] * 3):
        assert row["losses"] == [
            pytest.approx(expected, rel=1e-5 if row["column"] != "bfloat16" else 2e-2)
        ]
        assert row["ms"] > 0 and row["gflops"] > 0 and row["of_rate"] > 0 and row["products"]
    assert found["files"][0]["times"] == 1


@needs_jax
def test_programs_are_timed_one_after_another(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = str(written(tmp_path, net(steady=True)))
    programs = ["--as", "float32", "--as", "own"]
    assert tool("export_hlo").main([source, "--batch_size", "4", *programs]) == 0
    for file in list(tmp_path.glob("net.*.*")):
        (tmp_path / file.name.replace("net", "another")).write_bytes(file.read_bytes())
    (tmp_path / "net.broken.hlo").write_bytes(b"no program")
    (tmp_path / "net.broken.json").write_bytes((tmp_path / "net.own.json").read_bytes())
    flags = ["--programs", "--rounds", 2, "--steps", 1, "--jobs", 2, "--losses", 3, "--json"]
    done = timed(*flags, *sorted(tmp_path.glob("*.hlo")))
    assert done.returncode == 0 and "net.broken.hlo: JAX" in done.stderr
    results = tmp_path / "results.jsonl"
    results.write_text(done.stdout)
    found = tool("gpu_table").programs([json.loads(line) for line in done.stdout.splitlines()])
    assert {name: sorted(rows) for name, rows in found.items()} == {
        name: ["float32", "own"] for name in ("another", "net")
    }
    for row in (row for rows in found.values() for row in rows.values()):
        assert len(row["rounds"]) == 2 and len(row["trained"]) == 3 and row["memory"] > 0
    trained = [[row["trained"] for row in rows.values()] for rows in found.values()]
    np.testing.assert_allclose(trained[0], trained[1])
    np.testing.assert_allclose(trained[0][0], trained[0][1], rtol=1e-2)


def timed_row(program, column, rounds, kernels, loss):
    return dict(
        file="%s.%s.hlo" % (program, column),
        ms=rounds[0],
        rounds=rounds,
        kernels=[
            dict(name=name, milliseconds=milliseconds, tensor_core=name.startswith("nvjet"))
            for name, milliseconds in kernels
        ],
        memory={"float16": 50}.get(column, 100),
        trained=[[2.0], [loss]],
    )


@pytest.mark.unit
def test_the_table_of_a_gpu(tool, tmp_path, capsys):
    line = dict(device="H", jax="1", xla_flags="--fast", matmul_gflops={"float16": 700e3})
    line["files"] = [
        timed_row("net", "float32", [8.0, 8.0, 8.0], [("sgemm", 8.0)], 1.0),
        timed_row("net", "tf32", [4.0, 4.0, 4.0], [("nvjet_s", 3.0)], 1.0),
        timed_row("net", "float16", [2.0, 2.0, 2.0], [("nvjet_h", 1.5), ("add", 0.5)], 1.01),
        timed_row("net", "own", [3.0, 3.0, 3.0], [("nvjet_h", 1.5)], 1.0),
    ]
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(line) + "\n")
    assert tool("gpu_table").main([str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == (
        "| net | 8.00 ms | 2.00 [2.00, 2.00] | 4.00 [4.00, 4.00] | - | 2.67 [2.67, 2.67] |"
        " 2.00 [2.00, 2.00] | 75% | 0.50 | 1.0e-02 | 0.0e+00 |"
    )
    assert lines[6] == "| speed-up of 1 | 4.000 | 2.000 | 1.500 |"
    assert lines[8:] == [
        "- device: H.", "- JAX: 1.", "- with `--fast`: net.", "- large matmuls, TFLOP/s: float16 700.",
    ]  # fmt: skip
    assert tool("gpu_table").main([str(results), "--kernels", "net"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "net, float32: 8.00 ms of kernels a step, 0% of it on Tensor Cores",
        "       8.000 ms  sgemm",
    ]
    assert lines[4:7] == [
        "net, float16: 2.00 ms of kernels a step, 75% of it on Tensor Cores",
        "  *    1.500 ms  nvjet_h",
        "       0.500 ms  add",
    ]
    with pytest.raises(SystemExit):
        tool("gpu_table").main([str(results), "--kernels", "nut"])
    assert "found nut, accepted: net" in capsys.readouterr().err


@pytest.mark.unit
def test_the_page_on_gpus_has_what_was_measured(tool, capsys):
    results, page = ROOT / "examples" / "gpu.jsonl", (ROOT / "docs" / "gpu.md").read_text("utf-8")
    assert tool("gpu_table").main([str(results)]) == 0
    assert "<!-- gpu -->\n%s<!-- end gpu -->" % capsys.readouterr().out in page
    assert tool("gpu_table").main([str(results), "--kernels", "resnet50", "transformer"]) == 0
    assert "```\n%s\n```\n<!-- end gpu kernels" % capsys.readouterr().out.rstrip() in page


@pytest.mark.unit
def test_kernels_seen_on_a_gpu_are_told_apart(tool):
    """All matmuls and convolutions of half precision ran on Tensor Cores, none of float32."""
    lines = (ROOT / "examples" / "gpu.jsonl").read_text("utf-8").splitlines()
    multiplies = re.compile(r"gemm|conv\d|fprop|dgrad|wgrad|nvjet")
    cut = 160  # letters of a name in the file
    others = re.compile(r"init_device_workspace|short kernels")
    seen = collections.Counter()
    for row in (row for line in lines for row in json.loads(line)["files"]):
        for kernel in (k for k in row["kernels"] if not others.search(k["name"])):
            on = kernel["tensor_core"]
            if len(kernel["name"]) < cut:
                assert uses_tensor_cores(kernel["name"], row["column"] != "float32") == on
            if row["column"] in ("float32", "float16", "bfloat16"):
                wanted = row["column"] != "float32" and bool(multiplies.search(kernel["name"]))
                assert on == wanted, (row["file"], kernel["name"])
                seen[row["column"], on] += 1
    assert min(seen["float32", False], seen["float16", True], seen["bfloat16", True]) > 20


@pytest.mark.unit
@needs_jax
def test_short_kernels_are_summed_up(tool):
    kernel = tool("hlo.seen").Kernel
    found = [kernel("a", 10.0, True), kernel("b", 0.01, True), kernel("c", 0.02, False)]
    assert tool("hlo.seen").summed_up([*found, kernel("d", 0.01, False)]) == [
        kernel("a", 10.0, True),
        kernel("2 short kernels", 0.03, False),
        kernel("1 short kernels", 0.01, True),
    ]


@needs_jax
def test_programs_for_the_plugins_of_gpus_have_no_ops_of_mhlo(tool, tmp_path):
    with tf.Graph().as_default():
        weight = tf.get_variable("weight", [4, 4])
        kept = tf.get_variable("kept", [4, 4], trainable=False)
        loss = tf.reduce_sum(tf.erf(tf.matmul(tf.ones([4, 4]), weight)))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        kept.assign(weight)
        path = written(tmp_path, tf.train.export_meta_graph())
    out = tmp_path / "out.hlo"
    assert tool("export_hlo").main([str(path), "-o", str(out)]) == 0
    text = tool("hlo.portable").stablehlo(out.read_bytes()).decode("utf-8")
    assert "stablehlo.dot" in text and "chlo.erf" in text
    assert "mhlo.erf" not in text and "mhlo.copy" not in text
    done = timed(out, "--rounds", 1, "--steps", 1)
    assert done.returncode == 0, done.stderr


@needs_xla
def test_an_example_as_xla_can_lower_it(tmp_path):
    path = tmp_path / "lstm.meta"
    command = [sys.executable, str(TOOLS / "static_graph.py"), "lstm", "-o", str(path)]
    done = subprocess.run([*command, "--smoke", "--length=3"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
    graph_def = tf.MetaGraphDef.FromString(path.read_bytes()).graph_def
    ops = [node.op for node in graph_def.node]
    assert "Enter" not in ops and "While" not in ops and ops.count("MatMul") > 12
    shapes = [node.attr["shape"].shape for node in graph_def.node if node.op == "Placeholder"]
    assert [[dim.size for dim in shape.dim] for shape in shapes] == [[8, 3], [8, 3]]
    done = subprocess.run([*command[:2], "nothing", *command[3:]], capture_output=True, text=True)
    assert done.returncode == 2 and "found no examples/nothing.py" in done.stderr


def third_loss(source):
    """The loss of the third step: time_hlo.py compiles with one, warms up with one, times one."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(source)
        session.run(tf.global_variables_initializer())
        feeds = {"image:0": np.full([4, 8, 8, 4], 0.5), "label:0": np.full([4], 3)}
        train = graph.get_collection(tf.GraphKeys.TRAIN_OP)
        return [session.run(["loss:0", train], feeds)[0] for _ in range(3)][-1]


@pytest.mark.unit
@needs_jax
def test_products_of_a_program_for_a_gpu(tool):
    """XLA's lines for calls of cuBLAS and cuDNN, shortened by hand."""
    text = """
  %cublas-gemm.1 = (f16[64,512]{1,0}, s8[4194304]{0}) custom-call(%a, %b), \
custom_call_target="__cublas$gemm", backend_config={"gemm":1}
  %cudnn-conv.2 = (f16[8,8,8,16]{3,2,1,0}, u8[0]{0}) custom-call(%c, %d), window={size=3x3}, \
custom_call_target="__cudnn$convForward"
  %dot.3 = f32[8,8]{1,0} dot(%e, %f), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %sort.4 = f32[8]{0} custom-call(%g), custom_call_target="__cub$DeviceRadixSort"
  %add.5 = f32[8,8]{1,0} add(%dot.3, %e)"""
    assert tool("hlo.seen").products(text) == {
        "f16 __cublas$gemm": 1,
        "f16 __cudnn$convForward": 1,
        "f32 dot": 1,
    }


@needs_jax
@pytest.mark.parametrize(
    "sidecar, words", [(None, "cannot be read"), ("{}", "found no schema graphmp.hlo/1")]
)
def test_files_that_are_none(tmp_path, sidecar, words):
    (tmp_path / "a.hlo").write_bytes(b"no program")
    if sidecar is not None:
        (tmp_path / "a.json").write_text(sidecar)
    done = timed(tmp_path / "a.hlo")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("time_hlo: %s: " % (tmp_path / "a.json")) and words in done.stderr
