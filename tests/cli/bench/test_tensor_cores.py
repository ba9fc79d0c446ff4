"""`graphmp bench --verify_tensor_cores`."""

from __future__ import annotations

import json

import pytest

from graphmp.bench import device
from graphmp.bench.kernels import products
from graphmp.doctor.devices import Device
from tests.support.commands import graphmp as command


@pytest.mark.parametrize("source", ["train.meta", "converted.meta"])
def test_tensor_cores_are_looked_for_in_the_converted_graph(folder, capfd, monkeypatch, source):
    if source == "converted.meta":
        assert command(capfd, "convert", "train.meta", "-o", ".")[0] == 0
    seen = []
    monkeypatch.setattr(device, "find", lambda: Device("V100", (7, 0)))
    verify = products.verify
    monkeypatch.setattr(
        products, "verify", lambda *arguments: seen.append(arguments) or verify(*arguments)
    )
    arguments = [source, "--batch_sizes=4", "--verify_tensor_cores", "--compute_dtype=float16"]
    status, out, err = command(capfd, "bench", *arguments)
    assert (status, err) == (products.NOTHING_SEEN, "")  # it ran on the CPU
    assert out.splitlines()[0].startswith(
        "tensor cores: the profile shows no GPU kernel of 6"
    ) and out.splitlines()[-1].startswith("next ")
    ((graph_def, run_metadata),) = seen
    assert (
        any(node.name.startswith("graphmp/loss_scale") for node in graph_def.node)
        and run_metadata.step_stats.dev_stats
    )
    value = json.loads(command(capfd, "bench", *arguments, "--json")[1])
    assert (
        value["schema"] == "graphmp.tensor_cores/1"
        and len(value["rows"]) == 6
        and value["exit_status"] == products.NOTHING_SEEN
    )


@pytest.mark.parametrize(
    "status, following",
    [(0, "graphmp bench train.meta"), (1, "change what is listed, then run this again")],
)
def test_the_verdict_is_the_exit_status(folder, capfd, monkeypatch, status, following):
    monkeypatch.setattr(device, "find", lambda: Device("V100", (7, 0)))
    monkeypatch.setattr(products, "verify", lambda *_: products.TensorCoreUse([], status))
    found, out, _ = command(capfd, "bench", "train.meta", "--verify_tensor_cores")
    assert found == status and out.splitlines()[-1] == "next         " + following
