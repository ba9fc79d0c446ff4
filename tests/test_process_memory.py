"""Python's garbage collector stands still while a graph is converted, and runs again afterwards."""

import gc

import pytest

import graphmp
from graphmp.errors import GraphmpError
from graphmp.process_memory import collector_paused
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit


def test_it_stands_still_meanwhile():
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_one_that_does_not_run_is_not_started():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_runs_again_after_a_conversion_and_after_one_that_fails(tmp_path):
    conversion = graphmp.convert(meta_graph("x X", "w X", "y MatMul x w T=float32"))
    assert gc.isenabled()
    conversion.save(tmp_path)
    assert gc.isenabled()
    with pytest.raises(GraphmpError):
        graphmp.convert(tmp_path / "gone.meta")
    assert gc.isenabled()
