"""Why a node changed, or stayed float32: rules over what the engine noted and over names of inserted nodes, tried in order.

A rule speaks for the categories of change that it is about, and for no other: what no rule accounts for has no reason, and shows
as unexplained.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Callable, List, Mapping, NamedTuple, Optional, Tuple

from graphmp.compare import categories, kinds, roles
from graphmp.compare.changes import Body, Change
from graphmp.graph.state.state import variable_behind
from graphmp.graph.structure.view import parse_input
from graphmp.naming import SCOPE
from graphmp.policy.op_sets import MERGES, SWITCHES
from graphmp.policy.policy import Policy

# The kind of reason, by what stands before the colon of an engine's words.
DROPPED_SHAPES = (
    "recorded shapes (_output_shapes): dropped, for a TensorFlow of another version may refuse them"
)
_KINDS = {
    "allow": kinds.ALLOW,
    "infer": kinds.INFER,
    "clear": kinds.CLEAR,
    "group": kinds.GROUP,
    "user rule": kinds.USER_RULE,
    "cast up": kinds.CAST_UP,
    "cast down": kinds.CAST_DOWN,
    "constant in half precision for the ops that read it so": kinds.CAST_DOWN,
    "loop invariant, cast before the loop": kinds.CAST_DOWN,
    "scale": kinds.SCALE,
    "unscale": kinds.UNSCALE,
    "finite check": kinds.FINITE_CHECK,
    "clip": kinds.CLIP,
    "skip gate": kinds.SKIP_GATE,
    "loss scale state": kinds.LOSS_SCALE_STATE,
    "rewritten inside": kinds.BOOKKEEPING,
    DROPPED_SHAPES.split(":")[0]: kinds.BOOKKEEPING,
}
_KEPT_KINDS = {
    "user rule": kinds.USER_RULE,
    "group": kinds.GROUP,
    "deny": kinds.DENY_KEPT,
    "unlisted": kinds.UNLISTED,
    "gradient of a denied op": kinds.DENY_KEPT,
    "sum of a variable's gradients": kinds.DENY_KEPT,
    "update math": kinds.DENY_KEPT,
    "statistics": kinds.DENY_KEPT,
    "range guard": kinds.RANGE_GUARD,
    "last activation": kinds.LOSS_KEPT,
    "loss": kinds.LOSS_KEPT,
    "infer": kinds.NO_GAIN,
    "clear": kinds.NO_GAIN,
}  # any other word is a pin
# What an engine's word for what it did speaks for.
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
# What the recipe can't see of what TensorFlow's Python does when it builds a graph again, in half precision.
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


class Reason(NamedTuple):
    """The kind of a reason, one of `kinds.KINDS`, and in words."""

    kind: str
    text: str


class Context(NamedTuple):
    """What the rules look at besides the change itself.

    Attributes:
        policy: the op lists.
        done: what the engine did to a node, by its path: its words for it, and why.
        bodies: the graphs, body by body.
        new: paths of the nodes that only the converted graph has, or has under another name.
        is_recipe: whether TensorFlow's Python built the graph, rather than the rewrite.
    """

    policy: Policy
    done: Mapping[str, List[Tuple[str, str]]]
    bodies: Mapping[str, Body]
    new: AbstractSet[str]
    is_recipe: bool

    def op_of(self, node: str, body: str = "") -> str:
        """The op of a node of the converted graph; empty where there is no such node."""
        nodes = self.bodies[body].after.nodes
        return str(nodes[node].op) if node in nodes else ""


def reason(change: Change, context: Context) -> Optional[Reason]:
    """The reason for one change; None where no rule accounts for it."""
    found = (rule(change, context) for rule in _RULES)
    return next(filter(None, found), None)


def kept(text: str) -> Reason:
    """Why something stayed float32, in the painter's words, with its kind."""
    return Reason(_KEPT_KINDS.get(text.split(":")[0], kinds.PINNED), text)


def _done(change: Change, context: Context) -> Optional[Reason]:
    """By what the engine noted."""
    rows = context.done.get(change.path, ())
    if rows and change.part == "_output_shapes":
        return Reason(kinds.BOOKKEEPING, DROPPED_SHAPES)
    why = next(
        (
            why
            for did, why in rows
            if why and change.category in _DONE.get(did, (categories.ADDED,))
        ),
        None,
    )
    return Reason(_KINDS.get(why.split(":")[0]) or _role_kind(change), why) if why else None


def _role_kind(change: Change) -> str:
    known = roles.role(change.node)
    return known.kind if known else kinds.BOOKKEEPING


def _inserted(change: Change, context: Context) -> Optional[Reason]:
    """By the name of an inserted node; of nodes below graphmp/, whatever changed."""
    known = roles.role(change.node)
    if known is None or not (
        change.category == categories.ADDED or change.node.startswith(SCOPE + "/")
    ):
        return None
    return Reason(*known)


def _reads(change: Change, context: Context) -> Optional[Reason]:
    """By what an input reads now."""
    if change.category == categories.VIA_CAST:
        cast = roles.role(parse_input(change.after).node) if change.after else None
        return Reason(cast.kind if cast else kinds.CAST_DOWN, "reads its input through a cast")
    known = roles.reading(change.after or "") if change.category == categories.REWIRED else None
    return Reason(*known) if known else None


def _waits(change: Change, context: Context) -> Optional[Reason]:
    """By the control inputs that came: a skip gate's take the place of those that may not run."""
    names = [name[1:] for name in (change.after or "").split() if name.startswith("^")]
    if change.category != categories.CONTROL or not names:
        return None
    if all(roles.INITIALISER.match(name) for name in names):
        return Reason(
            kinds.LOSS_SCALE_STATE, "loss scale state: initialised with the model's variables"
        )
    if all(name.startswith(SCOPE + "/") for name in names):
        return Reason(
            kinds.SKIP_GATE, "skip gate: waits for what runs whether or not the step is skipped"
        )
    return None


def _field(change: Change, context: Context) -> Optional[Reason]:
    """By the field of the MetaGraphDef."""
    if change.category != categories.META_GRAPH:
        return None
    return next(
        (
            Reason(kinds.BOOKKEEPING, text)
            for pattern, text in _FIELDS
            if re.search(pattern, change.node)
        ),
        None,
    )


def _rebuilt(change: Change, context: Context) -> Optional[Reason]:
    """By what follows from building a graph again: only where the recipe did."""
    if not context.is_recipe:
        return None
    if change.part in ("seed", "seed2") or (
        change.category == categories.CONSTANT and change.node.endswith("/seed")
    ):
        return Reason(kinds.LAYERS, "TensorFlow numbers random ops by the ops before them")
    if change.category == categories.DTYPE:
        listed = context.policy.category(context.op_of(change.node, change.body))
        return Reason(_KINDS.get(listed, kinds.LAYERS), _POLICY[listed])
    if change.category == categories.ADDED and (
        context.op_of(change.node, change.body) in _GATES or "/cond" in change.node
    ):
        return Reason(kinds.SKIP_GATE, "skip gate: reads through the gate")
    if change.category == categories.REWIRED:
        return _rewired(change, context)
    text = _REBUILT.get(change.category)
    return Reason(kinds.LAYERS, text) if text else None


def _rewired(change: Change, context: Context) -> Optional[Reason]:
    """An edge of a graph that was built again: to what is new there, to another read of its variable, or of an op that TensorFlow named."""
    old, new = (parse_input(text or "").node for text in (change.before, change.after))
    if change.after is None or new in context.new:
        if context.op_of(new) in _GATES:
            return Reason(kinds.SKIP_GATE, "skip gate: reads through the gate")
        return Reason(kinds.LAYERS, "reads a value that changed")
    sides = zip((context.bodies[""].before, context.bodies[""].after), (old, new))
    variables = [
        variable_behind(view, name) if name in view.nodes else None for view, name in sides
    ]
    if variables[0] is not None and variables[0] == variables[1]:
        return Reason(kinds.LAYERS, "reads the same variable through another read")
    read = context.op_of(new)
    renumbered = (
        old.rpartition("/")[0] == new.rpartition("/")[0]
        and _is_named_by_op(old, read)
        and _is_named_by_op(new, read)
    )
    if renumbered or _is_named_by_op(change.node, context.op_of(change.node, change.body)):
        return Reason(kinds.LAYERS, "TensorFlow numbers ops without a name by the ops before them")
    return None


def _is_named_by_op(name: str, op: str) -> bool:
    """Whether TensorFlow made the name up: `MatMul_3` from the op, `zeros_like_3` from its Python function."""
    return bool(op) and re.sub(r"_\d+$|_", "", name.rpartition("/")[2]).lower() == op.lower()


_RULES: List[Callable[[Change, Context], Optional[Reason]]] = [
    _done,
    _inserted,
    _reads,
    _waits,
    _field,
    _rebuilt,
]
