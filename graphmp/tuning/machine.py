"""The machine on which costs are measured, and whether they are of this one."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Optional

import tensorflow.compat.v1 as tf

from graphmp.doctor.devices import Device, bfloat16_instructions
from graphmp.errors import GraphmpError
from graphmp.tuning.costs import Machine
from graphmp.tuning.files import read


def this_machine(device: Optional[Device] = None) -> Machine:
    """The machine that runs this process.

    Args:
        device: its GPU, if it is known already; else TensorFlow is asked for one.
    """
    given = device is not None and device.on_gpu
    name = device.name if device is not None and given else _gpu() or processor()
    return Machine(name, tf.__version__, threads())


def threads() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor(path: str = "/proc/cpuinfo") -> str:
    """The model of the first processor, and whether it multiplies bfloat16."""
    try:
        text = pathlib.Path(path).read_text()
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model|CPU part)\s*:\s*(.*)$", text, re.MULTILINE)
    fast = bfloat16_instructions(path)
    name = found.group(1).strip() if found else "CPU"
    return "%s with %s" % (name, " and ".join(fast)) if fast else name


def _gpu() -> str:
    """The name of the first GPU; empty without one."""
    gpus = tf.config.experimental.list_physical_devices("GPU")
    details = getattr(tf.config.experimental, "get_device_details", None)
    if not gpus:
        return ""
    return str(details(gpus[0]).get("device_name", "GPU")) if details else "GPU"


def matches_this_machine(machine: Machine) -> Optional[str]:
    """How the machine of some costs differs from this one, in words; None if it doesn't."""
    here = this_machine()
    found = [
        "%s %s, here %s" % (what, there, this)
        for what, there, this in zip(("device", "TensorFlow", "threads"), machine, here)
        if there != this
    ]
    return "; ".join(found) or None


def check_given(path: str) -> None:
    """Refuse a file of costs of another machine; no file is fine.

    Raises:
        GraphmpError: GMP027; GMP002 and GMP003 if it holds no costs.
    """
    differs = matches_this_machine(read(path).machine) if path else None
    if differs:
        raise GraphmpError(
            "GMP027",
            "--costs=%s: measured on another machine (%s); accepted is a file of this one: run"
            " `graphmp tune` here" % (path, differs),
        )
