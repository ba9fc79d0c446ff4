"""results.json, written after each run, so that an interrupted comparison can be resumed."""

import hashlib
import json
import os
import pathlib
import platform

import graphmp  # before TensorFlow, which reads its settings on import

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf
import trainer
from summary import summarise


def read(path):
    """The runs in a results file; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def digest(name, how, steps):
    """A digest of the settings of a run: the task's constants, arithmetic, and TensorFlow.

    Runs of the same task, column and seed with different settings have different digests.
    """
    told = [trainer.settings(name), how, steps, tf.__version__]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def tasks():
    """The measure, the margin and the constants of each task."""
    modules = {name: trainer.task(name) for name in trainer.TASKS}
    return {
        name: {
            "measure": module.MEASURE,
            "margin": module.MARGIN,
            "settings": trainer.settings(name),
        }
        for name, module in modules.items()
    }


def document(runs, date, command, how):
    """The content of results.json."""
    order = {key: number for number, key in enumerate((*trainer.TASKS, *trainer.COLUMNS))}
    known = tasks()
    return {
        "date": date,
        "command": command,
        "arithmetic": how,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "graphmp": graphmp.__version__,
        },
        "tasks": known,
        "runs": sorted(
            runs, key=lambda run: (order[run["task"]], order[run["column"]], run["seed"])
        ),
        "summary": summarise(runs, known),
    }


def write(path, content):
    """Write a document atomically, with a line for each element of its lists."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            text = "[\n    %s\n  ]" % ",\n    ".join(
                json.dumps(row, allow_nan=False) for row in value
            )
        else:
            text = json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n  ")
        parts.append("  %s: %s" % (json.dumps(key), text))
    unfinished = pathlib.Path(str(path) + ".part")
    unfinished.write_text("{\n%s\n}\n" % ",\n".join(parts), encoding="utf-8")
    os.replace(str(unfinished), str(path))
