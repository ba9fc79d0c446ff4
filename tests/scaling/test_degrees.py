"""The power of the loss scale in each value of gradient code.

Tables of tiny graphs.
"""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.graph.structure.view import GraphView, Port
from graphmp.scaling.degrees.code import ScaledCode
from graphmp.scaling.degrees.homogeneity import degrees
from tests.support import painting

pytestmark = pytest.mark.unit

GIVEN = {"zero": np.zeros(4), "one": np.ones(4), "shape": np.array([2, 2], np.int32)}


def followed(*lines, last_first=False, outside=(), untyped=()):
    """The degrees in gradient code that starts from `g`; nodes in `outside` are not part of it.

    With `last_first` the nodes are listed backwards; the types of those in `untyped` are unknown.
    """
    meta_graph = painting.graph(
        "g Placeholder", *["%s Const" % name for name in GIVEN], *lines, **GIVEN
    )
    if last_first:
        nodes = list(meta_graph.graph_def.node)[::-1]
        del meta_graph.graph_def.node[:]
        meta_graph.graph_def.node.extend(nodes)
    view = GraphView(meta_graph.graph_def)
    lists = frozenset(
        name
        for name, node in view.nodes.items()
        if node.op in ("TensorListFromTensor", "TensorListConcatLists")
    )
    is_float, is_list = (
        lambda port: port.node not in ("shape", *lists, *untyped),
        lambda port: port.node in lists,
    )
    return degrees(
        ScaledCode(
            view,
            view.nodes.keys() - {"g", *outside},
            {Port("g", 0)},
            is_float,
            is_list,
            frozenset(),
            lambda _: True,
        )
    )


SQUARED, CUBED = "q Square g", "c Mul q g"


@pytest.mark.parametrize(
    "lines, degree",
    [
        (["n Neg g"], 1),
        ([SQUARED], 2),
        ([SQUARED, "n L2Loss q"], 4),
        ([SQUARED, CUBED], 3),
        (["n RealDiv g one"], 1),
        (["n RealDiv one g"], -1),
        ([SQUARED, "n RealDiv q g"], 1),
        ([SQUARED, CUBED, "n RealDiv g c"], -2),
        (["n Reciprocal g"], -1),
        ([SQUARED, "n Reciprocal q"], -2),
        ([SQUARED, "n Sqrt q"], 1),
        ([SQUARED, "n Rsqrt q"], -1),
    ],
)
def test_products_quotients_roots_and_squares(lines, degree):
    found = followed(*lines)
    assert found.of[lines[-1].split()[0]] == degree
    assert (found.multiply, found.rescale, found.unclear) == ({}, [], [])


@pytest.mark.parametrize("root", ["Sqrt", "Rsqrt"])
@pytest.mark.parametrize("lines, read, power", [([], "g", 1), ([SQUARED, CUBED], "c", 3)])
def test_a_root_of_an_odd_power_reads_what_is_unscaled_and_is_scaled_again(
    root, lines, read, power
):
    found = followed(*lines, "n %s %s" % (root, read))
    assert found.multiply == {("n", 0): -power} and found.rescale == ["n"] and found.of["n"] == 1


ZEROS = {
    "a constant": ([], "zero"),
    "reshaped": (["z Reshape zero shape"], "z"),
    "broadcast": (["z BroadcastTo zero shape"], "z"),
    "filled in": (["z Fill shape zero"], "z"),
    "like others": (["z ZerosLike one"], "z"),
    "added up": (["y ZerosLike one", "z AddN zero y"], "z"),
    "side by side": (["z Pack zero zero"], "z"),
}
OTHERS = {
    "a constant": ([], "one"),
    "an input": (["z Placeholder"], "z"),
    "reshaped": (["z Reshape one shape"], "z"),
    "filled in": (["z Fill shape one"], "z"),
    "added to zeros": (["z AddN zero one"], "z"),
    "counted": (["z ZerosLike one", "o Exp z"], "o"),
    "looked at for its shape": (["o OnesLike g"], "o"),
}


@pytest.mark.parametrize("name", sorted(ZEROS))
def test_zeros_are_added_as_they_are(name):
    lines, zeros = ZEROS[name]
    found = followed(*lines, "sum Add g %s" % zeros)
    assert found.of["sum"] == 1 and found.multiply == {}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_what_is_added_to_a_scaled_gradient_is_scaled_too(name):
    lines, other = OTHERS[name]
    found = followed(*lines, "sum Add g %s" % other)
    assert found.of == {"sum": 1} and found.multiply == {("sum", 1): 1} and found.rescale == []


@pytest.mark.parametrize("last_first", [False, True])
def test_the_order_of_nodes_in_a_file_means_nothing(last_first):
    found = followed(SQUARED, CUBED, "n Neg c", "sum Add n g", last_first=last_first)
    assert found.of == {"q": 2, "c": 3, "n": 3, "sum": 3} and found.multiply == {("sum", 1): 2}


@pytest.mark.parametrize(
    "line, degree, multiply, rescale",
    [
        ("n TanhGrad one g", 1, {}, []),
        ("n TanhGrad g g", 1, {("n", 0): -1}, []),  # its other input is a forward value
        ("n TanhGrad g one", 1, {("n", 0): -1}, ["n"]),
        ("n ReluGrad g one", 1, {}, []),
        ("n MatrixSolve one g", 1, {}, []),
        ("n MatrixSolve g one", -1, {}, []),
        ("n MatrixSolve g g", 0, {}, []),
        ("n PadV2 g shape one", 1, {("n", 2): 1}, []),
        ("n PadV2 g shape zero", 1, {}, []),
        ("n OneHot shape shape g one", 1, {("n", 3): 1}, []),
        ("n UnsortedSegmentMax g shape shape", 0, {("n", 0): -1}, []),
        ("n Greater g zero", 0, {}, []),
        ("n Greater g g", 0, {}, []),
        ("n Greater g one", 0, {("n", 0): -1}, []),
        ("n FancyGrad g one", 1, {("n", 0): -1}, ["n"]),
        ("n FancyGrad g", 1, {("n", 0): -1}, ["n"]),
        ("n Cholesky g", 1, {("n", 0): -1}, ["n"]),
    ],
)
def test_slots(line, degree, multiply, rescale):
    found = followed(line)
    assert (found.of["n"], found.multiply, found.rescale, found.unclear) == (
        degree,
        multiply,
        rescale,
        [],
    )


def test_outputs_differ():
    found = followed(
        "i IdentityN g one", "n Neg i:1", "m Neg i:0", "s Svd g", "u Neg s:1", "v Neg s:0"
    )
    assert [found.of[name] for name in ("n", "m", "u", "v")] == [0, 1, 0, 1]
    assert [found.at(Port("i", 0)), found.at(Port("i", 1)), found.at(Port("s", 1))] == [1, 0, 0]


def test_a_result_that_is_scaled_again_leaves_its_node_without_a_factor():
    found = followed("n FancyGrad g", "m Neg n")
    assert found.rescale == ["n"] and found.of == {"n": 1, "m": 1}
    assert [found.at(Port(name, 0)) for name in "nm"] == [0, 1]


LOOP = [
    "enter Enter {start}",
    "merge Merge enter next",
    "switch Switch merge shape",
    "exit Exit switch:0",
    "inside Enter g",
    "squared Square inside",
]


@pytest.mark.parametrize(
    "start, step, degree, multiply",
    [
        ("g", "Neg switch:1", 1, {}),
        ("zero", "Add switch:1 inside", 1, {}),
        ("one", "Add switch:1 inside", 1, {("enter", 0): 1}),
        ("zero", "Add switch:1 squared", 2, {}),  # first taken for 1
        ("g", "Mul switch:1 inside", 0, {("enter", 0): -1, ("next", 0): -1}),  # 1, 2, 3
        ("one", "Mul switch:1 inside", 0, {("next", 0): -1}),
        ("q", "Add switch:1 inside", 2, {("step", 1): 1}),
        ("g", "Tanh switch:1", 1, {("step", 0): -1}),
    ],
)
@pytest.mark.parametrize("last_first", [False, True])
def test_a_loop_variable_has_one_degree(start, step, degree, multiply, last_first):
    lines = [line.format(start=start) for line in LOOP]
    found = followed(
        SQUARED, *lines, "step " + step, "next NextIteration step", last_first=last_first
    )
    assert (found.of["merge"], found.of["exit"], found.multiply, found.unclear) == (
        degree,
        degree,
        multiply,
        [],
    )


def test_a_start_of_unknown_type_is_not_multiplied():
    """Nodes that lack an attribute have no types."""
    lines = [line.format(start="one") for line in LOOP]
    lines += ["step Add switch:1 inside", "next NextIteration step"]
    found = followed(*lines, untyped=["one"])
    assert (found.of["merge"], found.multiply, found.unclear) == (1, {}, ["enter"])


def test_a_list_of_what_differs_holds_unscaled_values():
    lists = [
        "a TensorListFromTensor g shape",
        "b TensorListFromTensor q shape",
        "x TensorListConcatLists a b",
        "n TensorListStack x shape",
    ]
    found = followed(SQUARED, *lists, "m Neg n")
    assert (
        found.multiply == {("a", 0): -1, ("b", 0): -2}
        and found.rescale == ["n"]
        and found.unclear == []
    )
    assert [found.of[name] for name in "axnm"] == [0, 0, 1, 1]


def test_a_list_that_is_read_elsewhere_holds_unscaled_values():
    lists = ["a TensorListFromTensor g shape", "n TensorListStack a shape"]
    assert followed(*lists).multiply == {} and followed(*lists, outside=("n",)).multiply == {
        ("a", 0): -1
    }


@pytest.mark.parametrize("copy", ["Identity w", "Add w w", "AddN w w"])
def test_an_array_that_is_read_elsewhere_behind_a_copy_of_its_flow_holds_unscaled_values(copy):
    lines = [
        "a TensorArrayV3 shape",
        "w TensorArrayScatterV3 a shape g a:1",
        "i " + copy,
        "n TensorArrayGatherV3 a shape i",
    ]
    assert followed(*lines).multiply == {}
    assert followed(*lines, outside=("n",)).multiply == {("w", 2): -1}


@pytest.mark.parametrize(
    "lines, multiply, float32",
    [
        (["n MatMul g one"], {}, []),
        (["n MatMul g g"], {("n", 0): -1}, []),
        (["h Neg g", "n MatMul g h"], {("n", 0): -1}, []),  # the one that was computed first
        (["h Neg g", "n MatMul h g"], {("n", 1): -1}, []),
        ([SQUARED, "n MatMul q one"], {("n", 0): -1}, ["q"]),
        ([SQUARED, "n Mul q one"], {}, ["n", "q"]),
        ([SQUARED, "n Sqrt q"], {}, ["n", "q"]),
        (["n RealDiv g g"], {}, []),
        (["n Minimum g one"], {("n", 1): 1}, ["n"]),
        (["h Reciprocal g", "n Neg h"], {}, ["h", "n"]),
        (["h Reciprocal g", "n MatMul h one"], {("n", 0): 1}, ["h"]),
    ],
)
def test_what_stays_float32(lines, multiply, float32):
    found = followed(*lines)
    assert (found.multiply, sorted(found.float32)) == (multiply, float32)


def test_the_reason_says_what_a_float32_node_reads():
    """A clip's limit is multiplied by the scale; what an unknown op reads is divided by it."""
    reasons = followed("m Maximum g one", "u Sin g").float32
    assert {name: reason.words for name, reason in reasons.items()} == {
        "m": "compares with scaled gradients",
        "u": "reads unscaled gradients",
    }


def test_a_reciprocal_beside_a_gradient_is_multiplied_twice():
    """Once for the half precision of the op, once to the other gradient's degree."""
    effect = followed("r Reciprocal g", "b LSTMBlockCellGrad " + "one " * 14 + "r g")
    assert effect.multiply == {("b", 14): 2}
