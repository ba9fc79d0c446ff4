"""Runs of a mutant and the unmutated graph side by side, and whether they differ.

Both start from the same values and run the same steps on the same batches, in one thread and
without graph optimisation:

    init         the graph's own init op, then the initialisers of all that it left out
    growth       five good steps: with a growth interval of 2 the scale grows twice
    overflow     two steps in a row in which one gradient is infinite, then a good one; then each
                 gradient in turn, infinite and, in its last element, NaN
    lower bound  as many overflows as needed
    upper bound  the scale is 2^127 and its factors are small: it can't grow
    checkpoint   the Saver's file; restoring it after more steps, and in a session that initialised
                 nothing; and the original's own file

All variables, the losses, and the errors of refused steps are compared after each step, byte by
byte. Differences between two runs of the unmutated graph, with its nodes in one order and in the
reverse, are ignored. A mutant without a difference is undecided: nothing proves that it is the
same.
"""

from __future__ import annotations

import glob
import pathlib
import tempfile
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.graph.io.messages import with_nodes_reversed
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.session.steps.as_written import one_by_one
from mutants.subject import OWN, Slot, Subject
from tests.support.training import imported

_STEPS, _GRADIENTS, _BATCH, _ENDS, _LOSSES = 5, 8, 8, 8, 8
_LARGEST_SCALE, _TINY = 2.0**127, 2.0**-126
_LIMIT_MS = 60_000
CONFIG = one_by_one(
    tf.ConfigProto(intra_op_parallelism_threads=1, operation_timeout_in_ms=_LIMIT_MS)
)
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True

Observations = Dict[str, Any]


class NotRun(Exception):
    """The unmutated graph doesn't run on made-up batches; the text says why."""


class Plan(NamedTuple):
    """How to run the unmutated graph and all of its mutants.

    Attributes:
        init: names of the ops that initialise variables, together.
        initializers: the initialisers of single variables, by the variable.
        train: the ops that a step runs in turn.
        losses: scalars that are fetched ahead of a step.
        variables: the ops of all variables.
        gradients: tensors that are made to overflow.
        seeds: tensors that are made small while the scale is large.
        feeds: the batches.
        shapes: the known shapes of gradients.
    """

    init: List[str]
    initializers: Dict[str, str]
    train: List[str]
    losses: List[str]
    variables: List[str]
    gradients: List[str]
    seeds: List[str]
    feeds: List[Dict[str, Any]]
    shapes: Dict[str, Tuple[int, ...]]


class Comparison:
    """The unmutated graph's observations, made once, for comparison with mutants."""

    def __init__(self, subject: Subject):
        """Run the unmutated graph twice, once with its nodes in reverse.

        Results that no edge orders may differ between the two.

        Raises:
            NotRun: it can't be run.
        """
        self._subject = subject
        self.plan = plan(subject)
        with tempfile.TemporaryDirectory() as folder:
            self._old = _original_checkpoint(subject, self.plan, pathlib.Path(folder) / "old")
            self._files = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
        self._expected = self._observed(subject.converted)
        again = self._observed(with_nodes_reversed(subject.converted))
        self._stable = [key for key, value in self._expected.items() if again.get(key) == value]
        refused = [
            key for key in self._expected if key.startswith("growth") and key.endswith("error")
        ]
        if refused:
            raise NotRun("%s: %s" % (refused[0], self._expected[refused[0]]))
        if not self._trains():
            raise NotRun("good steps on made-up batches change no variable")

    def _trains(self) -> bool:
        """Whether the good steps change a variable of the original; else all mutants look equal."""
        ends = [
            {name: self._expected.get("%s: %s" % (label, name)) for name in self._subject.variables}
            for label in ("initialised", "growth 4")
        ]
        return ends[0] != ends[1]

    def difference(self, mutated: tf.MetaGraphDef) -> str:
        """The first difference of a mutant; empty if there is none."""
        for field in ("collection_def", "saver_def", "signature_def"):
            if getattr(mutated, field) != getattr(self._subject.converted, field):
                return field
        found = self._observed(mutated)
        different = [key for key in self._stable if found.get(key) != self._expected[key]] + [
            key for key in found if key not in self._expected
        ]
        return different[0] if different else ""

    def _observed(self, meta_graph: tf.MetaGraphDef) -> Observations:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self._files.items():
                (pathlib.Path(folder) / name).write_bytes(content)
            return observed(meta_graph, self.plan, pathlib.Path(folder), self._old)


def plan(subject: Subject) -> Plan:
    """How to run a conversion.

    Raises:
        NotRun: no batch was found on which it runs.
    """
    view = subject.view
    initializers = _initializers(subject)
    init = [
        n
        for n, node in view.nodes.items()
        if node.op == "NoOp" and len(set(view.controls(n)) & set(initializers.values())) > 1
    ]
    train = list(subject.train) or _train(subject)
    losses = [name for name in subject.before.nodes if _is_loss(subject, name)][:_LOSSES]
    variables = [*subject.variables, *subject.own_variables]
    gradients = [
        str(subject.read(Slot(name, 0))) for name in subject.unscales if not subject.frame(name)
    ]
    seeds = [name for name in subject.seeds if not subject.frame(name)]
    made = Plan(
        init,
        initializers,
        train,
        losses,
        variables,
        gradients[:_GRADIENTS],
        seeds,
        [],
        _known_shapes(subject, gradients),
    )
    if not train:
        raise NotRun("no step was found")
    return made._replace(feeds=_feeds(subject, made))


def _known_shapes(subject: Subject, names: List[str]) -> Dict[str, Tuple[int, ...]]:
    found = {name: subject.shape(parse_input(name)) for name in names}
    return {
        name: shape
        for name, shape in found.items()
        if shape is not None and -1 not in shape and 0 not in shape
    }


def _train(subject: Subject) -> List[str]:
    """The ops of the collection `train_op`, or else the last ops of updates.

    Of these, only the original's, if there are any.
    """
    collections = subject.converted.collection_def
    listed = [
        parse_input(name).node
        for name in (collections["train_op"].node_list.value if "train_op" in collections else ())
    ]
    behind = subject.view.descendants(subject.updates) if subject.updates else set()
    ends = [
        name
        for name in behind
        if not subject.view.consumers(name) and not subject.view.control_consumers(name)
    ]
    ends = sorted(name for name in ends if subject.view.nodes[name].op not in ("Switch", "Merge"))
    theirs = [name for name in ends if not name.startswith(OWN)]
    return [name for name in listed if name in subject.view.nodes] or (theirs or ends)[:_ENDS]


def _initializers(subject: Subject) -> Dict[str, str]:
    found = {}
    for name in [
        *sorted(subject.state.initializers),
        *(n for n in subject.own if n.endswith("/Assign")),
    ]:
        if name in subject.view.nodes and subject.view.inputs(name):
            found[subject.view.inputs(name)[0].node] = name
    return found


def _is_loss(subject: Subject, name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return (
        "loss" in last.lower()
        and subject.shape(Port(name, 0)) == ()
        and subject.is_float(Port(name, 0))
        and name in subject.view.nodes
    )


def _feeds(subject: Subject, made: Plan) -> List[Dict[str, Any]]:
    with tf.Graph().as_default() as graph:
        try:
            imported(_copy(subject.converted))
            targets = [*made.train, *made.losses]
            with tf.Session(graph=graph, config=CONFIG) as session:
                _initialise(session, made)
                batches = first_that_runs(
                    session,
                    [graph.get_operation_by_name(name) for name in made.train],
                    random_attempts(graph, subject.view, targets, _BATCH, 1),
                )
        except Exception as error:  # TensorFlow raises errors of many types
            raise NotRun("%s: %s" % (type(error).__name__, str(error).splitlines()[0])) from error
        return [
            {name: np.array(value) for name, value in batches(step).items()} for step in range(3)
        ]


def _copy(meta_graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A copy whose random ops draw the same numbers in each session."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    for nodes in [
        copy.graph_def.node,
        *(function.node_def for function in copy.graph_def.library.function),
    ]:
        for node in nodes:
            if (
                "seed" in node.attr
                and "seed2" in node.attr
                and not (node.attr["seed"].i or node.attr["seed2"].i)
            ):
                node.attr["seed"].i, node.attr["seed2"].i = 1, zlib.crc32(node.name.encode())
    return copy


def observed(
    meta_graph: tf.MetaGraphDef, made: Plan, folder: pathlib.Path, old: bool
) -> Observations:
    """The observations of a graph that runs all steps."""
    found: Observations = {}
    with tf.Graph().as_default() as graph:
        copy = _copy(meta_graph)
        spoils = _spoiled(copy, made)
        try:
            imported(copy)
        except Exception as error:  # TensorFlow raises errors of many types
            return {"import": type(error).__name__}
        reads = _reads(graph, made)
        with tf.Session(graph=graph, config=CONFIG) as session:
            run = _Run(session, made, spoils, reads, found)
            _all_steps(run, made, copy.saver_def, folder)
        if copy.saver_def.restore_op_name:
            for name in ["saved"] + ["old"] * old:
                with tf.Session(graph=graph, config=CONFIG) as session:
                    run = _Run(session, made, spoils, reads, found)
                    run.restored(name + ", anew", copy.saver_def, folder / name)
                    run.step(name + ", anew, stepped")
                    run.step(name + ", anew, overflowed", dict.fromkeys(made.gradients[:1], np.inf))
    return found


def _all_steps(run: _Run, made: Plan, saver: Any, folder: pathlib.Path) -> None:
    run.initialise()
    for number in range(_STEPS):
        run.step("growth %d" % number)
    for number in range(2):
        run.step("overflow %d" % number, dict.fromkeys(made.gradients[:1], np.inf))
    run.step("after overflows")
    for name in made.gradients:
        run.step("inf in %s" % name, {name: np.inf})
        run.step("nan in %s" % name, {name: np.nan})
    run.step("all overflow", dict.fromkeys(made.gradients, np.inf))
    for number in range(3):
        run.step("from the lower bound %d" % number)
    run.save("saved", saver, folder / "saved")
    run.scale_is(_LARGEST_SCALE)
    for number in range(4):
        run.step("upper bound %d" % number, dict.fromkeys(made.seeds, _TINY))
    run.restored("restored", saver, folder / "saved")
    run.step("after restoring")


class _Run:
    """A session of one graph, with its observations."""

    def __init__(
        self,
        session: Any,
        made: Plan,
        spoils: Dict[str, Tuple[str, Any]],
        reads: Dict[str, Any],
        found: Observations,
    ):
        self._session, self._plan, self._spoils, self._reads, self._found = (
            session,
            made,
            spoils,
            reads,
            found,
        )
        self._number = 0

    def initialise(self) -> None:
        """Run the init op, and record what it has initialised."""
        self._guarded(
            "init",
            lambda: (
                self._session.run(
                    [self._session.graph.get_operation_by_name(name) for name in self._plan.init]
                )
                and None
            ),
        )
        self._look("init")
        rest = (
            _initialise if "init: error" in self._found else _initialise_rest
        )  # in the second round an initialiser may read a variable that another one writes
        self._guarded("initialisers", lambda: rest(self._session, self._plan))
        self._look("initialised")

    def step(self, label: str, spoilt: Any = None) -> None:
        """Fetch the losses, run a step with some values spoilt, and record the variables."""
        feed = dict(self._plan.feeds[self._number % len(self._plan.feeds)])
        self._number += 1
        graph = self._session.graph
        for name, (placeholder, dtype) in self._spoils.items():
            feed[placeholder] = self._factor(name, (spoilt or {}).get(name, 1.0)).astype(
                dtype.as_numpy_dtype
            )
        losses = [
            graph.get_tensor_by_name(name + ":0")
            for name in self._plan.losses
            if _is_there(graph, name)
        ]
        self._guarded(label + ", losses", lambda: self._session.run(losses, feed))
        for name in self._plan.train:
            self._guarded(
                "%s, %s" % (label, name),
                lambda name=name: (
                    self._session.run([graph.get_operation_by_name(name)], feed) and None
                ),
            )
        self._look(label)

    def _factor(self, name: str, number: float) -> Any:
        """The factor of a value; NaN applies to its last element only."""
        if not np.isnan(number) or name not in self._plan.shapes:
            return np.float32(number)
        factor = np.ones(self._plan.shapes[name], np.float32)
        factor.flat[-1] = number
        return factor

    def _look(self, label: str) -> None:
        for name, read in self._reads.items():
            self._guarded("%s: %s" % (label, name), lambda read=read: self._session.run(read))

    def scale_is(self, value: float) -> None:
        """Set each scale."""
        for name, (feed, assign) in _setters(self._session.graph, self._plan).items():
            self._guarded(
                "setting " + name,
                lambda feed=feed, assign=assign: (
                    self._session.run(assign, {feed: np.float32(value)}) and None
                ),
            )

    def save(self, label: str, saver: Any, path: pathlib.Path) -> None:
        """Save, and record the file."""
        if not saver.save_tensor_name:
            return
        self._guarded(
            label,
            lambda: (
                self._session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(path)})
                and None
            ),
        )
        self._guarded(label + ", file", lambda: _content(path))

    def restored(self, label: str, saver: Any, path: pathlib.Path) -> None:
        """Restore, and record the variables."""
        if saver.restore_op_name and glob.glob(str(path) + "*"):
            self._guarded(
                label,
                lambda: (
                    self._session.run(
                        [saver.restore_op_name], {saver.filename_tensor_name: str(path)}
                    )
                    and None
                ),
            )
            self._look(label)

    def _guarded(self, label: str, call: Callable[[], Any]) -> None:
        try:
            self._found[label] = _bytes(call())
        except Exception as error:  # TensorFlow raises errors of many types
            self._found[label + ": error"] = type(error).__name__


def _bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bytes(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bytes(part) for part in value]
    return (
        None
        if value is None
        else (str(np.asarray(value).dtype), np.shape(value), np.asarray(value).tobytes())
    )


def _is_there(graph: Any, name: str) -> bool:
    try:
        graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True


def _initialise(session: Any, made: Plan) -> None:
    """Run the init op if there is one, and the initialisers of all that is still uninitialised."""
    session.run([session.graph.get_operation_by_name(name) for name in made.init])
    _initialise_rest(session, made)


def _initialise_rest(session: Any, made: Plan) -> None:
    """Run the initialisers of tables and of variables that the init op leaves out, in order.

    Each runs once those before it have run.
    """
    graph = session.graph
    tables = tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    session.run(tables)
    left = [
        name
        for name in made.initializers.values()
        if not any(name in _controls(graph, init) for init in made.init)
    ]
    for _ in range(3):
        refused = []
        for name in left:
            try:
                session.run([graph.get_operation_by_name(name)])
            except tf.errors.FailedPreconditionError:
                refused.append(name)
        left = refused


def _controls(graph: Any, name: str) -> List[str]:
    return [op.name for op in graph.get_operation_by_name(name).control_inputs]


def _reads(graph: Any, made: Plan) -> Dict[str, Any]:
    """A read of each variable."""
    found = {}
    for name in made.variables:
        if _is_there(graph, name):
            op = graph.get_operation_by_name(name)
            if op.type == "VarHandleOp":
                found[name] = tf.raw_ops.ReadVariableOp(
                    resource=op.outputs[0], dtype=op.get_attr("dtype")
                )
            else:
                found[name] = tf.identity(op.outputs[0])
    return found


def _setters(graph: Any, made: Plan) -> Dict[str, Tuple[Any, Any]]:
    """For each scale a placeholder, and an op that assigns it."""
    found = {}
    with graph.as_default():
        for name in made.variables:
            if name.startswith(OWN) and name.endswith("/scale") and _is_there(graph, name):
                op, value = graph.get_operation_by_name(name), tf.placeholder(tf.float32, ())
                ref = op.outputs[0]
                found[name] = (
                    value,
                    tf.raw_ops.AssignVariableOp(resource=ref, value=value)
                    if op.type == "VarHandleOp"
                    else tf.assign(ref, value).op,
                )
    return found


def _spoiled(meta_graph: tf.MetaGraphDef, made: Plan) -> Dict[str, Tuple[str, Any]]:
    """Multiply gradients and seeds by placeholders, in the graph itself.

    Returns:
        The placeholder and its dtype by the tensor.
    """
    view = GraphView(meta_graph.graph_def)
    defs, found = _types(meta_graph), {}  # type: Any, Dict[str, Tuple[str, Any]]
    for number, name in enumerate(dict.fromkeys([*made.gradients, *made.seeds])):
        port = parse_input(name)
        if port.node not in view.nodes:
            continue
        dtype = tf.as_dtype(defs.signature(view.nodes[port.node]).outputs[port.output].dtype)
        if not dtype.is_floating:
            continue
        readers = [c for c in view.consumers(port.node) if c.output == port.output]
        placeholder, product = "spoil_%d" % number, "spoilt_%d" % number
        node = meta_graph.graph_def.node.add(name=placeholder, op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node = meta_graph.graph_def.node.add(name=product, op="Mul", input=[str(port), placeholder])
        node.attr["T"].type = dtype.as_datatype_enum
        for consumer in readers:
            view.nodes[consumer.node].input[consumer.slot] = product
        found[name] = placeholder + ":0", dtype
    return found


def _types(meta_graph: tf.MetaGraphDef) -> Any:
    from graphmp.tf_hooks.op_defs import OpDefs

    return OpDefs(meta_graph)


def _content(path: pathlib.Path) -> Dict[str, Any]:
    """The tensors of a checkpoint by name."""
    reader = tf.train.NewCheckpointReader(str(path))
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}


def _original_checkpoint(subject: Subject, made: Plan, path: pathlib.Path) -> bool:
    """Write a checkpoint of the original; return whether this was possible."""
    saver = subject.original.saver_def
    if not saver.save_tensor_name:
        return False
    with tf.Graph().as_default() as graph:
        try:
            imported(_copy(subject.original))
            with tf.Session(graph=graph, config=CONFIG) as session:
                theirs = {v: i for v, i in made.initializers.items() if i in subject.before.nodes}
                _initialise(
                    session,
                    made._replace(
                        init=[n for n in made.init if n in subject.before.nodes],
                        initializers=theirs,
                    ),
                )
                session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(path)})
        except Exception:  # TensorFlow raises errors of many types: there is no checkpoint then
            return False
    return True
