"""All-reduces of gradients, and the nodes whose results are complete.

Tables of tiny graphs.
"""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.graph.structure.view import GraphView
from graphmp.policy.policy import UNLISTED, Policy
from graphmp.scaling.losses.allreduce import AllReduces, reducing_functions, with_reduces
from tests.support import tiny

pytestmark = pytest.mark.unit

BRANCH = (
    "several Const",
    "s Switch g several",
    "r CollectiveReduce s:1",
    "mean RealDiv r n",
    "m Merge s mean",
)


def whole(*lines):
    """The nodes with complete gradients for the update `u` of `v`; `g` is one process's own."""
    graph = tiny.meta_graph(
        "v VariableV2", "n Const", "g Neg n", *lines, several=np.bool_(True), n=1.0
    ).graph_def
    function = graph.library.function.add()
    function.signature.name = "sums"
    function.node_def.add(name="r", op="CollectiveReduce")
    for node in graph.node:
        if node.op == "PartitionedCall":
            node.attr["f"].func.name = "sums"
    return AllReduces(GraphView(graph), ["u"], lambda port: True).whole


@pytest.mark.parametrize(
    "lines, expected",
    [
        (["u AssignSub v g"], set()),
        (["r CollectiveReduce g", "u AssignSub v r"], {"r"}),
        (["r CollectiveReduce g", "c Cast r", "u AssignSub v c"], {"c"}),
        (["r PartitionedCall g", "u AssignSub v r"], {"r"}),
        ([*BRANCH, "u AssignSub v m"], {"m"}),
        ([*BRANCH, "c Cast m", "u AssignSub v c"], {"c"}),
        (["r CollectiveReduce g", "shown Neg r", "u AssignSub v g"], set()),
        (
            ["r CollectiveReduce g", "shown Neg r", "u AssignSub v g ^r"],
            set(),
        ),  # the update waits for it alone
        (["r CollectiveReduce u", "shown Neg r", "u AssignSub v g"], set()),
    ],
)
def test_where_gradients_are_whole(lines, expected):
    assert whole(*lines) == expected


def test_all_reduces_are_clear_unless_a_list_has_them():
    before = Policy.from_text("deny NcclAllReduce\ninfer HorovodAllreduce\nclear Abs")
    ops = ["CollectiveReduce", "NcclAllReduce", "HorovodAllreduce", "Sin", "Abs"]
    after = with_reduces(before, ops)
    assert [after.category(op) for op in ops] == ["clear", "deny", "infer", UNLISTED, "clear"]


def test_functions_reduce_that_call_functions_which_do():
    graph = tiny.meta_graph("x Placeholder").graph_def
    for name, called in (
        ("outer", "middle"),
        ("middle", "inner"),
        ("inner", "CollectiveReduce"),
        ("other", "Neg"),
    ):
        function = graph.library.function.add()
        function.signature.name = name
        function.node_def.add(name="n", op=called)
    assert reducing_functions(graph) == {"outer", "middle", "inner"}
