"""Errors and warnings: stable codes, one table, one line each.

A code never changes its meaning. `graphmp explain GMP012` prints a row of the table.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional

from graphmp.wording import one_line

BAD_INPUT = 2
CANNOT_CONVERT = 1


class Code(NamedTuple):
    """The meaning of a code, its exit status, and its cure."""

    exit_status: int
    meaning: str
    cure: str


CODES = {
    "GMP001": Code(
        BAD_INPUT,
        "The command line is not what the command takes.",
        "Read `graphmp COMMAND --help`.",
    ),
    "GMP002": Code(
        BAD_INPUT,
        "A flag has a value that it does not accept.",
        "Use one of the values in the message.",
    ),
    "GMP003": Code(
        BAD_INPUT, "A file does not exist or cannot be read.", "Check the path and its permissions."
    ),
    "GMP004": Code(
        BAD_INPUT, "The output folder cannot be written.", "Choose another folder with -o."
    ),
    "GMP005": Code(
        BAD_INPUT,
        "The Python file has a syntax error.",
        "Make it run under `python` first; `2to3 -w FILE` makes Python 3 of Python 2.",
    ),
    "GMP006": Code(
        BAD_INPUT,
        "The file has no such build function.",
        "Name the function that builds the training graph: model.py:FUNCTION.",
    ),
    "GMP007": Code(
        BAD_INPUT,
        "The build function needs arguments that nobody passes.",
        "Pass tensors with --input name=float32[2,3] and values with --arg name=value.",
    ),
    "GMP008": Code(
        BAD_INPUT,
        "The file is not a graph that graphmp can read.",
        "Give a MetaGraphDef or GraphDef, binary or text, or a SavedModel.",
    ),
    "GMP009": Code(
        BAD_INPUT,
        "TensorFlow was imported before it could be told to use Keras 2.",
        "Import graphmp first, or set TF_USE_LEGACY_KERAS=1.",
    ),
    "GMP010": Code(
        BAD_INPUT,
        "An op policy line cannot be read.",
        "Lines are `allow|infer|clear|deny Op`, `-Op`, `keep_float32 REGEX`, `# comment`.",
    ),
    "GMP011": Code(
        BAD_INPUT,
        "A decorated function was called while TensorFlow executes eagerly.",
        "Call tf.disable_v2_behavior() first, or build inside `with tf.Graph().as_default()`.",
    ),
    "GMP012": Code(
        CANNOT_CONVERT,
        "The recipe does not fit this build function.",
        "Change the line that is named as the message says, or convert the graph itself.",
    ),
    "GMP013": Code(
        CANNOT_CONVERT, "The model itself failed.", "Make the file run under `python` first."
    ),
    "GMP014": Code(
        CANNOT_CONVERT,
        "The recipe would change a variable.",
        "Create the variable with tf.get_variable or tf.layers, or convert the graph itself.",
    ),
    "GMP015": Code(
        CANNOT_CONVERT,
        "Nothing in the graph would run in half precision.",
        "Pass the inputs to the build function as tensor arguments.",
    ),
    "GMP016": Code(
        CANNOT_CONVERT,
        "A gradient reaches a variable without being unscaled or without the skip gate.",
        "Use a tf.train.Optimizer, or a fixed --loss_scale.",
    ),
    "GMP017": Code(
        CANNOT_CONVERT,
        "The file built no graph.",
        "Give a file that builds a training graph when run.",
    ),
    "GMP018": Code(
        CANNOT_CONVERT,
        "A tf.contrib symbol has no successor on this TensorFlow.",
        "Run with TensorFlow 1.15.5, the last with tf.contrib.",
    ),
    "GMP019": Code(
        BAD_INPUT,
        "The build function trains inside itself.",
        "Name the function that builds the graph and returns: model.py:FUNCTION.",
    ),
    "GMP020": Code(
        BAD_INPUT,
        "A flag or source that this version of graphmp does not serve.",
        "See the message for what it serves.",
    ),
    "GMP021": Code(
        CANNOT_CONVERT,
        "The converted graph failed graphmp's own check; nothing was written.",
        "Keep the node that is named in float32 with --keep_float32, and report the graph.",
    ),
    "GMP022": Code(
        BAD_INPUT,
        "The graph is the result of another conversion.",
        "Convert the original graph, original.meta beside it.",
    ),
    "GMP023": Code(
        BAD_INPUT,
        "No training step was found in the graph.",
        "Name it: --train_op=OP, --loss=TENSOR.",
    ),
    "GMP024": Code(
        BAD_INPUT,
        "The training step cannot be run on this data.",
        "Give batches that the original trains on, by --data and --batch_size.",
    ),
    "GMP025": Code(
        CANNOT_CONVERT,
        "The file is TensorFlow 2 code that executes eagerly: it builds no graph.",
        "Set a Keras mixed-precision policy in it; --legacy_imports=on where it is TensorFlow 1"
        " code after all.",
    ),
    "GMP026": Code(
        CANNOT_CONVERT,
        "The script uses tf.estimator, or a part of it, that this TensorFlow lacks.",
        "`pip install tensorflow-estimator==2.15.0` brings it to TensorFlow 2.16 and later; what a"
        " TPU or a strategy of several machines needs is in TensorFlow 2.15.1.",
    ),
    "GMP027": Code(
        BAD_INPUT,
        "The costs were measured on another machine, or for another half precision.",
        "Run `graphmp tune` on the machine that trains, with the same --compute_dtype.",
    ),
    "GMP028": Code(
        BAD_INPUT,
        "TensorFlow crashes on the graph, or takes too long or too much memory to import it.",
        "Use the TensorFlow that wrote it; for a crash while the graph runs, other data.",
    ),
    "GMP029": Code(
        BAD_INPUT,
        "TensorFlow does not import the graph, which the command has to run.",
        "Use the TensorFlow that wrote the graph, or write it again with export_meta_graph.",
    ),
    "GMP030": Code(
        BAD_INPUT,
        "A run of the graph, or the code of --data, did not end within its time.",
        "Give data for what the graph waits for, by --data; or more time, by --step_timeout.",
    ),
    "GMP099": Code(
        CANNOT_CONVERT,
        "A defect of graphmp ended the command.",
        "Run it again with --verbosity=1, and report what it prints with the input.",
    ),
    "GMP101": Code(
        0,
        "The build function was not observed in float32 first, so every float argument was cast.",
        "Keep TensorFlow objects inside the function.",
    ),
    "GMP102": Code(
        0, "Matmuls or convolutions stayed float32.", "See the report for the nodes and why."
    ),
    "GMP103": Code(
        0,
        "Gradients of several towers are clipped one by one; those that a loop takes in turns, or"
        " some that come out of a queue, not at all.",
        "Clip after adding up, in the model.",
    ),
    "GMP105": Code(
        0,
        "No gradient code was found: nothing is scaled or clipped.",
        "Nothing to do for an inference graph. For a gradient that the model computes itself, use"
        " bfloat16, or have tf.gradients compute it.",
    ),
    "GMP106": Code(
        0,
        "A channels-first graph does not run on this TensorFlow's CPU.",
        "Use channels last, or TensorFlow 2 with graphmp.session_config().",
    ),
    "GMP107": Code(
        0, "The graph scales its loss itself.", "Nothing to do: its own scaling is left to it."
    ),
    "GMP108": Code(
        0,
        "There is nothing to convert: already converted, already half precision, or float64.",
        "Nothing to do.",
    ),
    "GMP109": Code(
        0,
        "The graph has ops that neither TensorFlow nor the graph itself defines.",
        "They stay as they are; load their library to have them checked.",
    ),
    "GMP110": Code(
        0,
        "Some gradients of a built graph are not scaled.",
        "Train in bfloat16, whose range is float32's, or convert the Python file by the recipe.",
    ),
    "GMP111": Code(
        0,
        "An op inside gradient code is not linear and sees scaled gradients.",
        "Train in bfloat16 or with --loss_scale=none.",
    ),
    "GMP112": Code(
        0,
        "A write can't be skipped with its step.",
        "Use a fixed --loss_scale that never overflows; or write variables outside of functions and"
        " loops, after the update, with a write for each train op.",
    ),
    "GMP113": Code(
        0,
        "Names say that nodes are gradient code, and structure doesn't tell.",
        "Name the scopes of the calls of tf.gradients: --gradient_scope=SCOPE.",
    ),
    "GMP120": Code(
        0,
        "No matmul or convolution computes in half precision.",
        "Do as the reason in the message says; --compute_dtype=float32 where scaling and clipping"
        " alone are wanted.",
    ),
    "GMP121": Code(
        0,
        "An option changes nothing: a rule matches nothing in the graph, or a flag is about a"
        " dynamic loss scale, half precision or all-reduces where there are none.",
        "Correct its spelling, or take it out: `graphmp inspect GRAPH` names nodes and ops.",
    ),
    "GMP122": Code(
        0,
        "A flag of graphmp's stands behind the script, which gets it.",
        "Put graphmp's flags before the script.",
    ),
    "GMP123": Code(
        0,
        "A function's own decorator has other options than the conversion.",
        "Give the decorator's options to `graphmp convert` as flags.",
    ),
    "GMP124": Code(
        0,
        "A graph that was converted already is given other options, which have no effect.",
        "Build another tf.Graph, or convert the original, for other options.",
    ),
    "GMP125": Code(
        0,
        "Tuning keeps float32, or couldn't tell which type is faster.",
        "None is needed where float32 is faster; else do as the reason in the message says.",
    ),
    "GMP126": Code(
        0,
        "A Saver's checkpoints don't hold the loss scale: it starts anew when one is restored.",
        "Make the Saver with write_version=tf.train.SaverDef.V2.",
    ),
    "GMP127": Code(
        0,
        "TensorFlow 1.15 may not run ops of the converted graph in bfloat16: training may end in an"
        " error.",
        "Set the option of the session that the message names, train in float16 here, or in"
        " bfloat16 on TensorFlow 2.",
    ),
    "GMP128": Code(
        0,
        "The loss reads the direction of gradients alone, such as the sign of an input's gradient.",
        "Compute them in float32 by the --keep_float32 that the message names, or train in"
        " bfloat16, whose range is float32's.",
    ),
    "GMP129": Code(
        0,
        "A tiny multiple of a value is added to another one, and half precision rounds it away.",
        "Take a larger factor, or keep what reads the sum in float32 by --keep_float32.",
    ),
}


class GraphmpError(Exception):
    """A refusal or failure of graphmp, in one line.

    Attributes:
        code: a key of `CODES`.
        message: the node or file, what was found, what was accepted, what to do.
        exit_status: 2 for bad input or usage, 1 for a conversion that can't be done.
    """

    def __init__(self, code: str, message: str, exit_status: Optional[int] = None):
        self.code = code
        self.message = one_line(message)
        self.exit_status = CODES[code].exit_status if exit_status is None else exit_status
        super().__init__("%s: %s" % (code, self.message))

    def __reduce__(self) -> Any:
        """Processes hand errors on."""
        return type(self), (self.code, self.message, self.exit_status)


def warning(code: str, node: str, message: str) -> Dict[str, str]:
    """A row of a report's `warnings`; the node is empty for the whole graph."""
    return {"code": code, "node": node, "message": message}


def said(code: str, warnings: Iterable[Mapping[str, str]]) -> str:
    """The message of the first warning with a code; empty without one."""
    return next((row["message"] for row in warnings if row["code"] == code), "")
