"""Lowering of a step to HLO by XLA's front end, on any machine: it isn't compiled for a device."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.compiler.xla import xla_data_pb2 as xla
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.python.eager import context

from graphmp.audit.options import AuditOptions
from graphmp.errors import GraphmpError
from graphmp.feeds.sources import is_source
from graphmp.tf_hooks.op_defs import OpDefs
from hlo.conditionals import selected
from hlo.flops import COUNTED, DTYPES
from hlo.resources import reads_first, with_resource_variables
from hlo.step import Step, find_step, step_graph
from hlo.values import Values, first_values

_NO_KERNEL = re.compile(r"(\w+) \(No registered '\w+' OpKernel.*?\{\{node ([^}]+)\}\}\)")
_MOST_LETTERS = 300
_NAME = "training_step"


class Source:
    """A training graph whose step, and conversions of it, are lowered with the same first values.

    Attributes:
        step: what is run.
        values: a batch, and the first values of the variables.
    """

    def __init__(self, original: tf.MetaGraphDef, train_op: Sequence[str], options: AuditOptions):
        """Find the step, a batch and first values.

        Args:
            original: the graph.
            train_op: the ops that train; empty for all losses.
            options: the data or the batch size, and the seed of the first values.

        Raises:
            GraphmpError: GMP002, GMP003, GMP020, GMP023, GMP024.
        """
        self.step = find_step(original, train_op)
        step_graph(original, self.step)  # what can't be lowered is refused before anything is run
        self.values = first_values(original, self.step, options)

    def lower(self, meta_graph: tf.MetaGraphDef) -> Lowered:
        """Lower the step of the graph, or of a conversion of it.

        Raises:
            GraphmpError: GMP020 for what XLA can't lower.
        """
        part = with_resource_variables(
            selected(step_graph(meta_graph, self.step)), OpDefs(meta_graph)
        )
        reads_first(part)
        return Lowered(part, self.step, self.values)


class Parameter(NamedTuple):
    """A parameter of the program: a fed tensor or a variable, with its first value."""

    name: str
    is_variable: bool
    first: np.ndarray


class Lowered:
    """A step as a function compiled by XLA, and as HLO.

    Attributes:
        module: the HloModuleProto.
        parameters: the parameters in order: feeds, then variables.
        constants: the feeds that determine shapes, which are constants of the program.
        losses: the names of the first results.
        written: the numbers of the parameters whose new values are the other results.
    """

    def __init__(self, graph_def: tf.GraphDef, step: Step, values: Values):
        """Lower a graph in which all variables are resource variables.

        Raises:
            GraphmpError: GMP020 for an op that XLA can't lower.
        """
        self.losses = step.losses
        with context.eager_mode():
            self._variables = {
                name: tf.Variable(value, use_resource=True, trainable=False)
                for name, value in values.variables.items()
            }
            self._feeds = [tf.constant(array) for array in values.batch.values()]
            try:
                self._function = self._compiled(graph_def, step, values.batch)
                data = self._function.experimental_get_compiler_ir(*self._feeds)(
                    stage="hlo_serialized"
                )
            except (tf.errors.OpError, ValueError, TypeError) as error:
                raise GraphmpError(
                    "GMP020", "XLA does not lower the step: %s" % _reason(str(error))
                ) from None
            captured = self._function.get_concrete_function(*self._feeds).captured_inputs
        self.module = hlo_pb2.HloModuleProto.FromString(data)
        names = {id(variable.handle): name for name, variable in self._variables.items()}
        held = [
            Parameter(names[id(handle)], True, values.variables[names[id(handle)]])
            for handle in captured
        ]
        self.parameters = self._taken(
            [Parameter(name, False, array) for name, array in values.batch.items()], held
        )
        self.constants = sorted(
            set(values.batch) - {parameter.name for parameter in self.parameters}
        )
        aliases = {
            entry.output_shape_index[0]: entry.parameter_number
            for entry in self.module.input_output_alias.entries
        }
        self.written = [aliases[number] for number in sorted(aliases)]
        assert len(self._entry.program_shape.result.tuple_shapes) == len(self.losses) + len(
            self.written
        ), "a result of unknown meaning"

    def _compiled(self, graph_def: tf.GraphDef, step: Step, batch: Dict[str, np.ndarray]) -> Any:
        """The step as a function of its batch; the variables are captured."""
        inner = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
        inner.node.extend(
            node for node in graph_def.node if node.op != "VarHandleOp" and not is_source(node)
        )
        placeholders: List[Any] = []

        def build() -> None:
            placeholders.extend(
                tf.placeholder(array.dtype, array.shape, "graphmp_feed") for array in batch.values()
            )
            handles = {
                name + ":0": tf.get_default_graph().capture(variable.handle)
                for name, variable in self._variables.items()
            }
            tf.import_graph_def(
                inner, input_map={**dict(zip(batch, placeholders)), **handles}, name=""
            )

        wrapped = tf.wrap_function(build, [])
        losses = [wrapped.graph.get_tensor_by_name(name + ":0") for name in step.losses]
        pruned = wrapped.prune(
            placeholders,
            [losses, [wrapped.graph.get_operation_by_name(name) for name in step.updates]],
        )
        return tf.function(lambda *feeds: pruned(*feeds)[0], autograph=False, jit_compile=True)

    def _taken(self, fed: List[Parameter], held: List[Parameter]) -> List[Parameter]:
        """The parameters of the program: all except the feeds that XLA needs as constants.

        Raises:
            GraphmpError: GMP020 if these can't be told apart.
        """
        wanted = [_kind(shape) for shape in self._entry.program_shape.parameters]
        offered = [(parameter.first.dtype.name, parameter.first.shape) for parameter in fed + held]
        first = _places(wanted, offered)
        last = [
            len(offered) - 1 - place for place in reversed(_places(wanted[::-1], offered[::-1]))
        ]
        if len(first) != len(wanted) or first != last:
            names = ", ".join(parameter.name for parameter in fed)
            raise GraphmpError(
                "GMP020",
                "XLA wants to know some of the fed tensors ahead, and it is not clear which of %s"
                % names,
            )
        return [(fed + held)[place] for place in first]

    @property
    def _entry(self) -> Any:
        return next(c for c in self.module.computations if c.id == self.module.entry_computation_id)

    def run(self) -> Dict[str, Any]:
        """Run the step here, compiled by XLA. Return the losses, and new values of variables."""
        with context.eager_mode():
            losses = {
                name: loss.numpy() for name, loss in zip(self.losses, self._function(*self._feeds))
            }
            return {
                **losses,
                **{name: variable.numpy() for name, variable in self._variables.items()},
            }

    def serialized(self, allow_tf32: bool) -> bytes:
        """The program, without paths of this machine.

        Its float32 products have full precision unless `allow_tf32`.
        """
        module = hlo_pb2.HloModuleProto()
        module.CopyFrom(self.module)
        module.id = 1  # its own, like its name, counts the lowerings of this process
        precision = xla.PrecisionConfig.DEFAULT if allow_tf32 else xla.PrecisionConfig.HIGHEST
        for computation in module.computations:
            if computation.id == module.entry_computation_id:
                module.name = module.entry_computation_name = computation.name = _NAME
            for instruction in computation.instructions:
                instruction.metadata.ClearField("source_file")
                if instruction.opcode in COUNTED:
                    instruction.precision_config.operand_precision[:] = [precision, precision]
        data: bytes = module.SerializeToString(deterministic=True)
        return data


def _places(wanted: List[Any], offered: List[Any]) -> List[int]:
    """The first indices in `offered` at which the wanted values occur in order.

    Fewer than wanted if one doesn't occur.
    """
    found: List[int] = []
    for place, each in enumerate(offered):
        if len(found) < len(wanted) and each == wanted[len(found)]:
            found.append(place)
    return found


def _kind(shape: Any) -> Tuple[str, Tuple[int, ...]]:
    return DTYPES[shape.element_type], tuple(shape.dimensions)


def _reason(text: str) -> str:
    """XLA's message, shortened to ops and nodes if it lists ops without a kernel."""
    missing = ["%s (node %s)" % found for found in _NO_KERNEL.findall(text)]
    return (
        "it has no kernel for %s" % ", ".join(missing)
        if missing
        else " ".join(text.split())[:_MOST_LETTERS]
    )
