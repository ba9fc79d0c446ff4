"""A program that export_hlo.py wrote, compiled by JAX and stepped with its new variables fed back. Needs JAX, no TensorFlow."""

from __future__ import annotations

import json
import pathlib
import time
import zlib
from typing import Any, Dict, List

import jax
import numpy as np
from jax.extend.backend import get_compile_options
from jax.extend.mlir import hlo_to_stablehlo

SCHEMA = "graphmp.hlo/1"


class ProgramError(Exception):
    """A file that can't be read, compiled or run, as one line."""


class Program:
    """A compiled step on one device.

    Attributes:
        path: the file.
        sidecar: what lies beside it.
        compile_seconds: how long compiling took.
        text: the program as the device's compiler left it.
    """

    def __init__(self, path: pathlib.Path, device: Any, seed: int):
        """Reads, compiles and draws the first values, the same for a name and a seed in every file.

        Raises:
            ProgramError: where one of these fails.
        """
        self.path = path
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
                hlo_to_stablehlo(path.read_bytes()), [device], get_compile_options(1, 1)
            )
            self.compile_seconds = time.perf_counter() - start
            self.step()
            self.wait()
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
        """float32, tf32, float16 or bfloat16."""
        return str(self.sidecar["column"])

    def step(self) -> None:
        """Starts a step; the variables that it writes are the next one's."""
        self._results = [
            shards[0]
            for shards in self._executable.execute_sharded(
                self._arguments
            ).disassemble_into_single_device_arrays()
        ]
        for number, parameter in self._written:
            self._arguments[parameter] = self._results[number]

    def wait(self) -> None:
        """Waits until all that was started is done."""
        jax.block_until_ready(self._results)

    def seconds(self, steps: int) -> float:
        """Seconds a step, of so many in a row."""
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.wait()
        return (time.perf_counter() - start) / steps

    def losses(self) -> List[float]:
        """The last step's losses, means where they are no scalars."""
        named = zip(self.sidecar["results"], self._results)
        return [
            float(np.mean(np.asarray(value, np.float64)))
            for result, value in named
            if result["role"] == "loss"
        ]


def read_sidecar(path: pathlib.Path) -> Dict[str, Any]:
    """What lies beside a program.

    Raises:
        ProgramError: where it is missing, or is not what export_hlo.py writes.
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
    """A value for a parameter, as its file describes it."""
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
    """An error's first words."""
    return " ".join(str(error).split())[:300]
