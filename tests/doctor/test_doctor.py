"""`graphmp doctor`.

Each thing that won't work is a finding with its cure, and the exit status says so.
"""

import dataclasses
import json
import os
import subprocess
import sys
import types

import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli import doctor as command
from graphmp.cli.parser import build_parser
from graphmp.conversion.quiet import quiet_stderr
from graphmp.doctor import doctor, installed
from graphmp.doctor.doctor import Finding
from graphmp.doctor.installed import Distribution, Installation
from graphmp.errors import GraphmpError

GOOD_PROBE = {
    "version": "2.21.0",
    "cuda": True,
    "keras": "tf_keras",
    "gpus": [],
    "bfloat16": True,
    "channels_first": True,
    "channels_first_float16": True,
}
GOOD = Installation(
    python=(3, 11, 7),
    distributions=(Distribution("tensorflow", "2.21.0"),),
    packages={
        "protobuf": "6.31.1",
        "numpy": "2.1.0",
        "scipy": "1.15.0",
        "absl-py": "2.1.0",
        "rich": "13.0.0",
        "tf-keras": "2.21.0",
        "tf-slim": "1.1.0",
        "tensorflow-estimator": "2.15.0",
    },
    probe=GOOD_PROBE,
    cpu_flags=frozenset(["avx512_bf16", "amx_bf16"]),
)
OLD = dataclasses.replace(
    GOOD,
    python=(3, 7, 16),
    distributions=(Distribution("tensorflow", "1.15.5"),),
    packages=dict(GOOD.packages, protobuf="3.20.3", numpy="1.18.5"),
    probe=dict(
        GOOD_PROBE,
        version="1.15.5",
        keras="tensorflow",
        bfloat16=False,
        channels_first=False,
        channels_first_float16=False,
    ),
)


def changed(facts=GOOD, probe=None, packages=None, without=(), **fields):
    """`facts` with entries of its dictionaries and whole fields replaced."""
    kept = {
        name: version
        for name, version in dict(facts.packages, **(packages or {})).items()
        if name not in without
    }
    return dataclasses.replace(
        facts, **dict(dict(probe=dict(facts.probe, **(probe or {})), packages=kept), **fields)
    )


def broken(error, facts=GOOD, **changes):
    """`facts` where importing TensorFlow fails."""
    return dataclasses.replace(changed(facts, **changes), probe={}, error=error)


def gpu(name, capability, facts=GOOD):
    """`facts` where TensorFlow sees a GPU, described as it does."""
    return changed(
        facts,
        probe={
            "gpus": [
                "device: 0, name: %s, pci bus id: 0000:00:04.0, compute capability: %s"
                % (name, capability)
            ]
        },
    )


def version(number, numpy="1.18.5"):
    """`GOOD` with another TensorFlow."""
    return changed(probe={"version": number}, packages={"numpy": numpy})


MISSING = "ModuleNotFoundError: No module named 'tensorflow'"
PAIR = (Distribution("tensorflow", "2.21.0"), Distribution("tensorflow-cpu", "2.20.0"))

FAILS = {
    "missing": (
        broken(MISSING, distributions=()),
        "TensorFlow",
        "not installed",
        "tensorflow>=2.15,<2.22",
    ),
    "missing on 3.7": (
        broken(MISSING, OLD, distributions=()),
        "TensorFlow",
        "not installed",
        "tensorflow==1.15.5' 'protobuf<3.21'",
    ),
    "missing on 3.8": (
        broken(MISSING, python=(3, 8, 1), distributions=()),
        "TensorFlow",
        "not installed",
        "use Python 3.7 or 3.9 to 3.13",
    ),
    "broken": (
        broken("ImportError: no libfoo.so"),
        "TensorFlow",
        "tensorflow 2.21.0 does not import: ImportError: no libfoo",
        "--force-reinstall",
    ),
    "too old": (version("1.14.0"), "TensorFlow", "1.14.0 from tensorflow 2.21.0, too old", "2.15"),
    "between": (
        version("2.13.1"),
        "TensorFlow",
        "too old: graphmp knows 1.15 and 2.15 to 2.21",
        "2.15",
    ),
    "too new": (version("2.22.0-dev20260101"), "TensorFlow", "too new", "2.22"),
    "two at once": (
        changed(distributions=PAIR),
        "TensorFlow",
        "write to the same files: tensorflow 2.21.0, tensorflow-cpu 2.20.0",
        "uninstall",
    ),
    "protobuf": (
        changed(OLD, packages={"protobuf": "3.21.0"}),
        "protobuf",
        "3.21.0, too new for TensorFlow 1.15",
        "'protobuf<3.21'",
    ),
    "protobuf 4": (
        changed(OLD, packages={"protobuf": "4.24.4"}),
        "protobuf",
        "too new",
        "'protobuf<3.21'",
    ),
    "numpy 2": (
        version("2.15.1", numpy="2.0.0"),
        "numpy",
        "too new for TensorFlow 2.15",
        "'numpy<2'",
    ),
    "no scipy": (changed(without=["scipy"]), "scipy", "not installed", "pip install 'scipy'"),
    "Keras 3": (changed(probe={"keras": "keras"}), "Keras", "Keras 3", "TF_USE_LEGACY_KERAS"),
    "no tf-keras": (
        changed(probe={"keras": ""}, without=["tf-keras"]),
        "Keras",
        "none",
        "'tf-keras==2.21.*'",
    ),
    "Keras 3 alone": (
        changed(probe={"keras": "keras"}, without=["tf-keras"], keras_too_late=True),
        "Keras",
        "Keras 3, which has no TensorFlow 1 layers: tf.layers and tf.keras fail without tf-keras",
        "'tf-keras==2.21.*'",
    ),
    "no Keras": (
        changed(probe={"keras": ""}, without=["tf-keras"], keras_too_late=True),
        "Keras",
        "none",
        "'tf-keras==2.21.*'",
    ),
    "Keras too late": (
        changed(keras_too_late=True),
        "Keras",
        "before graphmp",
        "import graphmp first",
    ),
}


@pytest.mark.parametrize("name", sorted(FAILS))
def test_what_will_not_work(name):
    facts, subject, found, cure = FAILS[name]
    findings = doctor.diagnose(facts)
    (failure,) = [finding for finding in findings if not finding.ok]
    assert failure.subject == subject
    assert found in failure.found
    assert cure in failure.cure
    assert "\n" not in failure.found
    assert doctor.next_step(findings) == failure.cure + "; then: graphmp doctor"


@pytest.mark.unit
def test_a_package_that_breaks_tensorflow_is_the_first_thing_to_cure():
    findings = doctor.diagnose(
        broken(
            "TypeError: Descriptors cannot be created directly.",
            OLD,
            packages={"protobuf": "4.21.0"},
        )
    )
    assert [finding.subject for finding in findings if not finding.ok] == ["TensorFlow", "protobuf"]
    assert doctor.next_step(findings) == "pip install 'protobuf<3.21'; then: graphmp doctor"


NOTES = {
    "Python 3.8": (changed(OLD, python=(3, 8, 0)), "Python", "3.8.0", "use Python 3.7"),
    "no slim": (changed(without=["tf-slim"]), "tf-slim", "not installed", "pip install tf-slim"),
    "no Estimator": (
        changed(without=["tensorflow-estimator"]),
        "Estimator",
        "not installed",
        "pip install tensorflow-estimator==2.15.0",
    ),
    "another Estimator": (
        changed(packages={"tensorflow-estimator": "1.15.1"}),
        "Estimator",
        "tensorflow-estimator 1.15.1, for another TensorFlow",
        "pip install tensorflow-estimator==2.15.0",
    ),
    "bfloat16": (OLD, "bfloat16", "no bfloat16 convolutions", "float16; converting works"),
    "channels first": (OLD, "channels first", "does not train", "channels last"),
    "channels first in float16": (
        changed(probe={"channels_first_float16": False}),
        "channels first",
        "not in float16",
        "--compute_dtype=bfloat16",
    ),
    "unseen GPU": (
        changed(driver=True),
        "GPU",
        "TensorFlow sees no GPU",
        "'tensorflow[and-cuda]==2.21.0'",
    ),
    "build without CUDA": (
        changed(driver=True, probe={"cuda": False}),
        "GPU",
        "TensorFlow sees no GPU",
        "built without CUDA",
    ),
    "unseen GPU on 1.15": (
        changed(OLD, driver=True),
        "GPU",
        "TensorFlow sees no GPU",
        "NVIDIA's build",
    ),
    "old GPU": (
        gpu("Tesla P100", "6.0"),
        "GPU",
        "Tesla P100, compute capability 6.0: no Tensor Cores",
        "7.0",
    ),
    "new GPU on 1.15": (gpu("A100", "8.0", OLD), "GPU", "newer than the CUDA 10", "NVIDIA's build"),
}


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(NOTES))
def test_limits_are_notes_with_a_cure(name):
    facts, subject, found, cure = NOTES[name]
    findings = doctor.diagnose(facts)
    assert all(finding.ok for finding in findings)
    (note,) = [finding for finding in findings if finding.cure and finding.subject == subject]
    assert found in note.found
    assert cure in note.cure
    assert doctor.next_step(findings) == "graphmp convert model.py"


NVIDIA = (Distribution("nvidia-tensorflow", "1.15.5+nv22.5"),)

FINE = {
    "TensorFlow": (GOOD, "TensorFlow", "2.21.0 from tensorflow 2.21.0"),
    "built by hand": (
        changed(distributions=()),
        "TensorFlow",
        "2.21.0 from no distribution that pip knows",
    ),
    "NVIDIA's": (
        gpu("A100", "8.0", changed(OLD, distributions=NVIDIA)),
        "GPU",
        "A100, compute capability 8.0: Tensor Cores for float16 and bfloat16",
    ),
    "tf-keras": (GOOD, "Keras", "Keras 2, from tf-keras 2.21.0"),
    "Keras of 2.15": (
        changed(version("2.15.1"), probe={"keras": "keras"}),
        "Keras",
        "Keras 2, built in",
    ),
    "Keras of 1.15": (OLD, "Keras", "Keras 2, built in"),
    "contrib": (OLD, "tf-slim", "not needed: tf.contrib is there"),
    "Estimator": (
        GOOD,
        "Estimator",
        "tensorflow-estimator 2.15.0, served under graphmp run and convert",
    ),
    "Estimator of 1.15": (OLD, "Estimator", "comes with TensorFlow 1.15"),
    "Estimator of 2.15": (changed(version("2.15.1")), "Estimator", "comes with TensorFlow 2.15"),
    "no GPU": (
        GOOD,
        "GPU",
        (
            "none: convert, diff and training on the CPU work without; half precision is faster on"
            " a GPU with Tensor Cores"
        ),
    ),
    "float16 GPU": (
        gpu("Tesla V100", "7.0"),
        "GPU",
        "Tesla V100, compute capability 7.0: Tensor Cores for float16",
    ),
    "bfloat16 CPU": (GOOD, "CPU", "AVX512_BF16 and AMX: bfloat16 in hardware"),
    "plain CPU": (
        changed(cpu_flags=frozenset(["avx2"])),
        "CPU",
        "neither AVX512_BF16 nor AMX: bfloat16 brings no speed here",
    ),
    "another system": (changed(cpu_flags=None), "CPU", "this system does not list its flags"),
}


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(FINE))
def test_what_is_fine(name):
    facts, subject, found = FINE[name]
    findings = doctor.diagnose(facts)
    assert all(finding.ok for finding in findings)
    assert Finding(subject, found) in findings


def test_the_environment_of_this_test(capsys):
    assert run() == 0
    out = capsys.readouterr().out
    assert "%s from tensorflow" % tf.__version__ in out
    assert out.splitlines()[-1].split(None, 1) == ["next", "graphmp convert model.py"]
    on_the_cpu = tf.__version__ > "2"
    assert ("no bfloat16 convolutions" in out) != on_the_cpu
    assert ("does not train channels-first" in out) != on_the_cpu


@pytest.mark.unit
def test_json(capsys, monkeypatch):
    monkeypatch.setattr(
        doctor, "examine", lambda: [Finding("numpy", "not installed", False, "pip install numpy")]
    )
    assert run("--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "findings": [
            {"subject": "numpy", "found": "not installed", "ok": False, "cure": "pip install numpy"}
        ],
        "next": "pip install numpy; then: graphmp doctor",
    }


@pytest.mark.unit
def test_plain_text_puts_the_cure_under_what_it_cures():
    text = command.lines(
        [
            Finding("a", "fine"),
            Finding("b", "slow", cure="hurry"),
            Finding("c", "gone", False, "fetch it"),
        ]
    )
    assert [line.split() for line in text] == [
        ["a", "ok", "fine"],
        ["b", "note", "slow"],
        ["cure", "hurry"],
        ["c", "fails", "gone"],
        ["cure", "fetch", "it"],
        ["next", "fetch", "it;", "then:", "graphmp", "doctor"],
    ]


@pytest.mark.unit
def test_a_terminal_gets_a_table_with_the_same_words(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: doctor.diagnose(OLD))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "400")
    assert run() == 0
    out = capsys.readouterr().out
    for finding in doctor.diagnose(OLD):
        assert finding.found in out
        assert finding.cure in out


@pytest.mark.unit
def test_a_wrong_flag_is_one_line():
    with pytest.raises(GraphmpError, match="unrecognized arguments: --jsn"):
        run("--jsn")


@pytest.mark.parametrize(
    "source, error",
    [
        (
            "import tensorflow_that_is_not_there",
            "ModuleNotFoundError: No module named 'tensorflow_that_is_not_there'",
        ),
        (
            (
                "raise TypeError('Descriptors cannot be created directly.\\nIf this call came from"
                " a _pb2.py file, downgrade')"
            ),
            "TypeError: Descriptors cannot",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
            "importing it ends the process with signal 4",
        ),
        ("raise SystemExit(3)", "importing it fails with exit status 3"),
    ],
)
def test_a_tensorflow_that_does_not_import(source, error):
    answer, found = installed.ask_tensorflow((sys.executable, "-c", source))
    assert answer == {}
    assert found.startswith(error)


def test_a_tensorflow_that_hangs(monkeypatch):
    monkeypatch.setattr(installed, "PROBE_SECONDS", 1)
    assert installed.ask_tensorflow((sys.executable, "-c", "import time; time.sleep(60)")) == (
        {},
        "importing it takes more than 1 s",
    )


def test_the_probe_reads_past_what_else_is_printed():
    source = "print('hello'); print('{\"version\": \"2.21.0\"}')"
    assert installed.ask_tensorflow((sys.executable, "-c", source)) == ({"version": "2.21.0"}, "")


@pytest.mark.unit
@pytest.mark.parametrize(
    "files, provides",
    [
        ({"RECORD": "tensorflow/__init__.py,,\n"}, True),
        (
            {
                "RECORD": "tensorflow_hub/__init__.py,,\ngraphmp/tensorflow/__init__.py,,\n",
                "top_level.txt": "tensorflow",
            },
            False,
        ),
        ({"top_level.txt": "tensorflow\ntensorflow_core\n"}, True),
        ({"top_level.txt": "tensorflow_estimator\n"}, False),
        ({}, False),
    ],
)
def test_who_provides_tensorflow(monkeypatch, files, provides):
    distribution = types.SimpleNamespace(
        metadata={"Name": "some-tensorflow"}, version="1.0", read_text=files.get
    )
    monkeypatch.setattr(installed.metadata, "distributions", lambda: [distribution])
    assert installed.tensorflow_distributions() == (
        [Distribution("some-tensorflow", "1.0")] if provides else []
    )


@pytest.mark.unit
def test_cpu_flags(tmp_path):
    listed = tmp_path / "cpuinfo"
    listed.write_text(
        "processor\t: 0\nflags\t\t: fpu avx512_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    )
    assert installed.cpu_flags(str(listed)) == frozenset(["fpu", "avx512_bf16"])
    assert installed.cpu_flags(str(tmp_path / "absent")) is None


@pytest.mark.unit
def test_quiet_stderr_drops_what_goes_to_the_descriptor(capfd):
    with quiet_stderr():
        os.write(2, b"noise\n")
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"


@pytest.mark.unit
def test_quiet_stderr_says_all_when_it_fails(capfd):
    with pytest.raises(ImportError), quiet_stderr():
        os.write(2, b"the reason\n")
        raise ImportError
    assert capfd.readouterr().err == "the reason\n"


def test_quiet_stderr_says_nothing_when_it_is_interrupted(capfd):
    with pytest.raises(KeyboardInterrupt), quiet_stderr():
        os.write(2, b"noise")
        raise KeyboardInterrupt
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_quiet_stderr_where_it_is_closed():
    source = (
        "import os; os.close(2)\nfrom graphmp.conversion.quiet import quiet_stderr\nwith"
        " quiet_stderr(): pass\nos.write(1, b'fine')"
    )
    assert subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE).stdout == b"fine"


def run(*flags):
    args = build_parser({"doctor": command}, "0").parse_args(["doctor"] + list(flags))
    return args.run(args)
