"""The conversions in which faults are planted.

Each is a graph and a configuration, named for example `shape/plain/clip`:

    shape/NAME/CONFIG      the training shapes of tests/support/training_graphs.py
    program/NAME/CONFIG    the programs of tests/support/programs, with reference variables
    resource/NAME/CONFIG   the same, with resource variables
    inside/NAME/CONFIG     training in functions, loops and branches:
                           tests/support/training_inside.py
    corpus/NAME/CONFIG     the recorded graphs below GRAPHMP_CORPUS
    gallery/NAME/CONFIG    examples/NAME.py at --smoke size, by the recipe
    rewrite/NAME/CONFIG    the same, by the rewrite

Conversions are kept in a folder, shared by the processes of a run.
"""

from __future__ import annotations

import fnmatch
import json
import os
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.io.messages import serialize
from graphmp.tf_hooks.internals import load_graph
from mutants.subject import Subject

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_SCALE = {"loss_scale": "dynamic", "loss_scale_growth_interval": 2}  # a growth is two steps away
_LOW = dict(_SCALE, loss_scale_initial=64.0, loss_scale_min=16.0)  # and both bounds are near
CONFIGS: Dict[str, Dict[str, Any]] = {
    "dynamic": dict(_LOW),
    "clip": dict(_LOW, clip_norm=0.125),
    "first": dict(_SCALE),  # the first step finds the scale
    "counted": dict(_LOW, count_skipped_steps=True),
    "fixed": {"loss_scale": 128.0},
    "fixed_clip": {"loss_scale": 128.0, "clip_norm": 0.125},
    "none": {"loss_scale": "none"},
    "none_clip": {"loss_scale": "none", "clip_norm": 0.125},
    "float32": dict(_LOW, compute_dtype="float32"),
    "float32_clip": dict(_LOW, compute_dtype="float32", clip_norm=0.125),
    "bfloat16": dict(_LOW, compute_dtype="bfloat16"),
}
_ROWS: Sequence[
    Tuple[str, Sequence[str], Sequence[str]]
] = (  # for each kind: configurations of all its graphs, and those that its graphs take in turn
    (
        "shape",
        ["dynamic", "clip"],
        [
            "first",
            "fixed",
            "float32_clip",
            "none_clip",
            "bfloat16",
            "counted",
            "fixed_clip",
            "float32",
            "none",
        ],
    ),
    (
        "program",
        [],
        ["clip", "float32", "dynamic", "fixed_clip", "float32_clip", "first", "none_clip"],
    ),
    ("resource", [], ["float32_clip", "dynamic", "fixed", "clip", "bfloat16"]),
    ("inside", ["dynamic"], ["clip", "first", "fixed", "float32_clip", "fixed_clip", "bfloat16"]),
    ("corpus", ["dynamic"], ["clip", "fixed_clip", "none_clip", "float32_clip"]),
    ("gallery", [], ["clip", "dynamic", "fixed", "first"]),
    ("rewrite", [], ["dynamic", "clip", "fixed_clip", "float32_clip"]),
)


class Unfit(Exception):
    """A graph that can't be converted so, or is not changed by it."""


class _Built(NamedTuple):
    meta_graph: Any
    train: Tuple[str, ...]


def names() -> List[str]:
    """All subjects."""
    found = []
    for kind, all_of, in_turn in _ROWS:
        for number, graph in enumerate(_graphs(kind)):
            configs = [*all_of, *([in_turn[number % len(in_turn)]] if in_turn else [])]
            found += ["%s/%s/%s" % (kind, graph, config) for config in dict.fromkeys(configs)]
    return found


def chosen(patterns: Sequence[str] = ()) -> List[str]:
    """The subjects that match one of some patterns; a full name need not be among `names`."""
    known = (
        names() if not patterns or any(set("*?[") & set(pattern) for pattern in patterns) else []
    )
    found = [
        name
        for name in known
        if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]
    return list(
        dict.fromkeys(found + [pattern for pattern in patterns if not set("*?[") & set(pattern)])
    )


def subject(name: str, folder: pathlib.Path) -> Subject:
    """A subject, converted if the folder doesn't have it yet.

    Raises:
        Unfit: the graph isn't converted, or has no place for faults; the text says why.
    """
    path = folder / name.replace("/", "__")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=str(folder)) as temporary:
            _write(name, pathlib.Path(temporary))
            if not path.exists():
                os.rename(temporary, str(path))
                os.mkdir(temporary)
    about = json.loads((path / "about.json").read_text())
    if about["unfit"]:
        raise Unfit(about["unfit"])
    return Subject(name, _parsed(path / "original"), _parsed(path / "converted"), about["train"])


def _parsed(path: pathlib.Path) -> Any:
    meta_graph = tf.MetaGraphDef()
    meta_graph.ParseFromString(path.read_bytes())
    return meta_graph


def _write(name: str, folder: pathlib.Path) -> None:
    kind, graph, config = name.split("/")
    unfit, train = "", ()  # type: str, Tuple[str, ...]
    try:
        options = CONFIGS[config]
        built = _Built(None, ()) if kind in ("gallery", "rewrite") else _built(kind, graph)
        conversion = (
            _example(graph, kind, options)
            if built.meta_graph is None
            else graphmp.convert(built.meta_graph, **options)
        )
        train = built.train
        load_graph(conversion.meta_graph.graph_def)
        (folder / "original").write_bytes(serialize(conversion.original))
        (folder / "converted").write_bytes(serialize(conversion.meta_graph))
        if not any("graphmp" in node.name for node in conversion.meta_graph.graph_def.node):
            unfit = "nothing was put in"
        if any(row["code"] == "GMP103" for row in conversion.report["warnings"]):
            unfit = "it isn't clipped as it should be (GMP103)"
    except Exception as error:  # GraphmpError, and TensorFlow's errors if it can't import the graph
        unfit = "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:200])
    (folder / "about.json").write_text(json.dumps({"train": train, "unfit": unfit}))


def _example(name: str, kind: str, options: Dict[str, Any]) -> Any:
    engine = "rewrite" if kind == "rewrite" else "auto"
    return graphmp.convert(
        str(ROOT / "examples" / (name + ".py")), arguments=["--smoke"], engine=engine, **options
    )


def _graphs(kind: str) -> Iterator[str]:
    """The graphs of a kind."""
    if kind == "shape":
        from tests.support.training_graphs import SHAPES

        yield from (name for name, shape in SHAPES.items() if shape.losses)
    elif kind in ("program", "resource"):
        yield from _programs()
    elif kind == "inside":
        from tests.support.training_inside import INSIDE

        yield from INSIDE
    elif kind == "corpus":
        from tests.support.corpus import corpus_graphs

        yield from (path.stem for path in corpus_graphs())
    else:
        yield from (
            path.stem
            for path in sorted((ROOT / "examples").glob("*.py"))
            if "training.train" in path.read_text(encoding="utf-8")
        )


def _programs() -> Dict[str, Any]:
    # Each registers its programs.
    from tests.support.programs import chains, models, optimizers, several, state  # noqa: F401
    from tests.support.programs.registry import PROGRAMS

    return PROGRAMS


def _built(kind: str, name: str) -> _Built:
    if kind == "corpus":
        from tests.support.corpus import corpus_folder

        return _Built(_parsed(corpus_folder() / "corpus" / "meta" / (name + ".meta")), ())
    if kind == "inside":
        from tests.support import training_inside

        return _Built(training_inside.built(name), ("train",))
    if kind == "shape":
        from tests.support.training_graphs import SHAPES

        with tf.Graph().as_default() as graph:
            tf.set_random_seed(1)
            SHAPES[name].build()
            tf.global_variables_initializer()
        return _Built(_saved(graph), ())
    from tests.support.programs.registry import built

    program = _programs()[name]
    return _Built(_saved(built(name, kind == "resource").graph), program.train)


def _saved(graph: tf.Graph) -> Any:
    """A graph with a Saver, as a program would export it."""
    with graph.as_default():
        saver = tf.train.Saver() if tf.global_variables() else None
        return tf.train.export_meta_graph(saver_def=saver.as_saver_def() if saver else None)
