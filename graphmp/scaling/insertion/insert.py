"""Inserting the loss scale into a graph that is already built.

Order, always: gradients, float32, divide by the scale, finite check, clip, apply or skip.

1. Seeds are multiplied by the scale; the loss itself doesn't change.
2. Each output that leaves gradient code is divided by it, in float32, for all consumers outside.
3. The finite check reads the gradients on their way to updates; if they come out of accumulators or
   are fed, there; behind an all-reduce that adds gradients of other processes (`allreduce.py`).
4. The clip takes the same gradients. For towers, and behind an all-reduce, it takes the inputs of
   the updates: averages.
5. The flag decides whether the step's writes happen (`skip_plan.py`, `gates.py`).

The graph is still float32: painting comes afterwards, and nodes below `graphmp/` stay float32.
"""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.contexts import Contexts
from graphmp.graph.structure.frames import frames, is_invariant
from graphmp.graph.structure.view import CONTROL, GraphView, Port, parse_input
from graphmp.loss_scale.scales import COLLECTION, skipped_between, state_for_functions
from graphmp.naming import in_body
from graphmp.policy.dtypes import BOOL, FLOAT32
from graphmp.policy.op_sets import ENTERS, EXITS
from graphmp.policy.reason import FINITE_CHECK, SCALE, Done, Reason
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.insertion.checkpoints import (
    UNSAVED,
    ScaleState,
    initialise,
    save_and_restore,
)
from graphmp.scaling.insertion.first_step import FirstStep
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.gates import GateInsertion
from graphmp.scaling.losses.inside import OpenBody
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.returned import ARGUMENT, Applied, Threads
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.plan import InLoop, Inside, ScalePlan, applying
from graphmp.scaling.plan.skip_plan import SkipPlan

_RETURNED = Reason(FINITE_CHECK, "a function takes gradients, and says whether they are")
_PASSED = Reason(SCALE, "what calls take whose gradients train nothing, or start with")


class Inserted(NamedTuple):
    """The changes made, for the report and the painter.

    Attributes:
        losses: rows of the report, one for each loss.
        scales: rows of the report, one for each scale: scope, kind, initial value, whether
            functions or a loop have handles of its state.
        done: added or changed nodes.
        first_steps: what a first step measures once the graph is painted, by function; "" is the
            main graph.
        warnings: rows of the report.
    """

    losses: List[Dict[str, Any]]
    scales: List[Dict[str, Any]]
    done: List[Done]
    first_steps: Dict[str, List[FirstStep]]
    warnings: List[Dict[str, str]]


class Gated(NamedTuple):
    """The effect of a skipped step of one loss.

    Attributes:
        writes: the skipped writes.
        goes_on: rows of the report: a node that still changes state, and why.
    """

    writes: List[str]
    goes_on: List[Dict[str, str]]


def insert(graph: TrainingGraph, config: Config, plan: ScalePlan) -> Inserted:
    """Scale the losses of a graph, which is changed, by a plan.

    Including those inside functions.
    """
    result = Inserted([], [], [], {}, list(plan.warnings))
    if plan.losses or plan.inside or plan.loops:
        _insert(graph, config, plan, result)
    result.losses.extend(_row(loss) for loss in plan.unscaled)
    result.losses.extend(_row(loss, body=body) for body, loss in plan.unscaled_inside)
    for each in plan.returned if not _gives_scale(config, plan) else ():
        _add_inner(result, plan, each.body, _row(each.plan.losses[0], body=each.body))
    return result


def _insert(graph: TrainingGraph, config: Config, plan: ScalePlan, result: Inserted) -> None:
    scopes = ("loss_scale_%d" % number if number else "loss_scale" for number in itertools.count())
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    made = _scale(graph, editor, part, config, plan, scopes, result)
    given = _given(made)
    applied: Dict[str, Dict[str, Applied]] = {}
    states = [
        ScaleState(each.scale.variables, _trained(graph, loss))
        for loss, each in zip(plan.losses, made)
    ]
    for loop in plan.loops:
        states += _insert_in_loop(
            loop, graph.meta_graph, editor, part, config, scopes, result, given
        )
    made_inside = [
        _insert_inside(inside, part, config, scopes, result, applied) for inside in plan.inside
    ]
    states += [state for each in made_inside for state in each]
    returned = plan.returned if _gives_scale(config, plan) else ()
    flags = {
        each.body.name: _insert_returned(each, plan, config, scopes, result) for each in returned
    }
    late = _gate_behind(graph, editor, part, plan, made_inside, result) if plan.behind else {}
    if config.loss_scale == "dynamic":
        initialise(graph, editor, states)
        unsaved = save_and_restore(graph.view, editor, part, states)
        result.warnings.extend(warning("GMP126", name, UNSAVED) for name in unsaved)
    _splice(
        graph, editor, part, made, {tf.GraphKeys.GLOBAL_VARIABLES: False, COLLECTION: True}, result
    )
    for name, others in late.items():
        editor.wait_for(name, others)
    if returned:
        result.done[:0] = _thread(
            graph,
            editor,
            Threads(graph.meta_graph.graph_def, flags.keys(), applying(plan.inside)),
            given,
            applied,
            flags,
        )
    if any(editor.nodes[name].op in ENTERS for name in editor.added):
        _list_in_contexts(graph, editor)


def _given(made: Sequence[Arithmetic]) -> Dict[str, str]:
    """The state of scales that calls of functions with gradients get."""
    return {call: scale for each in made for call, scale in each.given.items()}


def _insert_returned(
    inside: Inside, plan: ScalePlan, config: Config, scopes: Iterator[str], result: Inserted
) -> str:
    """Scale the gradients that a function takes and returns.

    Returns its flag in the function's syntax.
    """
    graph, (loss,) = inside.graph, inside.plan.losses
    inside.body.take(ARGUMENT, FLOAT32)
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    made = Arithmetic(
        graph, editor, part, config, loss, next(scopes), inside.plan.kept, given=Port(ARGUMENT, 0)
    )
    made.complete(made.divisions)
    result.warnings.extend(
        dict(row, node=in_body(inside.body.name, row["node"]))
        for row in _doubts(loss, made, made.scale.scope)
    )
    _splice(graph, editor, part, [made], {}, result, inside.body.name)
    inside.body.close()
    _add_inner(result, plan, inside.body, _row(loss, made, None, inside.body))
    return _spelled(graph, editor, Port(made.finite, 0))


def _spelled(graph: TrainingGraph, editor: Editor, port: Port) -> str:
    """An output in the syntax of a body; it must be the only one of its name."""
    definition: Any = graph.op_defs.get(editor.nodes[port.node].op)
    return "%s:%s:0" % (port.node, definition.output_arg[port.output].name)


def _gives_scale(config: Config, plan: ScalePlan) -> bool:
    """Whether gradient-taking functions get a scale."""
    plans = [plan, *(each.plan for each in plan.inside), *(each.plan for each in plan.loops)]
    return config.loss_scale != "none" and any(
        scope.call for each in plans for loss in each.losses for scope in loss.scopes
    )


def _add_inner(result: Inserted, plan: ScalePlan, body: OpenBody, inner: Dict[str, Any]) -> None:
    """Add the work of gradient-taking functions to the rows of the losses that they serve."""
    calls = body.calls | {
        in_body(each.body.name, call)
        for each in plan.inside
        for call, names in each.graph.returning.items()
        if body.name in names
    }
    for row in result.losses:
        if not calls.isdisjoint(row["through"]):
            scopes = [
                name for name in row["gradient_scope"].split(", ") if name not in row["through"]
            ]
            row["gradient_scope"] = ", ".join([*scopes, inner["gradient_scope"]])
            for key in ("loss", "seeds", "unscale"):
                row[key] = sorted({*row[key], *inner[key]})


def _thread(
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
    constants: Dict[Sequence[Port], Tuple[Port, Port]] = {}
    given = {}
    for call in threads.calls():
        wait = (
            tuple(Port(port.node, CONTROL) for port in graph.view.inputs(call)[:1])
            if graph.looped(call)
            else ()
        )
        if wait not in constants:
            one = editor.add(
                "graphmp/returned/one",
                "Const",
                wait,
                _PASSED,
                dtype=FLOAT32,
                value=tf.make_tensor_proto(1.0),
            )
            true = editor.add(
                "graphmp/returned/true",
                "Const",
                wait,
                _PASSED,
                dtype=BOOL,
                value=tf.make_tensor_proto(True),
            )
            constants[wait] = (one, true)
        given[call] = (scales.get(call, str(constants[wait][0])), str(constants[wait][1]))
    rows = threads.apply(flags, given, applied)
    return [
        *(Done(port.node, "inserted", _PASSED) for ports in constants.values() for port in ports),
        *rows,
    ]


def _list_in_contexts(graph: TrainingGraph, editor: Editor) -> None:
    """List new nodes of while loops in the loops' contexts."""
    contexts, inside = Contexts(graph.meta_graph), frames(GraphView(graph.meta_graph.graph_def))
    for name in (name for name in editor.added if inside.get(name)):
        node, path = editor.nodes[name], inside[name]
        if node.op in ENTERS and is_invariant(node):
            contexts.bring_in(
                name, graph.loop_conditions[path], str(Port(*editor.input(name, 0))) + ":0"
            )
        elif node.op not in EXITS or path[:-1]:
            contexts.add(
                name, editor.nodes[graph.loop_conditions[path[:-1] if node.op in EXITS else path]]
            )
    contexts.write()


def _insert_in_loop(
    loop: InLoop,
    meta_graph: tf.MetaGraphDef,
    editor: Editor,
    outside: Fragment,
    config: Config,
    scopes: Iterator[str],
    result: Inserted,
    given: Dict[str, str],
) -> List[ScaleState]:
    """Scale the losses of a while loop.

    Returns the state of their scales, which is made outside, and adds inputs of calls.
    """
    before, part = set(editor.added), Fragment()
    made = _scale(loop.graph, editor, part, config, loop.plan, scopes, result, handles=True)
    given.update(_given(made))
    part.splice(editor, meta_graph, {})
    contexts = Contexts(meta_graph)
    for name in [name for name in editor.added if name not in before]:
        if not editor.nodes[name].input:
            editor.wait_for(name, [loop.pivot])
        contexts.add(name, editor.nodes[loop.pivot])
    contexts.write()
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    return list(_states_outside(loop.graph, loop.plan, made, outside, config, lambda names: names))


def _gate_behind(
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
    text = "it returns what others read, and nothing else can: a skipped step runs it all the same"
    result.warnings.extend(warning("GMP112", name, text) for name in gates.impossible)
    return waits


def _states_outside(
    graph: TrainingGraph,
    plan: ScalePlan,
    made: Sequence[Arithmetic],
    outside: Fragment,
    config: Config,
    variables: Callable[[AbstractSet[str]], AbstractSet[str]],
) -> Iterator[ScaleState]:
    """Make the state of scales inside functions and loops.

    `variables` are the main graph's variables behind those trained inside.
    """
    for loss, each in zip(plan.losses, made):
        if each.scale.skips:
            with outside.building(), tf.device(each.scale.device):
                yield ScaleState(
                    state_for_functions(config, each.scale.scope), variables(_trained(graph, loss))
                )


def _insert_inside(
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
        call: editor.add("graphmp/returned/finite", "Const", (), _RETURNED, dtype=BOOL, value=true)
        for call in calls
    }
    made = _scale(
        graph, editor, part, config, plan, scopes, result, inside.body, handles=True, flags=flags
    )
    _splice(graph, editor, part, made, {}, result, inside.body.name)
    given = _given(made).items()
    applied[inside.body.name] = {
        call: Applied(_spelled(graph, editor, parse_input(scale)), flags[call].node)
        for call, scale in given
    }
    inside.body.close()
    return list(_states_outside(graph, plan, made, outside, config, inside.body.outside))


def _scale(
    graph: TrainingGraph,
    editor: Editor,
    part: Fragment,
    config: Config,
    plan: ScalePlan,
    scopes: Iterator[str],
    result: Inserted,
    body: Optional[OpenBody] = None,
    handles: bool = False,
    flags: Mapping[str, Port] = MappingProxyType({}),
) -> List[Arithmetic]:
    """Scale the losses of the main graph, or of a function's body.

    With `handles`, the state is made elsewhere. `flags` are as in Arithmetic.
    """
    made = [
        Arithmetic(graph, editor, part, config, loss, next(scopes), plan.kept, handles, flags=flags)
        for loss in plan.losses
    ]
    name = body.name if body else ""
    warnings: List[Dict[str, str]] = []
    unscaled = {port: tensor for each in made for port, tensor in each.divisions.items()}
    for loss, each in zip(plan.losses, made):
        each.complete(unscaled)
        result.scales.append(
            {
                "scope": each.scale.scope,
                "kind": each.scale.kind,
                "initial": each.scale.initial,
                "handles": handles,
            }
        )
        if each.first_step is not None:
            result.first_steps.setdefault(name, []).append(each.first_step)
        warnings.extend(_doubts(loss, each, each.scale.scope))
    gated = _gate(graph, editor, plan.skips, made, warnings)
    result.warnings.extend(dict(row, node=in_body(name, row["node"])) for row in warnings)
    for loss, arithmetic, names in zip(plan.losses, made, gated):
        looped = (
            (handles and body is None)
            or any(graph.looped(port.node) for port in loss.gradients)
            or any(scope.call for scope in loss.scopes)
        )
        result.losses.append(dict(_row(loss, arithmetic, names, body), in_loop=looped))
    return made


def _splice(
    graph: TrainingGraph,
    editor: Editor,
    part: Fragment,
    made: Sequence[Arithmetic],
    collections: Dict[str, bool],
    result: Inserted,
    body: str = "",
) -> None:
    part.splice(editor, graph.meta_graph, collections)
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    editor.finish()
    result.done.extend(
        Done(in_body(body, name), "inserted", reason)
        for name, reason in editor.added.items()
        if reason is not None
    )
    result.done.extend(
        Done(in_body(body, name), "changed", reason) for name, reason in editor.changed.items()
    )


def _trained(graph: TrainingGraph, loss: Loss) -> AbstractSet[str]:
    """The variables that a loss trains."""
    return {variable for name in loss.updates for variable in graph.state.written(name)}


def _gate(
    graph: TrainingGraph,
    editor: Editor,
    plan: Optional[SkipPlan],
    made: Sequence[Arithmetic],
    warnings: List[Dict[str, str]],
) -> List[Gated]:
    """Gate the writes of a step. Returns the gated and the ungated writes of each loss."""
    if plan is None:
        return [Gated([], []) for _ in made]
    gates = GateInsertion(editor, graph)
    outside = {name: numbers for name, numbers in plan.by_loss.items() if not graph.looped(name)}
    ungated = {
        name: "it writes inside a while loop: a skipped step runs it all the same"
        for name in plan.by_loss
        if graph.looped(name)
    }
    flags = _flags(graph, gates, plan, made, outside)
    for name in outside:
        if name not in plan.by_value:
            gates.by_flag(name, flags[name])
    finite = {
        names: gates.all_finite(names)
        for names in sorted(set(plan.by_value.values()), key=lambda names: (len(names), names))
    }
    for name, names in plan.by_value.items():
        if name in outside:
            gates.by_flag(name, gates.both(flags[name], finite[names], name))
        else:
            gates.by_value(name, finite[names])
    for name in plan.in_loops:
        gates.in_loop(name)
    for name in sorted(
        graph.view.followed(graph.gradients, lambda name: not graph.state.is_write(name))
    ):
        if (
            graph.view.nodes[name].op == "HistogramSummary"
            and graph.is_float(graph.view.inputs(name)[1])
            and not graph.looped(name)
        ):
            gates.histogram(name)
    ungated.update(
        (
            name,
            (
                "it returns what others read, and nothing else can: a skipped step runs it all the"
                " same"
            ),
        )
        for name in gates.impossible
    )
    warnings.extend(warning("GMP112", name, text) for name, text in ungated.items())
    return [_gated(plan, number, ungated) for number in range(len(made))]


def _flags(
    graph: TrainingGraph,
    gates: GateInsertion,
    plan: SkipPlan,
    made: Sequence[Arithmetic],
    writes: Mapping[str, FrozenSet[int]],
) -> Dict[str, Port]:
    """The flag of each write that depends on losses, available wherever the write is."""
    own: Dict[Tuple[Port, ...], List[Port]] = {}
    known: Dict[Tuple[FrozenSet[int], Tuple[Port, ...]], Port] = {}
    found = {}
    for name, numbers in writes.items():
        sides = graph.conditions.get(name, frozenset())
        flags = tuple(each.flag_on(sides) for each in made)
        if flags not in own:
            own[flags] = [
                gates.all_of([flag, *(flags[other] for other in plan.within[number])])
                for number, flag in enumerate(flags)
            ]
        if (numbers, flags) not in known:
            known[numbers, flags] = gates.any_of([own[flags][number] for number in sorted(numbers)])
        found[name] = known[numbers, flags]
    return found


def _gated(plan: SkipPlan, number: int, ungated: Dict[str, str]) -> Gated:
    by_loss = [name for name, numbers in plan.by_loss.items() if number in numbers]
    goes_on = {
        **plan.always[number],
        **{name: ungated[name] for name in [*by_loss, *plan.always[number]] if name in ungated},
    }
    return Gated(
        sorted(name for name in by_loss if name not in ungated),
        [{"node": name, "why": goes_on[name]} for name in sorted(goes_on)],
    )


def _doubts(loss: Loss, arithmetic: Arithmetic, scope: str) -> Iterator[Dict[str, str]]:
    for each in loss.scopes:
        for name in sorted(set(each.degrees.unclear)):
            yield warning(
                "GMP111",
                name,
                "it is not linear, and reads a list or a value of unknown type: it sees gradients "
                "multiplied by the loss scale",
            )
    if arithmetic.clipped_apart:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning(
            "GMP103",
            "graphmp/" + scope,
            "the gradients of %s are clipped one scope by the other" % scopes,
        )
    if arithmetic.unclipped:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning(
            "GMP103",
            "graphmp/" + scope,
            "what comes of the gradients of %s, taken in a loop or a function, is not clipped"
            % scopes,
        )


def _row(
    loss: Loss,
    arithmetic: Optional[Arithmetic] = None,
    gated: Optional[Gated] = None,
    body: Optional[OpenBody] = None,
) -> Dict[str, Any]:
    """A row of the report's `losses`; `calls` are the calls of the function that contains it."""
    function = body.name if body else ""

    def named(names: Iterable[str]) -> List[str]:
        return [in_body(function, name) for name in names]

    return {
        "gradient_scope": ", ".join(named(scope.scope for scope in loss.scopes)),
        "loss": sorted(set(named(name for scope in loss.scopes for name in scope.losses))),
        "seeds": named(port.node for scope in loss.scopes for port in scope.seeds),
        "gradients": named(str(port) for port in loss.gradients),
        "updates": named(loss.updates),
        "scale": in_body(function, arithmetic.current) if arithmetic and arithmetic.current else "",
        "unscale": named(arithmetic.unscaled) if arithmetic else [],
        "finite": in_body(function, arithmetic.finite) if arithmetic and arithmetic.finite else "",
        "clip": in_body(function, arithmetic.clip) if arithmetic and arithmetic.clip else "",
        "gated": named(gated.writes) if gated else [],
        "not_skipped": (
            [dict(row, node=in_body(function, row["node"])) for row in gated.goes_on]
            if gated
            else []
        ),
        "calls": sorted(body.calls) if body else [],
        "through": named(scope.call for scope in loss.scopes if scope.call),
    }
