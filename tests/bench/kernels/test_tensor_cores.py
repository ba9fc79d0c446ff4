"""Tensor Cores."""

from __future__ import annotations

import pytest

from graphmp.bench.kernels import tensor_cores
from graphmp.bench.kernels.shares import shares
from graphmp.bench.options import BenchOptions
from graphmp.bench.render import text
from graphmp.config import Config
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from graphmp.timings import Ratio
from tests.support.benched import CPU


@pytest.mark.unit
@pytest.mark.parametrize("device", [CPU, Device("P100", (6, 0))])
def test_tensor_cores_need_a_gpu_that_has_them(device):
    with pytest.raises(
        GraphmpError,
        match="--verify_tensor_cores: found %s; accepted is a GPU of compute capability 7.0"
        % device.name,
    ) as caught:
        tensor_cores.check(device)
    assert caught.value.exit_status == 2
    tensor_cores.check(Device("V100", (7, 0)))


def test_a_converted_graph_is_traced_as_it_is(conversion, tmp_path):
    path = tmp_path / "converted.meta"
    path.write_bytes(serialize(conversion.meta_graph))
    (tmp_path / "original.meta").write_bytes(serialize(conversion.original))
    assert tensor_cores.is_converted(str(path), "") and not tensor_cores.is_converted(
        str(tmp_path / "original.meta"), ""
    )
    training = tensor_cores.losses(conversion.meta_graph, Config.make())
    assert {"graphmp/loss_scale/update/new_scale"} < set(training[0]["updates"])
    found = tensor_cores.traced(
        conversion.meta_graph, training, "converted.meta", BenchOptions(batch_sizes=(4, 8))
    )
    assert found.graph_def == conversion.meta_graph.graph_def
    assert shares(found.run_metadata, found.graph_def).products > 0
    with pytest.raises(GraphmpError, match="GMP023: x: no training step"):
        tensor_cores.traced(conversion.meta_graph, [], "x", BenchOptions())


@pytest.mark.unit
def test_ratios_of_the_result_are_plain_numbers():
    assert text.ratio(Ratio(1.5, 1.25, 1.75)) == ["1.50x", "1.25-1.75"] and text.ratio(
        Ratio(1.5, None, None)
    ) == ["1.50x", ""]
    assert text.ratio(None) == ["", ""] and text.batch(None) == "-" and text.batch(1024) == "1,024"
    assert [text.milliseconds(value) for value in (0.000123, 0.01234, 1.5)] == [
        "0.123",
        "12.3",
        "1,500",
    ]
