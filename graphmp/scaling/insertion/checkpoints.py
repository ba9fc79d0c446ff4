"""Initialising, saving and restoring the loss scale with the graph's own ops.

1. The init op of the trained variables initialises the scale too.
2. A Saver in the graph saves the scale too. Checkpoints only gain entries: the original restores
   them as before.
3. Its restore op reads the scale if the checkpoint has one, and else initialises it: a float32
   checkpoint has none. TensorFlow has no op to restore optional entries. The checkpoint's index
   tells which exist: it is a table of uncompressed keys whose beginnings may be omitted if they are
   shared with the previous key (1.15.5, 2.21).
4. TensorFlow's first format, which Savers wrote until 0.12, has no index: a checkpoint in it isn't
   given the scale, and restoring it initialises the scale.
"""

from __future__ import annotations

import collections
import itertools
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.building import own_scope
from graphmp.graph.edit.editing import Editor, add_data_inputs
from graphmp.graph.structure.values import constant, strings
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.graph.structure.walk import reached
from graphmp.loss_scale.scales import make, state_for_functions
from graphmp.loss_scale.scales import read as read_scale
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import STRING
from graphmp.policy.op_sets import RESTORES, SAVES
from graphmp.policy.reason import LOSS_SCALE_STATE, Reason
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.losses.training_graph import TrainingGraph

UNSAVED = (
    "it writes checkpoints in TensorFlow's first format, which don't hold the loss scale: "
    "it starts anew when one is restored"
)
_SCOPE = "loss_scale/saver"  # below `graphmp/`
_INITIALISED = Reason(LOSS_SCALE_STATE, "initialised with the model's variables")
_SAVED = Reason(LOSS_SCALE_STATE, "saved with the model's variables")
_RESTORED = Reason(
    LOSS_SCALE_STATE, "restored with the model's variables, where the checkpoint has it"
)


class ScaleState(NamedTuple):
    """The state of one loss scale.

    Attributes:
        variables: its variables.
        trained: the variables of the graph that its loss trains.
    """

    variables: Sequence[Any]
    trained: AbstractSet[str]


def initialise(graph: TrainingGraph, editor: Editor, states: Sequence[ScaleState]) -> None:
    """Let the graph's init op initialise the scales too; without one they initialise themselves."""
    for state in states:
        for name in _init_ops(graph, state.trained):
            editor.wait_for(name, [variable.initializer.name for variable in state.variables])
            editor.changed[name] = _INITIALISED


def save_and_restore(
    view: GraphView, editor: Editor, part: Fragment, states: Sequence[ScaleState]
) -> List[str]:
    """Let each Saver that saves a trained variable save and restore the scales.

    Nodes are added to `part`. Returns the save ops that don't save the scales: they write
    TensorFlow's first format.
    """
    unsaved = []
    trained = {variable for state in states for variable in state.trained}
    variables = [variable for state in states for variable in state.variables]
    for save, restore_op, prefix in _savers(view, trained):
        scope = "%s/%s" % (_SCOPE, save.rsplit("/", 1)[0])
        with part.building(), own_scope(scope):
            restored = _restore(part.input(prefix, STRING), variables)
        editor.wait_for(restore_op, [restored.name])
        editor.changed[restore_op] = _RESTORED
        if editor.nodes[save].op == "SaveV2":
            _save_too(editor, part, save, variables, scope)
        else:
            unsaved.append(save)
    return unsaved


def saved_late(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    scales: Sequence[Mapping[str, Any]],
    trained: AbstractSet[str],
) -> Tuple[Set[str], Set[str], List[str]]:
    """Let the Savers of a graph save and restore scales that another graph has.

    Args:
        meta_graph: the Savers' nodes; what they read may lack its inputs. It is changed.
        config: the options.
        scales: rows of a report's `scales`.
        trained: the variables that the losses of all scales train.

    Returns:
        Names of the changed nodes, of the added ones that aren't the scales' own, and of the save
        ops that don't save the scales.
    """
    editor, part = Editor(meta_graph.graph_def), Fragment()
    states = []
    for row in scales:
        with part.building():
            variables = (
                state_for_functions(config, row["scope"])
                if row["handles"]
                else make(config, row["scope"]).variables
            )
        states.append(ScaleState(variables, trained))
    unsaved = save_and_restore(GraphView(meta_graph.graph_def), editor, part, states)
    part.splice(editor, meta_graph, {})
    own = tuple("%s/%s/" % (SCOPE, row["scope"]) for row in scales)
    savers = "%s/%s/" % (SCOPE, _SCOPE)
    added = {name for name in editor.added if name.startswith(savers) or not name.startswith(own)}
    return set(editor.changed), added, unsaved


def _init_ops(graph: TrainingGraph, trained: AbstractSet[str]) -> List[str]:
    """The smallest NoOps that run the initialisers of all these variables."""
    view, nodes, writes = graph.view, graph.view.nodes, set(graph.state.writes)
    of_variable: Dict[Optional[str], Set[str]] = collections.defaultdict(set)
    for name in graph.state.initializers:  # a checkpoint may give a variable a second one
        if name in nodes and view.inputs(name):
            of_variable[graph.state.variable(view.inputs(name)[0].node)].add(name)
    wanted = [of_variable[variable] for variable in sorted(trained) if variable in of_variable]
    if not wanted:
        return []
    groups = reached(
        itertools.chain.from_iterable(map(view.control_consumers, sorted(wanted[0]))),
        view.control_consumers,
        lambda name: nodes[name].op == "NoOp",
    )
    whole = {
        name: before
        for name, before in ((name, view.ancestors([name])) for name in groups)
        if all(any_of & before for any_of in wanted) and not before & writes
    }
    return sorted(name for name, before in whole.items() if before & whole.keys() == {name})


def _savers(view: GraphView, trained: AbstractSet[str]) -> Iterator[Tuple[str, str, Port]]:
    """For each Saver: its save op, its restore op, and the output with the checkpoint's name."""
    seen: Set[str] = set()
    restores: Dict[str, str] = {}  # the first of each scope
    for name, node in view.nodes.items():
        if node.op in RESTORES:
            restores.setdefault(name.rpartition("/")[0], name)
    for name, node in view.nodes.items():
        scope = name.rpartition("/")[0]
        if (
            node.op not in SAVES
            or scope in seen
            or not trained & set(strings(view.nodes[view.inputs(name)[1].node]))
        ):
            continue
        restore_op = "%s/restore_all" % scope
        found = restore_op in view.nodes and view.nodes[restore_op].op == "NoOp"
        if found and scope in restores:
            seen.add(scope)
            yield name, restore_op, view.inputs(restores[scope])[0]


def _save_too(
    editor: Editor, part: Fragment, save: str, variables: Sequence[Any], scope: str
) -> None:
    """Let a SaveV2 save these variables too."""
    with part.building(), own_scope(scope):
        values = [part.port(read_scale(variable)) for variable in variables]
    names = [variable.op.name for variable in variables]
    _add_tensors(editor, save, names, values, "%s/%s" % (SCOPE, scope))
    editor.nodes[save].attr["dtypes"].list.type.extend(
        variable.dtype.base_dtype.as_datatype_enum for variable in variables
    )
    editor.changed[save] = _SAVED


def _add_tensors(
    editor: Editor, save: str, names: List[str], values: List[Port], scope: str
) -> None:
    """Add tensors to a SaveV2, with lists of its own: another op may read the old ones."""
    node = editor.nodes[save]
    for slot, more, kind in (
        (1, names, "tensor_names"),
        (2, [""] * len(names), "shape_and_slices"),
    ):
        old = constant(editor.nodes[parse_input(node.input[slot]).node])
        listed = [] if old is None else old.ravel().tolist()
        value = tf.make_tensor_proto(listed + [text.encode() for text in more], tf.string)
        editor.connect(
            save,
            slot,
            editor.add(
                "%s/%s" % (scope, kind), "Const", (), _SAVED, node.device, dtype=STRING, value=value
            ),
        )
    add_data_inputs(node, map(str, values))


def _restore(prefix: Any, variables: List[Any]) -> Any:
    """An op that restores variables from a checkpoint that has them, or else initialises them.

    A checkpoint without an index has none.
    """
    index = tf.matching_files(tf.strings.join([prefix, ".index"]))
    names = [variable.op.name for variable in variables]
    pattern = r"\C*%s\C*" % min(names).replace("graphmp", "", 1)
    present = tf.cond(
        tf.size(index) > 0,
        lambda: tf.strings.regex_full_match(tf.read_file(index[0]), pattern),
        lambda: tf.constant(False),
    )

    def read() -> Any:
        values = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            dtypes=[variable.dtype.base_dtype for variable in variables],
        )
        return tf.group(
            *[
                tf.assign(variable, tf.reshape(value, []))
                for variable, value in zip(variables, values)
            ]
        )

    def start() -> Any:
        return tf.group(*[tf.assign(variable, _first(variable)) for variable in variables])

    return tf.group(tf.cond(present, read, start), name="restore")


def _first(variable: Any) -> Any:
    """The variable's initial value, made anew.

    Control inputs from outside a conditional can't be used.
    """
    return tf.constant(
        tf.make_ndarray(variable.initial_value.op.get_attr("value")), variable.dtype.base_dtype
    )
