"""Refusals of the recipe: one line with the model's own line and the change that it needs."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from typing import Any, Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.patterns import matches
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.recipe.plan import Plan
from graphmp.wording import FRAMES

_FOREIGN = tuple(
    os.path.realpath(p) + os.sep
    for p in {
        sysconfig.get_paths()["purelib"],
        sysconfig.get_paths()["stdlib"],
        sysconfig.get_paths()["platlib"],
    }
)
_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_REWRITE = "let `graphmp convert FILE --engine=rewrite` change the float32 graph"
ADVICE = (
    "make the float32 value follow the tensor (dtype=x.dtype, or tf.cast(value, x.dtype)), or "
    + _REWRITE
)


def recipe_refused(error: Exception, function: Any) -> GraphmpError:
    """The error for a function that builds in float32 and not under the recipe."""
    where = user_frame(traceback.extract_tb(error.__traceback__, limit=-FRAMES))
    place = "%s:%d: `%s`" % where if where else getattr(function, "__qualname__", str(function))
    return GraphmpError(
        "GMP012",
        "%s mixes float32 into the half-precision part: %s; %s"
        % (place, first_line(error).rstrip("."), ADVICE),
    )


def blames(error: Exception, compute_dtype: str) -> bool:
    """Whether an error mentions the compute dtype; other errors of a build are the model's own."""
    names = (compute_dtype, "half") if compute_dtype == "float16" else (compute_dtype,)
    return any(name in str(error) for name in names)


def functional_control_flow(op_type: str) -> GraphmpError:
    """The error for a conditional or loop of TensorFlow 2's kind, with the user's line."""
    return GraphmpError(
        "GMP012",
        "%s%s makes a function of its own; call tf.disable_v2_behavior() or"
        " tf.disable_control_flow_v2() before building" % (_here(), op_type),
    )


def mixed_product() -> GraphmpError:
    """The error for a product of bfloat16 and float32, which TensorFlow computes in float32."""
    return GraphmpError(
        "GMP012",
        "%sTensorFlow makes a float32 SparseMatMul of a product of bfloat16 and float32, such as a"
        " weight that is computed, or in TensorFlow 1 a variable; %s" % (_here(), ADVICE),
    )


def written_in_loop(variable: str) -> GraphmpError:
    """The error for a loop that writes a variable whose cast is made before the loop."""
    return GraphmpError(
        "GMP012",
        "%sa loop writes variable %s, which the recipe casts before the loop; let `graphmp convert"
        " FILE --engine=rewrite` change the float32 graph" % (_here(), variable),
    )


def _here() -> str:
    """The user's line that is being run, as the start of a message; empty if none is."""
    where = user_frame(traceback.extract_stack())
    return "%s:%d: `%s`: " % where if where else ""


def check_coverage(graph: Any, start: int, policy: Policy, config: Config) -> None:
    """Refuse a build without any matmul or convolution in half precision.

    Those that the user keeps in float32 don't count.

    Raises:
        GraphmpError: GMP015, naming the place for half precision.
    """
    kept = config.float32_nodes + policy.keep_float32
    expected = [
        op
        for op in graph.get_operations()[start:]
        if op.type in policy.allow and not matches(kept, op.name)
    ]
    if not expected or any(
        t.dtype.name == config.compute_dtype for op in expected for t in op.outputs
    ):
        return
    raise GraphmpError(
        "GMP015",
        "none of the %d matmuls and convolutions, %s the first, would run in %s: each reads"
        " float32, an input that is no argument of the build function;"
        " pass the inputs as arguments, or let `graphmp convert FILE --engine=rewrite` change the"
        " float32 graph" % (len(expected), expected[0].name, config.compute_dtype),
    )


def check_variables(plan: Optional[Plan], graph: Any, start: int, compute_dtype: str) -> None:
    """Refuse a build whose variables differ from the float32 build's, before anything runs.

    Raises:
        GraphmpError: GMP014, naming the variable and the line that made it.
    """
    made = {
        op.name: op
        for op in graph.get_operations()[start:]
        if op.type in VARIABLE_OPS and not op.name.startswith("graphmp/")
    }
    expected: Dict[str, str] = {} if plan is None else plan.variables
    for name, op in made.items():
        dtype = tf.as_dtype(op.get_attr("dtype")).base_dtype.name
        if plan is None and dtype == compute_dtype and dtype != "float32":
            raise _variable_changed(op, "float32", dtype)
        if plan is not None and name in expected and dtype != expected[name]:
            raise _variable_changed(op, expected[name], dtype)
    if plan is not None and set(made) - set(expected):
        name = sorted(set(made) - set(expected))[0]
        raise GraphmpError(
            "GMP014",
            "variable %s does not exist in the float32 build; its name comes from the compute"
            " dtype's graph" % name,
        )


def check_constants(plan: Optional[Plan], graph: Any, start: int, compute_dtype: str) -> None:
    """Refuse a build with a half-precision constant that can't hold its Python number.

    Also one with an op in half precision that needs float32's digits.

    Raises:
        GraphmpError: GMP012, naming the node and the line that made it.
    """
    if plan is None:
        return
    for op in graph.get_operations()[start:]:
        misfit = plan.misfits.get(op.name) if op.type == "Const" else None
        why = misfit or plan.unfit.get(op.name)
        if why and any(tensor.dtype.name == compute_dtype for tensor in op.outputs):
            where = user_frame_of(op)
            place = "%s:%d: `%s`" % where if where else op.name
            advice = ADVICE if misfit else _REWRITE
            raise GraphmpError("GMP012", "%s: %s %s; %s" % (place, op.name, why, advice))


def first_line(error: Exception) -> str:
    """The main line of an exception's message; the exception's class if it has no message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if lines[0].startswith(
        ("in converted code", "in user code")
    ):  # autograph: a traceback first, the message last
        return lines[-1][:300]
    return next((line for line in lines if line != "Graph execution error:"), lines[0])[
        :300
    ]  # TensorFlow 2's headline


def user_frame_of(op: Any) -> Optional[Tuple[str, int, str]]:
    """File, line number and text of the user's code that created an op."""
    return user_frame(list(op.traceback))


def _variable_changed(op: Any, expected: str, found: str) -> GraphmpError:
    where = user_frame_of(op)
    place = "%s:%d: `%s` " % where if where else ""
    return GraphmpError(
        "GMP014",
        "%svariable %s would be stored in %s, was %s: it bypasses tf.get_variable (a Keras layer"
        " does); use tf.layers or tf.get_variable there" % (place, op.name, found, expected),
    )


def user_frame(frames: List[Any]) -> Optional[Tuple[str, int, str]]:
    """File, line number and text of the innermost frame in the user's code."""
    for frame in reversed(frames):
        name, number = frame[0], frame[1]
        path = os.path.realpath(name)
        if (
            os.path.exists(path)
            and not path.startswith(_FOREIGN)
            and not path.startswith(_OWN)
            and "site-packages" not in path
        ):
            return name, number, linecache.getline(path, number).strip()
    return None
