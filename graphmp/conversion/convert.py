"""`graphmp.convert`: the conversion of a graph, or of a file that holds or builds one."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any, Callable, List, Sequence, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.conversion.built_graph import Identity, convert_graph
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.export import exported
from graphmp.conversion.python_file import Script, convert_file
from graphmp.conversion.source import (
    GRAPH_FILES,
    PYTHON_FILES,
    names_a_graph,
    parse_source,
)
from graphmp.conversion.stages import Stages
from graphmp.errors import GraphmpError
from graphmp.gate.given import given_graph
from graphmp.gate.reading import read_once
from graphmp.graph.io.stored import StoredMetaGraph, stored
from graphmp.graph.structure.view import keep_view
from graphmp.policy import policy as policies
from graphmp.process_memory import collector_paused, give_back
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.time_limit import SCRIPT_SECONDS
from graphmp.wording import printable, shell_word

Convertible = Union[str, pathlib.Path, tf.MetaGraphDef, tf.GraphDef, tf.Graph]


@collector_paused()
def convert(
    source: Convertible,
    *,
    tag: str = "",
    python: bool = False,
    arguments: Sequence[str] = (),
    inputs: Sequence[str] = (),
    args: Sequence[str] = (),
    legacy_imports: str = "auto",
    script_timeout: float = SCRIPT_SECONDS,
    progress: Callable[[str], None] = lambda stage: None,
    log: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Conversion:
    """Convert a training graph to mixed precision.

    TensorFlow imports the graph in this process, which a damaged graph may crash; the command line
    imports it in a child process.

    A graph is rewritten. A Python file runs as `__main__`, in a child process that ends at the
    first call that would train. If the recipe fits its build function it is used, else the graph is
    rewritten.

    Args:
        source: a MetaGraphDef, a GraphDef, a `tf.Graph`; the path of a `.meta`, `.pb`, `.pbtxt` or
            SavedModel; `model.py` or `model.py:build_fn` (default `build_training_model`).
        tag: the tag set of a SavedModel with several graphs.
        python: whether a path is run as a Python file whatever its name; otherwise those are run
            that are named .py or begin with `#!` and a python.
        arguments: a Python file's own command line.
        inputs: `name=dtype[dimensions]` for tensors of a build function that the file never calls.
        args: `name=value` for its other arguments.
        legacy_imports: "on" makes `import tensorflow` mean `tensorflow.compat.v1`, "auto" only if
            the file needs it, "strict" like "auto", and a name of contrib that nothing serves stops
            the file at its import, though it may never be used.
        script_timeout: seconds in which a Python file must come to its first training step.
        progress: receives each stage as it begins.
        log: receives what the child processes printed.
        **options: fields of `graphmp.config.Config`.

    Returns:
        A Conversion: original and converted MetaGraphDef, and the report.

    Raises:
        GraphmpError: with exit_status 2 for bad input, 1 if the model itself fails or can't be
            converted.
    """
    config = Config.make(**options)
    _check_served(config)
    policies.load(config.compute_dtype, config.op_policy)
    stages = Stages(progress)
    if isinstance(source, (str, pathlib.Path)):
        if not names_a_graph(str(source), python):
            parsed = parse_source(
                str(source), config.engine == "recipe" or config.engine_strict, python
            )
            return convert_file(
                Script(parsed, arguments, inputs, args, legacy_imports, script_timeout),
                config,
                stages,
                log,
            )
        command = str(source)
        original, digest = _read(command, tag, stages)
        name, kind = printable(str(source)), "no source"
    else:
        original, kind = _meta_graph(source)
        name = command = "<%s>" % kind
        digest = hashlib.sha256(original.data).hexdigest()
    if config.engine == "recipe":
        raise GraphmpError(
            "GMP002",
            "--engine=recipe: %s is a graph; the recipe takes Python files, accepted here are auto"
            " and rewrite" % name,
        )
    return convert_graph(
        original, Identity(name, digest, kind), config, stages, _flagfile(config, command, tag)
    )


def _read(path: str, tag: str, stages: Stages) -> Tuple[StoredMetaGraph, str]:
    with stages.stage("read", "reading %s" % path):
        try:
            read = read_once(path, tag)
            graph, digest = stored(read.meta_graph), read.digest
            keep_view(graph, read.view)
        except GraphmpError as error:
            if error.code != "GMP008" or os.path.isdir(path) or path.endswith(GRAPH_FILES):
                raise
            raise GraphmpError(
                "GMP008", "%s; run as Python is %s" % (error.message, PYTHON_FILES)
            ) from None
        del read
        give_back()
    return graph, digest


def _meta_graph(source: Any) -> Tuple[StoredMetaGraph, str]:
    """The MetaGraphDef of a given graph, which isn't changed, and the name of its type."""
    if isinstance(source, tf.Graph):
        return stored(exported(source), noted(source)), "tf.Graph"
    accepted = "a MetaGraphDef, a GraphDef, a tf.Graph or the path of a graph or Python file"
    return stored(given_graph(source, "convert", accepted)), type(source).__name__


def _flagfile(config: Config, source: str, tag: str) -> List[str]:
    """Lines of an absl flagfile that repeats the conversion; the command is its first comment."""
    tagged = " --tag=%s" % shell_word(tag) if tag else ""
    return [
        "# graphmp convert --flagfile=flags.txt%s %s" % (tagged, shell_word(source))
    ] + config.flagfile_lines()


def _check_served(config: Config) -> None:
    if not isinstance(config.loss_scale, (str, float)):
        raise GraphmpError(
            "GMP002",
            "loss_scale: a tensor or function is for the decorator; accepted here are dynamic, none"
            " or a positive number",
        )
