"""Costs made of traces by hand: medians, fused ops, folded ones."""

import pytest

from graphmp.tuning.assemble import (
    MeasuredNode,
    Ran,
    TracedStep,
    _alike,
    added_up,
    assemble,
    half_scale,
    start_of_one,
)
from graphmp.tuning.costs import NodeCost, Time, quickest
from tests.support.costed import signature
from tests.support.counted import Compared

pytestmark = pytest.mark.unit


def node(op, *inputs, readers=(), runs=1, shape=(4, 4)):
    return MeasuredNode(signature(op, shape), inputs, readers, runs)


def step(**nodes):
    """A traced step: nanoseconds and op by name."""
    return TracedStep({name: Ran(*row) for name, row in nodes.items()})


NODES = {
    "x": node("Identity", readers=("mm",)),
    "mm": node("MatMul", "x", "x", readers=("bias",)),
    "bias": node("BiasAdd", "mm", readers=("relu",)),
    "relu": node("Relu", "bias", readers=("mul",)),
    "mul": node("Mul", "relu", "relu"),
}
ALONE = step(
    x=(1.0, "Identity"), mm=(50.0, "MatMul"), bias=(7.0, "BiasAdd"), relu=(5.0, "Relu"),
    mul=(3.0, "Mul"),
)  # fmt: skip
FUSED = step(x=(1.0, "Identity"), relu=(40.0, "_MklNativeFusedMatMul"), mul=(2.0, "Mul"))


def time_of(found, name, half=False):
    return found.measurements[found.nodes[name].measurement][1 + half].nanoseconds


def test_nodes_that_run_alone_have_their_own_times():
    found = assemble(NODES, [ALONE], [ALONE])
    assert [time_of(found, name) for name in ("mm", "bias", "relu")] == [50.0, 7.0, 5.0]
    assert all(each.within == "" for each in found.nodes.values())


def test_a_fused_kernel_is_compared_with_the_sum_of_its_parts():
    found = assemble(NODES, [FUSED], [ALONE])
    assert found.nodes["mm"] == found.nodes["bias"] == NodeCost(-1, 1, "relu")
    assert (time_of(found, "relu"), time_of(found, "relu", half=True)) == (40.0, 62.0)
    relu = found.measurements[found.nodes["relu"].measurement].signature
    assert dict(relu.attributes) == {"fused": "BiasAdd,MatMul"}
    assert found.nodes["x"].within == ""


def test_what_is_read_elsewhere_is_in_no_kernel():
    nodes = dict(NODES, other=node("Neg", "mm"), mm=NODES["mm"]._replace(readers=("bias", "other")))
    found = assemble(nodes, [FUSED], [ALONE])
    assert found.nodes["bias"].within == "relu" and found.nodes["mm"].within == ""


def test_an_op_by_another_name_of_its_kernel_is_not_fused():
    other = step(x=(1.0, "Identity"), relu=(9.0, "_MklRelu"), mul=(2.0, "Mul"))
    found = assemble(NODES, [other], [])
    assert all(each.within == "" for each in found.nodes.values())


def test_what_never_runs_takes_no_time():
    found = assemble({"folded": node("Mul")}, [ALONE], [ALONE])
    assert found.nodes == {"folded": NodeCost(-1, 1)} and found.measurements == ()


def test_what_is_folded_in_one_type_takes_no_time_there():
    found = assemble({"mul": NODES["mul"]}, [step()], [ALONE])
    assert (time_of(found, "mul"), time_of(found, "mul", half=True)) == (0.0, 3.0)


def test_a_type_that_was_not_traced_has_no_times():
    found = assemble(NODES, [ALONE], [])
    assert [each.half for each in found.measurements] == [None] * 5


def test_the_quickest_quarter_of_the_steps_counts():
    steps = [step(mul=(time, "Mul")) for time in (9.0, 3.0, 90.0, 4.0, 80.0)]
    found = assemble({"mul": NODES["mul"]}, steps, steps)
    assert found.measurements[0].float32 == Time(4.0, 3.0, 9.0, 3)
    assert [len(quickest(range(size))) for size in (1, 4, 12, 13, 40)] == [1, 3, 3, 4, 10]


def test_runs_in_a_loop_share_the_time():
    found = assemble({"mul": node("Mul", runs=4)}, [step(mul=(12.0, "Mul"))], [])
    assert time_of(found, "mul") == 3.0 and found.nodes["mul"].runs == 4


def test_operations_alike_share_their_samples():
    steps = [step(a=(10.0, "Mul"), b=(20.0, "Mul"), c=(1.0, "Mul"))]
    nodes = {"a": node("Mul"), "b": node("Mul"), "c": node("Mul", shape=(2, 2))}
    found = assemble(nodes, steps, steps)
    assert len(found.measurements) == 2
    assert found.nodes["a"] == found.nodes["b"] != found.nodes["c"]
    assert found.measurements[0].float32 == Time(15.0, 10.0, 20.0, 2)


def test_operations_alike_that_take_other_times_have_their_own():
    """As a Tanh whose values take its slow path, beside one whose values don't."""
    rows = [(1e4, 1e5), (2e4, 1e5), (1.1e4, 1.1e5), (1e4, 9e4)]
    float32, half = (
        [step(**{"n%d" % n: (row[place], "Tanh") for n, row in enumerate(rows)})] * 2
        for place in (0, 1)
    )
    nodes = {"n%d" % n: node("Tanh") for n in range(4)}
    found = assemble(nodes, float32, half)
    numbers = [found.nodes[name].measurement for name in sorted(nodes)]
    assert numbers == [0, 1, 0, 0] and len(found.measurements) == 2
    total = sum(time_of(found, name, half=True) for name in nodes)
    assert total == pytest.approx(4e5) and time_of(found, "n1") == 2e4


def test_what_varies_from_step_to_step_is_not_another_operation():
    steps = [step(a=(1e4 * slow, "Mul"), b=(1.1e4 * slow, "Mul")) for slow in (1, 5, 1, 9, 1, 7)]
    found = assemble({"a": node("Mul"), "b": node("Mul")}, steps, steps)
    assert found.measurements[0].float32 == Time(1.05e4, 1e4, 1.1e4, 6)


def test_the_sum_of_a_step():
    steps = [step(a=(10.0, "Mul"), b=(20.0, "Mul")), step(a=(30.0, "Mul"), b=(2.0, "Mul"))]
    assert added_up(steps, 100.0).nanoseconds == 231.0
    between = [step._replace(between=50.0, runs=4) for step in steps]
    assert added_up(between, 100.0).nanoseconds == 81.0
    assert (start_of_one(between), start_of_one(steps)) == (12.5, 0.0)


@pytest.mark.parametrize(
    "whole, traced, in_half, factor",
    [
        ((100.0, 80.0), (100.0, 80.0), 60.0, 1.0),
        ((50.0, 40.0), (100.0, 80.0), 60.0, 1.0),  # both overlap alike
        ((100.0, 95.0), (100.0, 80.0), 60.0, 1.25),
        ((200.0, 130.0), (100.0, 80.0), 60.0, 0.75),
        ((100.0, 900.0), (100.0, 80.0), 60.0, 2.0),
        ((100.0, 10.0), (100.0, 80.0), 60.0, 0.5),
        ((100.0, 95.0), (100.0, 80.0), 7.0, 1.0),  # too little of it is in half precision
        ((0.0, 95.0), (100.0, 80.0), 60.0, 1.0),
    ],
)
def test_the_scale_of_half_precision_by_whole_steps(whole, traced, in_half, factor):
    assert half_scale(whole, traced, in_half) == pytest.approx(factor)


def test_names_are_compared_as_often_as_there_are_operations(monkeypatch):
    names = [Compared("n%d" % number) for number in range(400)]
    samples = {name: ([100.0], [50.0]) for name in names}
    monkeypatch.setattr(Compared, "count", 0)
    assert [len(group) for group in _alike(names, samples)] == [400]
    assert Compared.count < 4000
