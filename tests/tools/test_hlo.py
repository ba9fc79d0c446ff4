"""The lowering of a training step to HLO."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.options import AuditOptions
from graphmp.errors import GraphmpError
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.lowered import needs_xla, net, written
from tests.support.places import TOOLS

NO_SCALE = dict(compute_dtype="bfloat16", loss_scale="none")
FIXED_SCALE = dict(compute_dtype="float16", loss_scale=128)


def lowered(tool, meta_graph, **options):
    """The step of a graph, or of its conversion."""
    converted = graphmp.convert(meta_graph, **options).meta_graph if options else meta_graph
    source = tool("hlo.lowering").Source(meta_graph, [], AuditOptions(batch_size=4))
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
    assert done.returncode == 2 and "found nothing, accepted: alexnet, " in done.stderr
