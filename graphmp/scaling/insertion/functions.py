"""Scaling the losses of functions: those that train inside, and those that take gradients."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import CONTROL, Port, parse_input
from graphmp.loss_scale.scales import skipped_between
from graphmp.naming import in_body
from graphmp.policy.dtypes import BOOL, FLOAT32
from graphmp.policy.op_sets import WHILES
from graphmp.policy.reason import FINITE_CHECK, SCALE, Done, Reason
from graphmp.scaling.gates.insertion import IMPOSSIBLE, GateInsertion
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.insertion.checkpoints import ScaleState
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.inserted import Inserted, add_inner, doubts, row_of
from graphmp.scaling.insertion.scaled import given_to_calls, scale_losses, splice, states_outside
from graphmp.scaling.insertion.threads import (
    RETURNED_SCOPE,
    SCALE_ARGUMENT,
    Applied,
    ThreadInsertion,
)
from graphmp.scaling.losses.returned import Threads
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.model import Inside, ScalePlan

_RETURNED = Reason(FINITE_CHECK, "a function takes gradients, and says whether they are")
_PASSED = Reason(SCALE, "what calls take whose gradients train nothing, or start with")


def insert_inside(
    inside: Inside,
    outside: Fragment,
    config: Config,
    scopes: Iterator[str],
    result: Inserted,
    applied: Dict[str, Dict[str, Applied]],
) -> List[ScaleState]:
    """Scale the losses of a function.

    Returns the state of their scales, which is made outside, and adds inputs of calls.
    """
    graph, plan = inside.graph, inside.plan
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    calls = [scope.call for loss in plan.losses for scope in loss.scopes if scope.call]
    true = tf.make_tensor_proto(True)
    flags = {
        call: editor.add(RETURNED_SCOPE + "finite", "Const", (), _RETURNED, dtype=BOOL, value=true)
        for call in calls
    }
    made = scale_losses(
        graph, editor, part, config, plan, scopes, result, inside.body, handles=True, flags=flags
    )
    splice(graph, editor, part, made, {}, result, inside.body.name)
    given = given_to_calls(made).items()
    applied[inside.body.name] = {
        call: Applied(_spelled(graph, editor, parse_input(scale)), flags[call].node)
        for call, scale in given
    }
    inside.body.close()
    return list(states_outside(graph, plan, made, outside, config, inside.body.outside))


def insert_returned(
    inside: Inside, plan: ScalePlan, config: Config, scopes: Iterator[str], result: Inserted
) -> str:
    """Scale the gradients that a function takes and returns.

    Returns its flag in the function's syntax.
    """
    graph, (loss,) = inside.graph, inside.plan.losses
    inside.body.take(SCALE_ARGUMENT, FLOAT32)
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    made = Arithmetic(
        graph,
        editor,
        part,
        config,
        loss,
        next(scopes),
        inside.plan.kept,
        given=Port(SCALE_ARGUMENT, 0),
    )
    made.complete(made.divisions)
    result.warnings.extend(
        dict(row, node=in_body(inside.body.name, row["node"]))
        for row in doubts(loss, made, made.scale.scope)
    )
    splice(graph, editor, part, [made], {}, result, inside.body.name)
    inside.body.close()
    add_inner(result, plan, inside.body, row_of(loss, made, None, inside.body))
    return _spelled(graph, editor, Port(made.finite, 0))


def _spelled(graph: TrainingGraph, editor: Editor, port: Port) -> str:
    """An output in the syntax of a body; it must be the only one of its name."""
    definition: Any = graph.op_defs.get(editor.nodes[port.node].op)
    return "%s:%s:0" % (port.node, definition.output_arg[port.output].name)


def pass_scales(
    graph: TrainingGraph,
    editor: Editor,
    threads: Threads,
    scales: Mapping[str, str],
    applied: Mapping[str, Mapping[str, Applied]],
    flags: Mapping[str, str],
) -> List[Done]:
    """Pass the scale to gradient-taking functions, and their flags to where gradients are applied.

    Returns rows of the record.
    """
    constants: Dict[Tuple[str, Sequence[Port]], Port] = {}

    def constant(call: str, name: str, dtype: int, value: Any) -> str:
        """A constant for a call; in a loop it waits for what the call reads first."""
        first = graph.view.inputs(call)[:1] if graph.looped(call) else ()
        wait = tuple(Port(port.node, CONTROL) for port in first)
        if (name, wait) not in constants:
            tensor: Any = tf.make_tensor_proto(value)
            constants[name, wait] = editor.add(
                RETURNED_SCOPE + name, "Const", wait, _PASSED, dtype=dtype, value=tensor
            )
        return str(constants[name, wait])

    given = {
        call: (
            scales.get(call) or constant(call, "one", FLOAT32, 1.0),
            constant(call, "true", BOOL, True) if editor.nodes[call].op in WHILES else "",
        )
        for call in threads.calls()
    }
    rows = ThreadInsertion(threads).apply(flags, given, applied)
    return [*(Done(port.node, "inserted", _PASSED) for port in constants.values()), *rows]


def gate_behind(
    graph: TrainingGraph,
    editor: Editor,
    part: Fragment,
    plan: ScalePlan,
    made: Sequence[Sequence[ScaleState]],
    result: Inserted,
) -> Dict[str, Sequence[str]]:
    """Gate writes that run with calls of training functions by whether these skipped a step.

    Returns:
        The control inputs of nodes, some of which are inserted later.
    """
    gates, waits = GateInsertion(editor, graph), {}  # type: GateInsertion, Dict[str, Sequence[str]]
    flags: Dict[int, Port] = {}
    for number in sorted({number for numbers in plan.behind.values() for number in numbers}):
        calls = sorted(plan.inside[number].body.once)
        with part.building():
            before, after, finite = skipped_between(
                [tuple(state.variables) for state in made[number]]
            )
        flags[number] = part.port(finite)
        waits.update({call: [*waits.get(call, ()), *before] for call in calls})
        waits.update(dict.fromkeys(after, calls))
    for name, numbers in plan.behind.items():
        gates.by_flag(name, gates.any_of([flags[number] for number in sorted(numbers)]))
        for number in numbers:
            row = next(
                row
                for row in result.losses
                if row["calls"] == sorted(plan.inside[number].body.calls)
            )
            row["gated"].append(name)
    gates.finish()
    result.warnings.extend(warning("GMP112", name, IMPOSSIBLE) for name in gates.impossible)
    return waits
