"""What pip installs on each Python, and that an existing TensorFlow of another name is left
alone.
"""

import hashlib
import re
import runpy
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.requirements import Requirement

from tests.support.places import ROOT

SHIPPED = [
    "setup.py",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "requirements",
    "graphmp",
]
STAND_IN = "nvidia-tensorflow"
STAND_IN_FILES = {
    "tensorflow/__init__.py": "__version__ = '1.15.5'\n",
    "nvidia_tensorflow-1.15.5+nv0.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: nvidia-tensorflow\nVersion: 1.15.5+nv0\n"
    ),
    "nvidia_tensorflow-1.15.5+nv0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "nvidia_tensorflow-1.15.5+nv0.dist-info/top_level.txt": "tensorflow\n",
}
OLD_NUMPY = {"3.7": "1.18.5"}.get(
    "%d.%d" % sys.version_info[:2], "1.25.2"
)  # newer ones are there for both


@pytest.fixture(scope="module")
def described():
    """What setup.py hands to setuptools."""
    setuptools = pytest.importorskip("setuptools")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **arguments: found.update(arguments))
        runpy.run_path(str(ROOT / "setup.py"))
    return found


def needed(described, python, extra=""):
    """The requirements that hold on a version of Python, without their markers."""
    listed = described["extras_require"][extra] if extra else described["install_requires"]
    environment = {"python_version": python, "python_full_version": python + ".0"}
    parsed = [Requirement(line) for line in listed]
    return {
        r.name: "".join(sorted(["[%s]" % e for e in r.extras])) + str(r.specifier)
        for r in parsed
        if not r.marker or r.marker.evaluate(environment)
    }


@pytest.mark.unit
@pytest.mark.parametrize("python", ["3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_each_python_gets_its_tensorflow(described, python):
    found = needed(described, python)
    assert {"absl-py", "numpy", "scipy", "rich"} <= set(found)
    if python == "3.7":
        assert (found["tensorflow"], found["protobuf"]) == ("==1.15.5", "<3.21")
        assert "importlib-metadata" in found
        assert not {"tf-keras", "tf-slim"} & set(found)
    elif python == "3.8":
        assert "tensorflow" not in found
    else:
        assert found["tensorflow"] == ("<2.16,>=2.15" if python == "3.9" else "<2.22,>=2.15")
        assert {"tf-keras", "tf-slim"} <= set(found)
        assert "protobuf" not in found
        assert needed(described, python, "cuda") == {"tensorflow": "[and-cuda]<2.22,>=2.15"}


@pytest.mark.unit
def test_the_version_is_that_of_the_package(described):
    text = (ROOT / "graphmp" / "version.py").read_text()
    assert '"%s"' % described["version"] in text


@pytest.mark.unit
def test_the_extras(described):
    assert set(described["extras_require"]) == {
        "browser",
        "cuda",
        "dev",
        "estimator",
        "hlo",
        "images",
        "notebook",
        "parity",
        "plot",
        "strength",
        "test",
    }
    assert set(needed(described, "3.11", "test")) == {
        "hypothesis",
        "jsonschema",
        "pillow",
        "pydot",
        "pytest",
        "pytest-xdist",
    }
    assert set(needed(described, "3.11", "browser")) == {"selenium"}
    assert set(needed(described, "3.11", "notebook")) == {"ipykernel", "nbclient"}
    assert needed(described, "3.11", "estimator") == {"tensorflow-estimator": "==2.15.0"}
    assert needed(described, "3.7", "estimator") == {}  # TensorFlow 1.15.5 brings its own
    assert set(needed(described, "3.11", "dev")) == {"mypy", "ruff"}
    assert set(needed(described, "3.11", "strength")) == {"cosmic-ray", "pytest-cov"}
    assert set(needed(described, "3.7", "strength")) == {"pytest-cov"}
    assert set(needed(described, "3.11", "plot")) == {"matplotlib"}
    assert set(needed(described, "3.11", "hlo")) == {"jax"}
    assert (
        set(needed(described, "3.11", "parity"))
        == set(needed(described, "3.7", "parity"))
        == {"mlxtend"}
    )


@pytest.mark.unit
def test_every_package_is_shipped(described):
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "graphmp").rglob("__init__.py")
    }
    assert set(described["packages"]) == folders


def command(name):
    """The README's command of a name: the code block after a comment."""
    found = re.search(
        r"<!-- command: %s -->\s+```sh\n(.+?)\n```" % name, (ROOT / "README.md").read_text()
    )
    assert found, "README.md has no command %s" % name
    return found.group(1)


@pytest.mark.unit
def test_the_readme_has_its_commands_in_one_line():
    assert [command(name).count("\n") for name in ("convert", "test", "install-beside")] == [
        0,
        0,
        0,
    ]


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A virtual environment where graphmp was installed beside a stand-in for NVIDIA's
    TensorFlow, by the README's line.
    """
    folder = tmp_path_factory.mktemp("beside")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    wheel = folder / "nvidia_tensorflow-1.15.5+nv0-py3-none-any.whl"
    with zipfile.ZipFile(str(wheel), "w") as archive:
        for name, text in STAND_IN_FILES.items():
            archive.writestr(name, text)
        record = "".join("%s,,\n" % name for name in STAND_IN_FILES)
        archive.writestr(
            "nvidia_tensorflow-1.15.5+nv0.dist-info/RECORD",
            record + "nvidia_tensorflow-1.15.5+nv0.dist-info/RECORD,,\n",
        )
    environment = Environment(folder / "venv")
    environment.shell(
        "pip install --no-deps --no-index %s && pip install --no-deps numpy==%s"
        % (wheel, OLD_NUMPY),
        folder,
    )
    before = environment.files()
    copy(folder / "checkout")
    environment.shell(command("install-beside"), folder / "checkout")
    return environment, before


def copy(to):
    """Copies what a checkout ships, so that the build leaves nothing in the tree."""
    to.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                str(ROOT / name), str(to / name), ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(str(ROOT / name), str(to / name))


class Environment:
    """A virtual environment and what is in it."""

    def __init__(self, folder):
        self.folder = folder
        (self.site,) = folder.glob("lib/python3*/site-packages")

    def shell(self, line, cwd, check=True):
        """What a command prints, with the environment active."""
        script = ". %s/bin/activate && %s" % (self.folder, line)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=str(cwd),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout

    def files(self):
        """Hashes of the stand-in's files, by name."""
        paths = [
            path
            for name in ("tensorflow", "nvidia_tensorflow-1.15.5+nv0.dist-info")
            for path in (self.site / name).rglob("*")
        ]
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
            if path.is_file() and path.suffix != ".pyc"
        }

    def versions(self):
        """What pip lists, by name."""
        lines = self.shell("pip list --format=freeze", self.folder).splitlines()
        return dict(line.split("==") for line in lines if "==" in line)


@pytest.mark.slow
def test_another_tensorflow_is_left_alone(beside):
    environment, before = beside
    assert len(before) >= len(STAND_IN_FILES)
    assert environment.files() == before
    versions = environment.versions()
    assert versions["nvidia-tensorflow"] == "1.15.5+nv0"
    assert not {"tensorflow", "tensorflow-cpu", "tf-keras", "tf_keras", "keras"} & set(versions)
    assert {"graphmp", "scipy", "rich", "absl-py"} <= set(versions)


@pytest.mark.slow
def test_so_is_the_numpy_that_it_was_built_for(beside):
    environment, _ = beside
    assert environment.versions()["numpy"] == OLD_NUMPY


@pytest.mark.slow
def test_the_doctor_names_who_provides_tensorflow(beside):
    environment, _ = beside
    out = environment.shell("graphmp doctor", environment.folder, check=False)
    assert (
        "nvidia-tensorflow 1.15.5+nv0 does not import: ModuleNotFoundError: No module named"
        " 'tensorflow.compat'" in out
    )


@pytest.mark.slow
def test_data_files_are_installed(beside):
    environment, _ = beside
    for pattern in ("policy/*.txt", "compare/render/page/*", "audit/render/page/*"):
        there = {path.name for path in (environment.site / "graphmp").glob(pattern)}
        assert there == {path.name for path in (ROOT / "graphmp").glob(pattern)}
        assert there
