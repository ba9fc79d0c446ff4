"""Devices: their names, and the dtypes that are fast there."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench import device as devices
from graphmp.bench.processes import accumulation as sums
from graphmp.bench.render import text
from graphmp.doctor import devices as doctor
from graphmp.doctor.devices import Device
from tests.support.benched import CPU, PLAIN_CPU, TF1, a_bench

GPU = Device("A100", (8, 0))


@pytest.mark.unit
@pytest.mark.parametrize(
    "device, dtype, words",
    [
        (CPU, "bfloat16", ""),
        (
            CPU,
            "float16",
            (
                "float16 is emulated on a CPU: these times say nothing about a GPU;"
                " --compute_dtype=bfloat16 is fast here"
            ),
        ),
        (PLAIN_CPU, "float16", "float16 is emulated on a CPU: these times say nothing about a GPU"),
        (PLAIN_CPU, "bfloat16", "no bfloat16 in hardware"),
        (GPU, "bfloat16", ""),
        (GPU, "float16", ""),
        (Device("V100", (7, 0)), "float16", ""),
        (Device("V100", (7, 0)), "bfloat16", "below compute capability 8.0"),
        (
            Device("P100", (6, 0)),
            "float16",
            (
                "below compute capability 7.0 has no Tensor Cores: half precision saves memory"
                " there, hardly time"
            ),
        ),
        (CPU, "float32", "nothing is in half precision"),
    ],
)
def test_where_times_say_little(device, dtype, words):
    found = devices.limits(device, dtype)
    assert len(found) == bool(words) and words in "".join(found)


@pytest.mark.unit
def test_what_is_fast_is_the_default_dtype():
    assert [device.default_dtype for device in (CPU, PLAIN_CPU, GPU, Device("P100", (6, 0)))] == [
        "bfloat16",
        "float16",
        "float16",
        "float16",
    ]


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags, name",
    [
        (("avx512_bf16", "amx_bf16", "avx2"), "AMX_BF16 and AVX512_BF16"),
        (("avx512_bf16",), "AVX512_BF16"),
    ],
)
def test_a_cpu_by_its_flags(monkeypatch, flags, name):
    monkeypatch.setattr(doctor, "cpu_flags", lambda path: frozenset(flags))
    found = devices.find()
    assert found == Device(
        "CPU with " + name, (), not TF1
    )  # 1.15.5's CPU has no bfloat16 convolutions
    assert found.default_dtype == ("float16" if TF1 else "bfloat16")


@pytest.mark.unit
@pytest.mark.parametrize("flags", [None, frozenset(("avx2",))])
def test_a_cpu_without_bfloat16(monkeypatch, flags):
    monkeypatch.setattr(doctor, "cpu_flags", lambda path: flags)
    assert devices.find() == PLAIN_CPU


@pytest.mark.unit
def test_a_gpu_by_its_description(monkeypatch):
    described = "device: 0, name: NVIDIA A100, pci bus id: 0000:00:04.0, compute capability: 8.0"
    monkeypatch.setattr(tf.config.experimental, "list_physical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(devices, "ask_tensorflow", lambda: ({"gpus": [described]}, ""))
    assert devices.find() == Device("NVIDIA A100", (8, 0)) and devices.find().on_gpu
    monkeypatch.setattr(devices, "ask_tensorflow", lambda: ({}, "it failed"))
    assert devices.find().on_gpu and devices.find().capability < (7, 0)


@pytest.mark.unit
def test_sums_by_their_errors():
    assert sums.dtypes({"matmul": 0.8, "convolution": None}, "float16") == {
        "matmul": "float32",
        "convolution": None,
    }
    assert sums.dtypes({"matmul": 32.0, "convolution": 2.0}, "bfloat16") == {
        "matmul": "bfloat16",
        "convolution": "float32",
    }


def test_sums_are_measured():
    found = sums.errors("float16")
    assert sorted(found) == ["convolution", "matmul"] and all(
        value is None or value > 0.4 for value in found.values()
    )
    if TF1:
        assert found["matmul"] > 10  # 1.15.5's CPU adds up in float16


@pytest.mark.unit
@pytest.mark.parametrize(
    "device, environment, words",
    [
        (
            CPU,
            {"A": None},
            (
                "float16 matmuls add up in float32, convolutions add up in nothing: there is no"
                " kernel, as measured; A are for float16 on a GPU"
            ),
        ),
        (
            GPU,
            {"A": None, "B": "0"},
            "as measured; A is not set, B is 0; TensorFlow's default is 1, float32",
        ),
    ],
)
def test_sums_in_words(device, environment, words):
    found = a_bench(
        device=device,
        compute_dtype="float16",
        accumulation={"matmul": "float32", "convolution": None},
        environment=environment,
    )
    assert text.sums(found).endswith(words)
    assert text.sums(a_bench(accumulation={})) == ""
