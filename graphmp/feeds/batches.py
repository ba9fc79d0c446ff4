"""Batches: for each step, the values to feed; from an .npz file, a Python function, or made up."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import pathlib
import stat
import sys
import zipfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.conversion.source import read_tree
from graphmp.errors import GraphmpError
from graphmp.feeds.contents import Contents
from graphmp.feeds.draw import draw
from graphmp.feeds.given import check_values, converted, fits, pick, refused
from graphmp.feeds.shapes import Guess
from graphmp.feeds.wanted import Wanted, described
from graphmp.files.reading import read_beginning
from graphmp.graph.structure.view import GraphView
from graphmp.time_limit import interrupted
from graphmp.wording import first_line, printable

_BESIDES = 100_000_000  # bytes of arrays that any file may hold
Batch = Dict[str, np.ndarray]
Batches = Callable[
    [int], Batch
]  # the number of a step, from 0, to {tensor name: value}; the same for the same step


def from_npz(path: str, wanted: Sequence[Wanted], batch_size: int) -> Batches:
    """Batches from the arrays of an .npz file, named like nodes or tensors.

    An array with one more axis than its tensor has a batch for each step along that first axis. An
    array with as many axes is split along its first axis into batches, of the tensor's static size
    if it has one, else of `batch_size`. Both repeat from the start. A scalar, and an array of
    exactly the tensor's shape, is fed whole at each step.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP002 if it lacks a needed array.
    """
    label = "--data=%s" % path
    arrays = pick(_load(path), wanted, label)
    cuts = [
        (tensor, arrays[tensor.name], _rows(arrays[tensor.name], tensor, batch_size, label))
        for tensor in wanted
    ]

    def batches(step: int) -> Batch:
        return {
            tensor.name: converted(array if rows is None else array[rows(step)], tensor)
            for tensor, array, rows in cuts
        }

    return batches


def from_function(spec: str, wanted: Sequence[Wanted]) -> Batches:
    """Batches from a function of a Python file, `file.py:function`.

    The file is imported by its path, its folder first on sys.path. A function with an argument gets
    the step's number and returns a dictionary. One without returns a dictionary, or an iterable of
    dictionaries, such as a generator, which repeats from the start. Names are those of nodes or
    tensors. A step's batch is kept: the same step gets the same batch again.

    Raises:
        GraphmpError: GMP003 and GMP005 if the file can't be read, GMP002 if it has no such
            function, or, at a step, if the function returns something else, GMP030 if it doesn't
            return within the limit of a run.
    """
    label = "--data=%s" % spec
    returned = _called(_function(spec), label)
    kept: Dict[int, Batch] = {}

    def batches(step: int) -> Batch:
        if step not in kept:
            given = returned(step)
            if not isinstance(given, dict):
                raise GraphmpError(
                    "GMP002",
                    "%s: step %d is a %s; accepted are dictionaries {name: array}"
                    % (label, step, type(given).__name__),
                )
            kept[step] = _exact(given, wanted, label)
        return kept[step]

    return batches


def random_batches(
    graph: tf.Graph,
    view: GraphView,
    targets: Iterable[str],
    batch_size: int,
    seed: int,
    guess: Optional[Guess] = None,
) -> Batches:
    """Made-up batches with which `targets` can run, suited to their consumers: see `contents`.

    A value depends only on the seed, the step, the name of its tensor, and the guess.

    Args:
        graph: the imported graph.
        view: the graph that was imported.
        targets: names of the nodes that will run.
        batch_size: the number of examples in a batch if the graph leaves it open.
        seed: of all values.
        guess: the unknown dimensions; by default the first is the batch size, the others a small
            number.

    Raises:
        GraphmpError: GMP002 if a value can't be made up, naming its node.
    """
    contents = Contents(graph, view, targets, guess or Guess(batch_size))
    plans = [contents.plan(tensor) for tensor in contents.wanted]

    def batches(step: int) -> Batch:
        return {plan.tensor.name: draw(plan, seed, step) for plan in plans}

    return batches


def scalars_in_words(batch: Batch) -> str:
    """The made-up scalars of a batch, such as rates: `, lr:0=0.001, keep_prob:0=0.5`."""
    scalars = [(name, value) for name, value in sorted(batch.items()) if value.shape == ()]
    return "".join(
        ", %s=%s" % (name, "%g" % value if value.dtype.kind in "fiu" else value)
        for name, value in scalars
    )


def _load(path: str) -> Dict[str, np.ndarray]:
    """The arrays of an .npz file, loaded without unpickling."""
    label = "--data=%s" % path
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("it is no regular file")
        if read_beginning(pathlib.Path(path), 2) == b"PK":
            zipfile.ZipFile(path).close()  # or NumPy 1.21's half-made file speaks when it is freed
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("one array without a name")
        with file:
            _check_size(file.zip, os.path.getsize(path))
            arrays = {name: file[name] for name in file.files}
            for name, array in arrays.items():
                if not isinstance(array, np.ndarray):
                    raise ValueError("%s is no array" % printable(name))
            return arrays
    except Exception as error:  # NumPy and zipfile raise errors of any type for damaged files
        advice = "accepted is what numpy.savez writes, strings as arrays of dtype S or U"
        words = first_line(error) or type(error).__name__
        raise GraphmpError(
            "GMP003", "%s: cannot be read as .npz: %s; %s" % (label, words, advice)
        ) from None


def _check_size(archive: Any, size: int) -> None:
    """Raise ValueError for a file of `size` bytes that declares far more: it would fill memory."""
    declared, most = sum(entry.file_size for entry in archive.infolist()), 100 * size + _BESIDES
    if declared > most:
        found = "%s bytes of arrays in %s bytes, more than 100 times as many and %s"
        raise ValueError(found % tuple(format(n, ",") for n in (declared, size, _BESIDES)))


def _rows(
    array: np.ndarray, tensor: Wanted, batch_size: int, label: str
) -> Optional[Callable[[int], Any]]:
    """The rows of an array for a step; None if it is fed whole."""
    check_values(array, tensor, label)
    if not array.ndim and fits((), tensor.shape):
        return None
    shape = tensor.shape if tensor.shape is not None else (None,) + array.shape[1:]
    total = len(array) if array.ndim else 0
    if total and fits(array.shape[1:], shape):
        return lambda step: step % total
    if shape and shape[0] is not None and fits(array.shape, shape):
        return None
    if total and shape and fits(array.shape[1:], shape[1:]):
        size = shape[0] or batch_size
        return lambda step: (step * size + np.arange(size)) % total
    raise refused(label, tensor, array, _accepted(shape, batch_size))


def _accepted(shape: Sequence[Optional[int]], batch_size: int) -> str:
    """The shapes of arrays that a tensor takes, in words."""
    dims = ["?" if d is None else str(d) for d in shape]
    stepwise = "[%s], a batch a step" % ", ".join(["steps"] + dims)
    if not dims:
        return "[] and " + stepwise
    return "[%s], cut into batches of %s, and %s" % (
        ", ".join(["examples"] + dims[1:]),
        shape[0] or batch_size,
        stepwise,
    )


def _function(spec: str) -> Callable[..., Any]:
    """Import the file and return its function."""
    name, _, function = spec.rpartition(":")
    label = "--data=%s" % spec
    if not name.endswith(".py") or not function:
        raise GraphmpError(
            "GMP002",
            "%s: accepted are file.npz and file.py:function, or --random_data in its place" % label,
        )
    path = pathlib.Path(os.path.realpath(name))
    read_tree(path)
    module_spec = importlib.util.spec_from_file_location("graphmp_data_" + path.stem, str(path))
    assert (
        module_spec is not None and module_spec.loader is not None
    )  # there is a loader for the ending .py
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    _guarded(lambda: module_spec.loader.exec_module(module), "%s: importing the file" % label)  # type: ignore[union-attr]
    found = getattr(module, function, None)
    if not callable(found):
        raise GraphmpError("GMP002", "%s: the file has no function %s" % (label, function))
    return found


def _called(function: Callable[..., Any], label: str) -> Callable[[int], Any]:
    """The batches of a function, for any form of result."""
    parameters = [
        p
        for p in _guarded(lambda: inspect.signature(function), label).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    required = [p for p in parameters if p.default is p.empty]
    if len(required) > 1:
        raise GraphmpError(
            "GMP002",
            "%s: the function takes %d arguments; accepted are none and the step's number"
            % (label, len(required)),
        )

    def at(step: int) -> Any:
        return _guarded(lambda: function(*[step][: len(parameters)]), "%s: step %d" % (label, step))

    if required:
        return at
    first = _guarded(function, label)
    if isinstance(first, dict):
        return at if parameters else lambda step: at(step) if step else first
    try:
        return _Repeated(iter(first), label)
    except TypeError:
        kind = type(first).__name__
        raise GraphmpError(
            "GMP002",
            "%s: the function returns a %s; accepted are dictionaries and iterables of them"
            % (label, kind),
        ) from None


class _Repeated:
    """The items of an iterator by index, repeating from the first after the last."""

    def __init__(self, iterator: Iterator[Any], label: str):
        self._iterator: Optional[Iterator[Any]] = iterator
        self._items: List[Any] = []
        self._label = label

    def __call__(self, step: int) -> Any:
        while self._iterator is not None and len(self._items) <= step:
            more = _guarded(
                lambda: list(_one(self._iterator)), "%s: step %d" % (self._label, len(self._items))
            )
            self._items += more
            if not more:
                self._iterator = None
        if not self._items:
            raise GraphmpError("GMP002", "%s: the function gives no batch" % self._label)
        return self._items[step % len(self._items)]


def _one(iterator: Optional[Iterator[Any]]) -> Tuple[Any, ...]:
    """The next item in a tuple; an empty tuple at the end."""
    for item in iterator or ():
        return (item,)
    return ()


def _guarded(call: Callable[[], Any], label: str) -> Any:
    """Call foreign code, within the limit of a run; its errors become one line."""
    with interrupted(label):
        try:
            return call()
        except (Exception, SystemExit) as error:
            words = "%s raised %s: %s" % (label, type(error).__name__, _words(error))
            raise GraphmpError("GMP002", words) from error


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # foreign code, too
        return "an error without words"


def _exact(given: Dict[Any, Any], wanted: Sequence[Wanted], label: str) -> Batch:
    """A batch returned by a function: nothing is split, each value has its tensor's shape."""
    values = pick(given, wanted, label)
    batch = {}
    for tensor in wanted:
        array = _guarded(
            functools.partial(np.asarray, values[tensor.name]), "%s: %s: NumPy" % (label, tensor)
        )
        check_values(array, tensor, label)
        if not fits(array.shape, tensor.shape):
            raise refused(label, tensor, array, described(tensor.dtype.name, tensor.shape))
        batch[tensor.name] = converted(array, tensor)
    return batch
