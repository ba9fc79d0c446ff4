"""Facts about packages and machine, collected without importing TensorFlow into this process."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from graphmp import environment

if sys.version_info >= (3, 8):
    from importlib import metadata
else:
    import importlib_metadata as metadata

Version = Tuple[int, ...]

PACKAGES = (
    "protobuf",
    "numpy",
    "scipy",
    "absl-py",
    "rich",
    "tf-keras",
    "tf-slim",
    "tensorflow-estimator",
)
PROBE_SECONDS = 180


class Distribution(NamedTuple):
    """A distribution that provides the package `tensorflow`, under any name."""

    name: str
    version: str


@dataclass(frozen=True)
class Installation:
    """The facts of a diagnosis.

    Attributes:
        python: version numbers.
        distributions: those that provide `tensorflow`, by name; several overwrite each other's
            files.
        packages: versions by name of the installed packages in `PACKAGES`.
        probe: the result of `graphmp.doctor.probe`; empty if TensorFlow could not be imported.
        error: why it could not, in one line.
        cpu_flags: None if the system doesn't tell.
        driver: whether there is an NVIDIA driver.
        keras_too_late: TensorFlow was imported before graphmp could ask for Keras 2.
    """

    python: Version
    distributions: Tuple[Distribution, ...] = ()
    packages: Dict[str, str] = field(default_factory=dict)
    probe: Dict[str, Any] = field(default_factory=dict)
    error: str = ""
    cpu_flags: Optional[FrozenSet[str]] = None
    driver: bool = False
    keras_too_late: bool = False

    @property
    def tensorflow(self) -> Version:
        """TensorFlow's major and minor version, from itself or its distribution.

        (0,) without it.
        """
        said = [self.probe.get("version", "")] + [version for _, version in self.distributions]
        return numbers(next((version for version in said if version), "0"))[:2]


def gather() -> Installation:
    """Examine this Python, its packages and the machine; takes as long as importing TensorFlow."""
    distributions = tensorflow_distributions()
    probe, error = ask_tensorflow()
    return Installation(
        python=sys.version_info[:3],
        distributions=tuple(distributions),
        packages={
            name: version
            for name, version in ((name, _version(name)) for name in PACKAGES)
            if version
        },
        probe=probe,
        error=error,
        cpu_flags=cpu_flags(),
        driver=bool(shutil.which("nvidia-smi"))
        or pathlib.Path("/proc/driver/nvidia/version").exists(),
        keras_too_late=not environment.asks_for_legacy_keras(),
    )


def tensorflow_distributions() -> List[Distribution]:
    """Distributions that provide `tensorflow`.

    For example tensorflow-cpu, nvidia-tensorflow or tf-nightly.
    """
    found = {
        Distribution(d.metadata["Name"], d.version)
        for d in metadata.distributions()
        if _provides_tensorflow(d)
    }
    return sorted(found)


def _provides_tensorflow(distribution: Any) -> bool:
    record = distribution.read_text("RECORD")
    if record is not None:
        return re.search(r"^tensorflow/__init__\.py,", record, re.MULTILINE) is not None
    return (
        "tensorflow" in (distribution.read_text("top_level.txt") or "").split()
    )  # a system's package has no RECORD


def _version(name: str) -> str:
    try:
        return str(metadata.version(name))
    except metadata.PackageNotFoundError:
        return ""


def ask_tensorflow(
    command: Tuple[str, ...] = (sys.executable, "-m", "graphmp.doctor.probe"),
) -> Tuple[Dict[str, Any], str]:
    """Import TensorFlow in a child process.

    Return its facts, or nothing and the error in a line.
    """
    try:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, text=True
        )
    except subprocess.TimeoutExpired:
        return {}, "importing it takes more than %d s" % PROBE_SECONDS
    if child.returncode < 0:
        return {}, "importing it ends the process with signal %d" % -child.returncode
    if child.returncode:
        return {}, raised(
            child.stderr
        ) or "importing it fails with exit status %d" % child.returncode
    return json.loads(child.stdout.splitlines()[-1]), ""


def raised(traceback: str) -> str:
    """The exception at the end of a traceback, without any advice after it."""
    lines = traceback.strip().splitlines()
    exceptions = [
        line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)\b", line)
    ]
    return " ".join((exceptions or lines or [""])[-1].split())


def cpu_flags(path: str = "/proc/cpuinfo") -> Optional[FrozenSet[str]]:
    """The flags that Linux lists for the first CPU; None on a system without that file."""
    try:
        text = pathlib.Path(path).read_text()
    except OSError:
        return None
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(line.group(1).split()) if line else frozenset()


def numbers(version: str) -> Version:
    """The leading numbers: "2.22.0.dev1" is (2, 22, 0)."""
    # it matches ""
    return tuple(int(part) for part in re.match(r"[\d.]*", version).group().split(".") if part)  # type: ignore[union-attr]


def text(version: Version) -> str:
    """(2, 15) as "2.15"."""
    return ".".join(str(number) for number in version)
