"""Findings about an installation, each with a cure, from facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, Optional

from graphmp.doctor.devices import BFLOAT16_CORES, TENSOR_CORES, described
from graphmp.doctor.installed import Installation, Version, gather, numbers, text

OLD = (1, 15)
FIRST = (2, 15)
LAST = (2, 21)
PYTHONS = ((3, 7), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13))
NEEDED = ("numpy", "scipy", "absl-py", "rich")


@dataclass(frozen=True)
class Finding:
    """A finding.

    Attributes:
        subject: what was examined.
        found: the finding, in one line.
        ok: False if graphmp won't work until it is cured.
        cure: what to do; if `ok`, how to lift a limit.
    """

    subject: str
    found: str
    ok: bool = True
    cure: str = ""


def examine() -> List[Finding]:
    """The findings about this installation.

    Takes a few seconds, because TensorFlow is imported in a child process.
    """
    return diagnose(gather())


def diagnose(facts: Installation) -> List[Finding]:
    """All findings, in the order to read them.

    Those that only TensorFlow could tell are left out where it doesn't import.
    """
    checks: List[Callable[[Installation], List[Finding]]] = [python, tensorflow, packages]
    if facts.probe:
        checks += [keras, slim, estimator, gpu, channels_first, bfloat16]
    return [finding for check in checks + [cpu] for finding in check(facts)]


def next_step(findings: List[Finding]) -> str:
    """The next step: the first cure that is needed, or a conversion."""
    for finding in findings:
        if not finding.ok:
            return "%s; then: graphmp doctor" % finding.cure
    return "graphmp convert model.py"


def python(facts: Installation) -> List[Finding]:
    """3.8 has neither a TensorFlow 1.15 nor a 2.15 on PyPI; NVIDIA's 1.15 is built for it."""
    cure = (
        ""
        if facts.python[:2] in PYTHONS
        else "use Python 3.7 for TensorFlow 1.15.5, or 3.9 to 3.13 for TensorFlow 2"
    )
    return [Finding("Python", text(facts.python), cure=cure)]


def tensorflow(facts: Installation) -> List[Finding]:
    """Findings on its distribution, on whether it imports, and on whether its version is known."""
    names = ", ".join("%s %s" % each for each in facts.distributions)
    findings = [_known_version(facts, names) if facts.probe else _does_not_import(facts, names)]
    if len(facts.distributions) > 1:
        cure = "pip uninstall all of them, then install one"
        findings.append(
            Finding(
                "TensorFlow",
                "several distributions write to the same files: %s" % names,
                False,
                cure,
            )
        )
    return findings


def _does_not_import(facts: Installation, names: str) -> Finding:
    if not facts.distributions:
        missing = "No module named 'tensorflow'" in facts.error
        return Finding(
            "TensorFlow", "not installed" if missing else facts.error, False, install(facts.python)
        )
    likely = [finding.cure for finding in packages(facts) if not finding.ok]
    cure = (
        likely[0]
        if likely
        else "pip install --force-reinstall --no-deps %s" % "==".join(facts.distributions[0])
    )
    return Finding("TensorFlow", "%s does not import: %s" % (names, facts.error), False, cure)


def _known_version(facts: Installation, names: str) -> Finding:
    found = "%s from %s" % (facts.probe["version"], names or "no distribution that pip knows")
    if facts.tensorflow == OLD or FIRST <= facts.tensorflow <= LAST:
        return Finding("TensorFlow", found)
    age = "old" if facts.tensorflow < FIRST else "new"
    return Finding(
        "TensorFlow",
        "%s, too %s: graphmp knows 1.15 and 2.15 to 2.21" % (found, age),
        False,
        install(facts.python),
    )


def install(python_version: Version) -> str:
    """The command that installs a TensorFlow that graphmp knows, on this Python."""
    if python_version[:2] == (3, 7):
        return "pip install 'tensorflow==1.15.5' 'protobuf<3.21'"
    if python_version[:2] == (3, 9):
        return "pip install 'tensorflow==2.15.1' 'tf-keras==2.15.1' tf-slim"
    if python_version[:2] in PYTHONS:
        return "pip install 'tensorflow>=2.15,<2.22' tf-keras tf-slim"
    return "use Python 3.7 or 3.9 to 3.13, for which there is a TensorFlow that graphmp knows"


def packages(facts: Installation) -> List[Finding]:
    """The packages that graphmp imports, and the versions that this TensorFlow can't work with."""
    limits = {"protobuf": protobuf_limit(facts), "numpy": numpy_limit(facts)}
    findings = []
    for name in ("protobuf",) + NEEDED:
        version = facts.packages.get(name, "")
        limit = limits.get(name)
        if not version:
            findings.append(
                Finding(
                    name,
                    "not installed",
                    False,
                    "pip install '%s%s'" % (name, "<" + limit if limit else ""),
                )
            )
        elif limit and numbers(version) >= numbers(limit):
            found = "%s, too new for TensorFlow %s" % (version, text(facts.tensorflow))
            findings.append(Finding(name, found, False, "pip install '%s<%s'" % (name, limit)))
        else:
            findings.append(Finding(name, version))
    return findings


def protobuf_limit(facts: Installation) -> Optional[str]:
    """protobuf 3.21 and later refuses the generated code of TensorFlow 1.15.5."""
    return "3.21" if facts.tensorflow == OLD else None


def numpy_limit(facts: Installation) -> Optional[str]:
    """TensorFlow before 2.18 is compiled for numpy 1."""
    return "2" if (0,) < facts.tensorflow < (2, 18) else None


def keras(facts: Installation) -> List[Finding]:
    """TensorFlow 1 code needs Keras 2, the package tf-keras since TensorFlow 2.16."""
    package, version = facts.probe["keras"], facts.tensorflow
    if not package or (version >= (2, 16) and "tf-keras" not in facts.packages):
        found = "Keras 3, which has no TensorFlow 1 layers" if package else "none"
        cure = "pip install --no-deps 'tf-keras==%s.*'" % text(version)
        return [
            Finding("Keras", found + ": tf.layers and tf.keras fail without tf-keras", False, cure)
        ]
    if facts.keras_too_late and version >= (2, 16):
        cure = "import graphmp first, or set TF_USE_LEGACY_KERAS=1"
        return [
            Finding(
                "Keras", "TensorFlow was imported before graphmp could ask for Keras 2", False, cure
            )
        ]
    if package == "tf_keras":
        return [Finding("Keras", "Keras 2, from tf-keras %s" % facts.packages.get("tf-keras", ""))]
    if package == "keras" and version >= (2, 16):
        return [
            Finding(
                "Keras",
                "Keras 3, which has no TensorFlow 1 layers",
                False,
                "leave TF_USE_LEGACY_KERAS unset, or set it to 1",
            )
        ]
    return [Finding("Keras", "Keras 2, built in")]


def slim(facts: Installation) -> List[Finding]:
    """TensorFlow 2 has no tf.contrib; tf-slim replaces its slim."""
    if facts.tensorflow == OLD:
        return [Finding("tf-slim", "not needed: tf.contrib is there")]
    if "tf-slim" not in facts.packages:
        return [
            Finding(
                "tf-slim", "not installed: scripts that use slim fail", cure="pip install tf-slim"
            )
        ]
    return [Finding("tf-slim", facts.packages["tf-slim"])]


def estimator(facts: Installation) -> List[Finding]:
    """TensorFlow 2.15 was the last with tf.estimator; the package's 2.15.0 serves it later on."""
    name, wanted = "tensorflow-estimator", "2.15.0"
    found = facts.packages.get(name, "")
    if facts.tensorflow <= FIRST:
        return [Finding("Estimator", "comes with TensorFlow %s" % text(facts.tensorflow))]
    cure = "pip install %s==%s" % (name, wanted)
    if not found:
        return [
            Finding("Estimator", "not installed: scripts that use tf.estimator fail", cure=cure)
        ]
    if numbers(found)[:2] != FIRST:
        return [
            Finding(
                "Estimator",
                "%s %s, for another TensorFlow: scripts that use tf.estimator fail" % (name, found),
                cure=cure,
            )
        ]
    return [Finding("Estimator", "%s %s, served under graphmp run and convert" % (name, found))]


def gpu(facts: Installation) -> List[Finding]:
    """One finding for each GPU; none is no fault, since conversion needs none."""
    if facts.probe["gpus"]:
        return [_one_gpu(description, facts) for description in facts.probe["gpus"]]
    found = (
        "none: convert, diff and training on the CPU work without; half precision is faster on a"
        " GPU with Tensor Cores"
    )
    if not facts.driver:
        return [Finding("GPU", found)]
    if facts.tensorflow == OLD:
        cure = "install NVIDIA's build of TensorFlow 1.15, or tensorflow-gpu, in place of this one"
    elif facts.probe["cuda"]:
        cure = "pip install 'tensorflow[and-cuda]==%s'" % facts.probe["version"]
    else:
        cure = "this TensorFlow is built without CUDA: install the package tensorflow"
    return [Finding("GPU", "there is an NVIDIA driver, but TensorFlow sees no GPU", cure=cure)]


def _one_gpu(description: str, facts: Installation) -> Finding:
    name, capability = described(description)
    found = "%s, compute capability %s: " % (name or "unnamed", text(capability) or "unknown")
    if capability < TENSOR_CORES:
        cure = "for speed: a GPU of capability 7.0 or later"
        return Finding(
            "GPU", found + "no Tensor Cores, so half precision saves memory, hardly time", cure=cure
        )
    if capability < BFLOAT16_CORES:
        return Finding("GPU", found + "Tensor Cores for float16")
    if facts.tensorflow == OLD and not _built_by_nvidia(facts):
        cure = "use NVIDIA's build of TensorFlow 1.15, or TensorFlow 2"
        return Finding(
            "GPU",
            found + "newer than the CUDA 10 that PyPI's TensorFlow 1.15 is built for",
            cure=cure,
        )
    return Finding("GPU", found + "Tensor Cores for float16 and bfloat16")


def _built_by_nvidia(facts: Installation) -> bool:
    return any(name.startswith("nvidia") for name, _ in facts.distributions)


def channels_first(facts: Installation) -> List[Finding]:
    """Found by trying: 2.15.1 and 2.21 train them in float32 and float16, 1.15.5 in neither."""
    if not facts.probe["channels_first"]:
        cure = "run on a GPU%s, or build the model channels last; converting works" % _newer(facts)
        return [
            Finding(
                "channels first",
                "this TensorFlow's CPU does not train channels-first convolutions",
                cure=cure,
            )
        ]
    if not facts.probe["channels_first_float16"]:
        cure = "run on a GPU or with --compute_dtype=bfloat16, or build the model channels last"
        return [
            Finding(
                "channels first",
                "this TensorFlow's CPU trains channels-first convolutions in float32, not in"
                " float16",
                cure=cure,
            )
        ]
    return [Finding("channels first", "train on the CPU with graphmp.session_config()")]


def _newer(facts: Installation) -> str:
    """A newer TensorFlow as a cure, if there is one."""
    return " or on TensorFlow 2.15 or later" if facts.tensorflow < FIRST else ""


def bfloat16(facts: Installation) -> List[Finding]:
    """1.15.5's CPU has no bfloat16 convolution."""
    if facts.probe["bfloat16"]:
        return [Finding("bfloat16", "trains on the CPU")]
    cure = "run on TensorFlow 2.15 or later, or use float16; converting works"
    return [Finding("bfloat16", "this TensorFlow's CPU has no bfloat16 convolutions", cure=cure)]


def cpu(facts: Installation) -> List[Finding]:
    """Whether the CPU multiplies bfloat16 in hardware."""
    if facts.cpu_flags is None:
        return [Finding("CPU", "this system does not list its flags")]
    fast = [
        label
        for flag, label in (("avx512_bf16", "AVX512_BF16"), ("amx_bf16", "AMX"))
        if flag in facts.cpu_flags
    ]
    if not fast:
        return [Finding("CPU", "neither AVX512_BF16 nor AMX: bfloat16 brings no speed here")]
    return [Finding("CPU", "%s: bfloat16 in hardware" % " and ".join(fast))]
