"""How often the loss scale is multiplied into what gradient code computes: tables of tiny graphs."""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.graph.view import GraphView, Port
from graphmp.rewrite.scaling.homogeneity import Code, degrees
from tests.support import painting

pytestmark = pytest.mark.unit

GIVEN = {"zero": np.zeros(4), "one": np.ones(4), "shape": np.array([2, 2], np.int32)}


def followed(*lines, last_first=False):
    """The degrees in gradient code that starts from `g`; with its nodes listed backwards on demand."""
    meta_graph = painting.graph("g Placeholder", *["%s Const" % name for name in GIVEN], *lines, **GIVEN)
    if last_first:
        nodes = list(meta_graph.graph_def.node)[::-1]
        del meta_graph.graph_def.node[:]
        meta_graph.graph_def.node.extend(nodes)
    view = GraphView(meta_graph.graph_def)
    is_float, never = lambda port: port.node != "shape", lambda _: False
    return degrees(Code(view, view.nodes.keys() - {"g"}, {Port("g", 0)}, is_float, never, frozenset(), never))


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
def test_a_root_of_an_odd_power_reads_what_is_unscaled_and_is_scaled_again(root, lines, read, power):
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
