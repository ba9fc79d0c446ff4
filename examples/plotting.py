"""The scalars of a training run as a picture: its losses and, in mixed precision, its loss scales. Import it after `training`."""

import importlib.util
import os
import re

import tensorflow.compat.v1 as tf

FORMATS = (".png", ".svg")
_SCALE = re.compile(r"graphmp/loss_scale(_\d+)?")
_SIZE = (8, 3.2)  # inches, of each panel


def obstacle(path):
    """Why a picture can't be drawn into a file, in a line; empty where it can."""
    if not path.endswith(FORMATS):
        return "found %s, accepted are names that end in %s" % (path, " or ".join(FORMATS))
    if not os.path.isdir(os.path.dirname(path) or "."):
        return "found %s, whose folder is not there" % path
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib, which draws it, is not installed: pip install matplotlib"
    return ""


class Traces:
    """The scalar summaries of each step.

    Where graphmp converts the graph in its session, it puts the loss scales among the merged summaries. A graph that was built with them gives
    them as tensors, whose names graphmp documents.

    Attributes:
        summary: what to fetch in each step.
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
        """Takes what a step gave for `summary`."""
        for value in tf.Summary.FromString(summary).value:
            self._points.setdefault(value.tag, []).append((step, value.simple_value))

    def draw(self, path):
        """Draws the losses, and below them the loss scales where there are some."""
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
