"""The family of plausible graphs: sound in form, odd in meaning, through all commands.

If TensorFlow imports such a graph and a conversion of it succeeds, TensorFlow must import the
conversion; if the graph trains, the conversion must train too.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import List

import tensorflow.compat.v1 as tf

from fuzzing import seeds
from fuzzing.changes import CHANGES
from fuzzing.forms import stored
from fuzzing.of_graphs import OUT, converted
from fuzzing.runner import Case
from fuzzing.trained import trains

_FLAGS = [
    [],
    ["--loss_scale=none"],
    ["--compute_dtype=bfloat16"],
    ["--clip_norm=1"],
    ["--loss_scale=128"],
    ["--compute_dtype=float32"],
    ["--engine_strict"],
]


def of_plausible(rng: random.Random) -> Case:
    """A graph with one to three plausible changes, in a file of any form, for any command."""
    meta_graph = tf.MetaGraphDef.FromString(rng.choice(seeds.trainings()))
    for _ in range(rng.randint(1, 3)):
        rng.choice(CHANGES)(rng, meta_graph)
    name, flags = stored(rng, meta_graph)
    return _command(rng, name, flags)


def _command(rng: random.Random, name: str, tagged: List[str]) -> Case:
    kind = rng.choice(
        ["convert"] * 8
        + ["diff", "inspect", "memory", "cost", "wire", "explain", "verify", "audit", "data"]
    )
    if kind == "convert":
        argv = ["convert", name, "-o", OUT, *tagged, *rng.choice(_FLAGS)]
        return Case(argv, lambda status: _trains_too(status, name))
    if kind in ("inspect", "memory", "cost", "wire"):
        form = [] if kind == "inspect" else ["--" + kind]
        return Case(["inspect", name, *tagged, *form])
    if kind == "explain":
        return Case(["explain", name, rng.choice(["loss", "train", "MatMul"]), *tagged])
    if kind == "audit":
        argv = ["audit", name, "--random_data", "--steps=2", *tagged]
        return Case(argv)
    pathlib.Path("sound.meta").write_bytes(seeds.trainings()[0])
    names = ["sound.meta", name]
    rng.shuffle(names)
    if kind == "data":
        return Case(["verify", *names, "--random_data", "--steps=2"])
    return Case([kind, *names])


def _trains_too(status: int, source: str) -> str:
    """The fault of a conversion of a graph that trains or is imported."""
    problem = converted(status, source)
    if problem or status:
        return problem
    return (
        "wrong success: the original trains and the conversion doesn't"
        if trains(os.path.join(OUT, "original.meta"))
        and not trains(os.path.join(OUT, "converted.meta"))
        else ""
    )
