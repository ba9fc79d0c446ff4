"""Why a node changed, or stayed float32.

Rules over the engine's record and names of inserted nodes.

Rules are tried in order. A rule applies only to its own categories of change; a change without a
rule has no reason, and is shown as unexplained.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Callable, List, Mapping, NamedTuple, Optional

from graphmp.compare import categories, kinds, roles
from graphmp.compare.changes import BodyPair, Change
from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.values import strings
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.graph.structure.walk import reached
from graphmp.naming import SCOPE
from graphmp.policy import reason
from graphmp.policy.op_sets import IDENTITIES, MERGES, RESTORES, SAVES, SWITCHES
from graphmp.policy.policy import Policy
from graphmp.policy.reason import Done, Reason

# The report's kinds of the reasons for changes, and for what stayed float32.
_KINDS = {
    reason.ALLOW: kinds.ALLOW,
    reason.INFER: kinds.INFER,
    reason.CLEAR: kinds.CLEAR,
    reason.GROUP: kinds.GROUP,
    reason.USER_RULE: kinds.USER_RULE,
    reason.CAST_UP: kinds.CAST_UP,
    reason.CAST_DOWN: kinds.CAST_DOWN,
    reason.SECOND_CONSTANT: kinds.CAST_DOWN,
    reason.SECOND_ENTER: kinds.CAST_DOWN,
    reason.SCALE: kinds.SCALE,
    reason.UNSCALE: kinds.UNSCALE,
    reason.FINITE_CHECK: kinds.FINITE_CHECK,
    reason.SKIP_GATE: kinds.SKIP_GATE,
    reason.LOSS_SCALE_STATE: kinds.LOSS_SCALE_STATE,
    reason.REWRITTEN: kinds.BOOKKEEPING,
    reason.SHAPES: kinds.BOOKKEEPING,
}
_KEPT_KINDS = {
    reason.USER_RULE: kinds.USER_RULE,
    reason.GROUP: kinds.GROUP,
    reason.DENY: kinds.DENY_KEPT,
    reason.UNLISTED: kinds.UNLISTED,
    reason.GRADIENT: kinds.DENY_KEPT,
    reason.SUM: kinds.DENY_KEPT,
    reason.UPDATE: kinds.DENY_KEPT,
    reason.STATISTICS: kinds.DENY_KEPT,
    reason.RANGE_GUARD: kinds.RANGE_GUARD,
    reason.MAGNIFIED: kinds.DENY_KEPT,
    reason.LAST_ACTIVATION: kinds.LOSS_KEPT,
    reason.LOSS: kinds.LOSS_KEPT,
    reason.INFER: kinds.NO_GAIN,
    reason.CLEAR: kinds.NO_GAIN,
    reason.MEASURED: kinds.MEASURED,
}  # any other kind is a pin
# The categories of change that a kind of the engine's record explains.
_DONE = {
    "inserted": (categories.ADDED,),
    "changed": (
        categories.OP,
        categories.REWIRED,
        categories.CONTROL,
        categories.ATTRIBUTE,
        categories.DTYPE,
    ),
    "painted": (categories.DTYPE, categories.OP, categories.ATTRIBUTE, categories.CONSTANT),
    "shapes": (categories.ATTRIBUTE,),
    "rewritten": (categories.FUNCTION,),
}
_POLICY = {
    "allow": "allow: worth half precision",
    "infer": "infer: between half-precision ops",
    "clear": "clear: follows its input",
    "deny": "deny: computes in float32, its result is cast",
    "unlisted": "holds a half-precision value",
}
_FIELDS = (
    (r"^collection_def/graphmp", "list of what graphmp put into the graph"),
    (
        r"^collection_def/(while|cond)_context$",
        "contexts learn of inserted nodes, so that tf.gradients works on the imported graph",
    ),
    (r"^collection_def/(.*variables|savers)$", "lists the loss scale's variables"),
    (r"^meta_info_def$", "list of the ops that the graph holds"),
)
# Changes that the recipe can't observe: TensorFlow's Python makes them when it builds a graph again
# in half precision.
_REBUILT = {
    categories.ATTRIBUTE: "placement hint that TensorFlow's gradient code gives",
    categories.CONTROL: "waits for what it reads now",
    categories.META_GRAPH: "list of what the graph holds",
    categories.FUNCTION: "built again by TensorFlow for the compute dtype",
    categories.RENAMED: "TensorFlow's layers name it so for the compute dtype",
    categories.ADDED: "made by TensorFlow's layers or gradients for the compute dtype",
    categories.REMOVED: "not needed by TensorFlow's layers or gradients for the compute dtype",
}
_GATES = SWITCHES | MERGES


class Stated(NamedTuple):
    """A reason in the report: its kind, one of `kinds.KINDS`, and its text."""

    kind: str
    text: str


class Context(NamedTuple):
    """The context of a change, for the rules.

    Attributes:
        policy: the op lists.
        done: the engine's changes to each node, by its path.
        bodies: the graphs, body by body.
        new: paths of the nodes that only the converted graph has, or has under another name.
        is_recipe: whether TensorFlow's Python built the graph, rather than the rewrite.
    """

    policy: Policy
    done: Mapping[str, List[Done]]
    bodies: Mapping[str, BodyPair]
    new: AbstractSet[str]
    is_recipe: bool

    def op_of(self, node: str, body: str = "") -> str:
        """The op of a node of the converted graph; empty if it doesn't exist."""
        nodes = self.bodies[body].after.nodes
        return str(nodes[node].op) if node in nodes else ""


def stated(change: Change, context: Context) -> Optional[Stated]:
    """The reason for a change; None if no rule explains it."""
    found = (rule(change, context) for rule in _RULES)
    return next(filter(None, found), None)


def kept(why: Reason) -> Stated:
    """The reason for which a node stayed float32."""
    return Stated(_KEPT_KINDS.get(why.kind, kinds.PINNED), why.text)


def _done(change: Change, context: Context) -> Optional[Stated]:
    """By the engine's record."""
    rows = context.done.get(change.path, ())
    if rows and change.part == "_output_shapes":
        return Stated(kinds.BOOKKEEPING, reason.DROPPED_SHAPES.text)
    found = (row.why for row in rows if change.category in _DONE.get(row.did, (categories.ADDED,)))
    why = next(found, None)
    return Stated(_KINDS.get(why.kind) or _role_kind(change), why.text) if why else None


def _role_kind(change: Change) -> str:
    known = roles.role(change.node)
    return known.kind if known else kinds.BOOKKEEPING


def _inserted(change: Change, context: Context) -> Optional[Stated]:
    """By the name of an inserted node; for nodes below graphmp/, any change."""
    known = roles.role(change.node)
    if known is None or not (
        change.category == categories.ADDED or change.node.startswith(SCOPE + "/")
    ):
        return None
    return Stated(*known)


def _reads(change: Change, context: Context) -> Optional[Stated]:
    """By the new producer of an input."""
    if change.category == categories.VIA_CAST:
        cast = roles.role(parse_input(change.after).node) if change.after else None
        return Stated(cast.kind if cast else kinds.CAST_DOWN, "reads its input through a cast")
    known = roles.reading(change.after or "") if change.category == categories.REWIRED else None
    return Stated(*known) if known else None


def _waits(change: Change, context: Context) -> Optional[Stated]:
    """By the new control inputs.

    Those from a skip gate replace those from nodes that may not run.
    """
    names = [name[1:] for name in (change.after or "").split() if name.startswith("^")]
    if change.category != categories.CONTROL or not names:
        return None
    if all(roles.INITIALISER.match(name) for name in names):
        return Stated(
            kinds.LOSS_SCALE_STATE, "loss scale state: initialised with the model's variables"
        )
    if all(name.startswith(SCOPE + "/") for name in names):
        return Stated(
            kinds.SKIP_GATE, "skip gate: waits for what runs whether or not the step is skipped"
        )
    return None


def _field(change: Change, context: Context) -> Optional[Stated]:
    """By the field of the MetaGraphDef."""
    if change.category != categories.META_GRAPH:
        return None
    return next(
        (
            Stated(kinds.BOOKKEEPING, text)
            for pattern, text in _FIELDS
            if re.search(pattern, change.node)
        ),
        None,
    )


def _saver(change: Change, context: Context) -> Optional[Stated]:
    """By the Saver that a node belongs to: code made it beside the scale; only for the recipe."""
    view = context.bodies[""].after
    if not context.is_recipe or change.body or not _is_of_saver(view, change.node):
        return None
    return Stated(
        kinds.LOSS_SCALE_STATE,
        "loss scale state: saved and restored among the model's variables, in the order of names",
    )


def _is_of_saver(view: GraphView, name: str) -> bool:
    """Whether a node saves or restores variables, among them a loss scale's."""
    node = view.nodes.get(name)
    if node is None:
        return False

    def is_group(each: str) -> bool:
        return bool(view.nodes[each].op == "NoOp")

    if node.op in SAVES | RESTORES:
        listed = strings(view.nodes[view.inputs(name)[1].node])
        return any(text.startswith(SCOPE + "/") for text in listed)
    if node.op == "Const":
        readers = view.consumers(name)
        return bool(readers) and all(_is_of_saver(view, each.node) for each in readers)
    if node.op == "NoOp":
        within = reached([name], lambda each: view.controls(each) if is_group(each) else ())
        written = [each for each in within if not is_group(each)]
        return bool(written) and all(_is_of_saver(view, each) for each in written)
    behind = (view.behind(port, IDENTITIES).node for port in view.inputs(name))
    return any(view.nodes[each].op in RESTORES and _is_of_saver(view, each) for each in behind)


def _rebuilt(change: Change, context: Context) -> Optional[Stated]:
    """By consequences of building a graph again; only for the recipe."""
    if not context.is_recipe:
        return None
    if change.part in ("seed", "seed2") or (
        change.category == categories.CONSTANT and change.node.endswith("/seed")
    ):
        return Stated(kinds.LAYERS, "TensorFlow numbers random ops by the ops before them")
    if change.category == categories.DTYPE:
        listed = context.policy.category(context.op_of(change.node, change.body))
        return Stated(_KINDS.get(listed, kinds.LAYERS), _POLICY[listed])
    if change.category == categories.ADDED and (
        context.op_of(change.node, change.body) in _GATES or "/cond" in change.node
    ):
        return Stated(kinds.SKIP_GATE, "skip gate: reads through the gate")
    if change.category == categories.REWIRED:
        return _rewired(change, context)
    text = _REBUILT.get(change.category)
    return Stated(kinds.LAYERS, text) if text else None


def _rewired(change: Change, context: Context) -> Optional[Stated]:
    """An edge of a rebuilt graph that now reads a new node or another read of the same variable.

    Also one that reads an op whose name TensorFlow made up.
    """
    old, new = (parse_input(text or "").node for text in (change.before, change.after))
    if change.after is None or new in context.new:
        if context.op_of(new) in _GATES:
            return Stated(kinds.SKIP_GATE, "skip gate: reads through the gate")
        return Stated(kinds.LAYERS, "reads a value that changed")
    sides = zip((context.bodies[""].before, context.bodies[""].after), (old, new))
    variables = [
        variable_behind(view, name) if name in view.nodes else None for view, name in sides
    ]
    if variables[0] is not None and variables[0] == variables[1]:
        return Stated(kinds.LAYERS, "reads the same variable through another read")
    read = context.op_of(new)
    renumbered = (
        old.rpartition("/")[0] == new.rpartition("/")[0]
        and _is_named_by_op(old, read)
        and _is_named_by_op(new, read)
    )
    if renumbered or _is_named_by_op(change.node, context.op_of(change.node, change.body)):
        return Stated(kinds.LAYERS, "TensorFlow numbers ops without a name by the ops before them")
    return None


def _is_named_by_op(name: str, op: str) -> bool:
    """Whether TensorFlow made the name up.

    `MatMul_3` from the op, `zeros_like_3` from its function.
    """
    return bool(op) and re.sub(r"_\d+$|_", "", name.rpartition("/")[2]).lower() == op.lower()


_RULES: List[Callable[[Change, Context], Optional[Stated]]] = [
    _done,
    _inserted,
    _reads,
    _waits,
    _field,
    _saver,
    _rebuilt,
]
