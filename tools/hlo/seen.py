"""The products of a compiled program, from its text, and its GPU kernels, from JAX's profiler."""

from __future__ import annotations

import collections
import importlib.util
import pathlib
import re
import tempfile
from typing import Callable, Counter, Dict, List, NamedTuple

import jax

from hlo.program import Program
from hlo.shown import SHORT

_PRODUCT = re.compile(
    r" = \(?(\w+)\[[\d,]*\][^=]*? "
    r"(dot|convolution|custom-call)\((?:.*?custom_call_target=\"([^\"]+)\")?"
)
_LIBRARY = re.compile(r"gemm|matmul|conv", re.IGNORECASE)
_NAMES = pathlib.Path(__file__).resolve().parents[2] / "graphmp" / "bench" / "kernels" / "names.py"
_STEPS = 3
_LEAST = 0.005  # of the step: a kernel in a row of its own
_LETTERS = 160  # of a kernel's name: templates go on for kilobytes


class Kernel(NamedTuple):
    """A kernel of a GPU.

    Attributes:
        name: its name.
        milliseconds: its time in a step, over all its launches.
        tensor_core: whether it uses Tensor Cores, by its name.
    """

    name: str
    milliseconds: float
    tensor_core: bool


def products(text: str) -> Dict[str, int]:
    """Counts of dots, convolutions and library calls in a compiled program.

    Keys have the dtype of the result: `f16 dot` or `f32 __cublas$gemm`.
    """
    found: Counter[str] = collections.Counter()
    for dtype, op, target in (
        match.groups() for match in map(_PRODUCT.search, text.splitlines()) if match
    ):
        if op != "custom-call" or _LIBRARY.search(target or ""):
            found["%s %s" % (dtype, target or op)] += 1
    return dict(sorted(found.items()))


def kernels(program: Program) -> List[Kernel]:
    """The kernels of a program on a GPU, slowest first, from a profile of three steps.

    Those of less than half a percent of the step are summed up: one row for those that use Tensor
    Cores, one for the others.
    """
    uses_tensor_cores = _classifier()
    spent: Dict[str, float] = collections.defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            program.seconds(_STEPS)
        for file in pathlib.Path(folder).rglob("*.xplane.pb"):
            for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
                for line in plane.lines if plane.name.startswith("/device:GPU") else ():
                    for event in line.events if line.name.startswith("Stream") else ():
                        spent[event.name] += event.duration_ns / 1e6 / _STEPS
    reduced = program.column != "float32"
    found = [
        Kernel(name, milliseconds, uses_tensor_cores(name, reduced))
        for name, milliseconds in spent.items()
    ]
    return summed_up(found)


def summed_up(found: List[Kernel]) -> List[Kernel]:
    """The kernels, slowest first, with the short ones in a row or two."""
    least = _LEAST * sum(kernel.milliseconds for kernel in found)
    rows = [
        kernel._replace(name=kernel.name[:_LETTERS])
        for kernel in found
        if kernel.milliseconds >= least
    ]
    for tensor_core in (True, False):
        short = [
            kernel.milliseconds
            for kernel in found
            if kernel.milliseconds < least and kernel.tensor_core == tensor_core
        ]
        if short:
            rows.append(Kernel("%d%s" % (len(short), SHORT), sum(short), tensor_core))
    return sorted(rows, key=lambda kernel: -kernel.milliseconds)


def _classifier() -> Callable[[str, bool], bool]:
    """`uses_tensor_cores` of graphmp, loaded from its file.

    Importing the package would need graphmp's dependencies.
    """
    spec = importlib.util.spec_from_file_location("kernel_names", _NAMES)
    assert spec is not None and spec.loader is not None  # the ending .py has a loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classify: Callable[[str, bool], bool] = module.uses_tensor_cores
    return classify
