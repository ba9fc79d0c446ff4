"""A program of export_hlo.py, compiled by JAX and stepped with its new variables fed back.

Needs JAX, but no TensorFlow.
"""

from __future__ import annotations

import json
import pathlib
import time
import zlib
from typing import Any, Dict, List

import jax
import numpy as np
from jax.extend.backend import get_compile_options

from hlo.portable import stablehlo

SCHEMA = "graphmp.hlo/1"


class ProgramError(Exception):
    """A file can't be read, compiled or run; the text is one line."""


class Program:
    """A compiled step on one device.

    Attributes:
        path: the file.
        platform: cpu or gpu.
        sidecar: the JSON object of the file beside it.
        compile_seconds: the time of the compilation.
        text: the program as compiled for the device.
        trained: the losses of the first steps, a list for each step.
    """

    def __init__(self, path: pathlib.Path, device: Any, seed: int, steps: int = 1):
        """Read, compile, and draw the first values, which depend on name and seed only.

        Then train that many steps.

        Raises:
            ProgramError: one of these steps fails.
        """
        self.path = path
        self.platform = device.platform
        self.sidecar = read_sidecar(path)
        self._written = [
            (number, result["parameter"])
            for number, result in enumerate(self.sidecar["results"])
            if result["role"] == "variable"
        ]
        self._arguments = [
            jax.device_put(drawn(parameter, seed), device)
            for parameter in self.sidecar["parameters"]
        ]
        start = time.perf_counter()
        try:
            self._executable = device.client.compile_and_load(
                stablehlo(path.read_bytes()), [device], get_compile_options(1, 1)
            )
            self.compile_seconds = time.perf_counter() - start
            self.trained = [self._trained_step() for _ in range(steps)]
        except (
            OSError,
            TypeError,
            ValueError,
            AttributeError,
            RuntimeError,
        ) as error:  # JaxRuntimeError is a RuntimeError
            raise ProgramError(
                "%s: JAX %s does not run it on %s: %s"
                % (path, jax.__version__, device, one_line(error))
            ) from None
        self.text: str = self._executable.hlo_modules()[0].to_string()

    @property
    def column(self) -> str:
        """The column: float32, tf32, float16 or bfloat16."""
        return str(self.sidecar["column"])

    def _trained_step(self) -> List[float]:
        self.step()
        return self.losses()

    def step(self) -> None:
        """Start a step; the next one starts from its variables."""
        self._results = [
            shards[0]
            for shards in self._executable.execute_sharded(
                self._arguments
            ).disassemble_into_single_device_arrays()
        ]
        for number, parameter in self._written:
            self._arguments[parameter] = self._results[number]

    def wait(self) -> None:
        """Wait until all started steps are done."""
        jax.block_until_ready(self._results)

    def seconds(self, steps: int) -> float:
        """Seconds per step, over `steps` steps in a row."""
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.wait()
        return (time.perf_counter() - start) / steps

    def memory(self) -> int:
        """Bytes on the device while a step runs: arguments, results, and what XLA reserves."""
        stats = self._executable.get_compiled_memory_stats()
        return int(
            stats.argument_size_in_bytes
            + stats.output_size_in_bytes
            - stats.alias_size_in_bytes
            + stats.temp_size_in_bytes
        )

    def losses(self) -> List[float]:
        """The losses of the last step; the mean of a loss that isn't a scalar."""
        named = zip(self.sidecar["results"], self._results)
        return [
            float(np.mean(np.asarray(value, np.float64)))
            for result, value in named
            if result["role"] == "loss"
        ]


def read_sidecar(path: pathlib.Path) -> Dict[str, Any]:
    """The JSON object beside a program.

    Raises:
        ProgramError: the file is missing, or not written by export_hlo.py.
    """
    beside = path.with_suffix(".json")
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProgramError(
            "%s: cannot be read: %s; export_hlo.py writes it beside the program"
            % (beside, one_line(error))
        ) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ProgramError(
            "%s: found no schema %s; accepted is what export_hlo.py of this version writes"
            % (beside, SCHEMA)
        )
    return found


def drawn(parameter: Dict[str, Any], seed: int) -> np.ndarray:
    """A value for a parameter, as the file describes it."""
    values, shape = parameter["values"], parameter["shape"]
    random = np.random.default_rng([seed, zlib.crc32(parameter["name"].encode("utf-8"))])
    if values["kind"] == "constant":
        array = np.full(shape, values["value"])
    elif values["kind"] == "integers":
        array = random.integers(values["low"], values["high"] + 1, shape)
    else:
        array = random.normal(values["mean"], values["std"], shape).clip(
            values["low"], values["high"]
        )
    return array.astype(jax.numpy.dtype(parameter["dtype"]))


def one_line(error: Any) -> str:
    """The beginning of an error's message."""
    return " ".join(str(error).split())[:300]
