"""A plot of the scalars of a training run: its losses and, in mixed precision, its loss scales.

Import it after `training`.
"""

import importlib.util
import os
import re

import tensorflow.compat.v1 as tf

FORMATS = (".png", ".svg")
_SCALE = re.compile(r"graphmp/loss_scale(_\d+)?")
_SIZE = (8, 3.2)  # inches, of each panel


def obstacle(path):
    """Why a plot can't be written to a file, as a line; empty if it can."""
    if not path.endswith(FORMATS):
        return "found %s, accepted are names that end in %s" % (path, " or ".join(FORMATS))
    if not os.path.isdir(os.path.dirname(path) or "."):
        return "found %s, whose folder is not there" % path
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib, which draws it, is not installed: pip install matplotlib"
    return ""


class Traces:
    """The scalar summaries of each step.

    If graphmp converts the graph in its session, it adds the loss scales to the merged summaries. A
    graph that was built with loss scales has them as tensors, whose names graphmp documents.

    Attributes:
        summary: the tensor to fetch in each step.
    """

    def __init__(self, losses):
        scales = {
            op.name[: -len("/current")]: op.outputs[0]
            for op in tf.get_default_graph().get_operations()
            if _is_scale(op.name)
        }
        self.summary = tf.summary.merge(
            [tf.summary.scalar(name, value) for name, value in dict(losses, **scales).items()]
        )
        self._points = {}

    def add(self, step, summary):
        """Add the value of `summary` in a step."""
        for value in tf.Summary.FromString(summary).value:
            self._points.setdefault(value.tag, []).append((step, value.simple_value))

    def draw(self, path):
        """Draw the losses and, below them, the loss scales if there are any."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        scales = {tag: points for tag, points in self._points.items() if _SCALE.fullmatch(tag)}
        losses = {
            tag: points for tag, points in self._points.items() if not tag.startswith("graphmp/")
        }
        panels = [("loss", losses)] + [("loss scale", scales)] * bool(scales)
        figure = Figure(figsize=(_SIZE[0], _SIZE[1] * len(panels)))
        for axes, (label, traces) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels):
            for tag, points in sorted(traces.items()):
                axes.plot(
                    *zip(*points),
                    label=tag,
                    drawstyle="steps-post" if traces is scales else "default",
                )
            axes.set_xlabel("step")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylabel(label)
            axes.legend()
        if scales:
            axes.set_yscale("log", base=2)
        figure.tight_layout()
        part = path + ".part"
        figure.savefig(part, format=path[-3:])
        os.replace(part, path)


def _is_scale(name):
    return name.endswith("/current") and _SCALE.fullmatch(name[: -len("/current")])
