"""The result of a bench as text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from scipy import stats

from graphmp.bench.bench import FAILED, FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, BenchRun, Input
from graphmp.bench.causes import CASTS, INPUT, KERNELS
from graphmp.bench.render import text
from tests.support.benched import FAST, PLAIN_CPU, ROUNDS, a_bench, timed

OUT = BenchRun(FLOAT32, 64, OUT_OF_MEMORY, "OOM when allocating")


@pytest.mark.unit
def test_batch_sizes_that_only_the_conversion_runs():
    found = a_bench(
        timed(FLOAT32, 32),
        timed(GRAPHMP, 32),
        OUT,
        timed(GRAPHMP, 64),
        BenchRun(FLOAT32, 128, OUT_OF_MEMORY),
    )
    assert found.only_converted == [64]
    assert text.memory_lines(found) == [
        "batch size 64: float32 runs out of memory, the converted graph runs"
    ]
    assert found.speedup(found.run(GRAPHMP, 64)) is None and found.run(FLOAT32, 64).spread is None
    assert a_bench(OUT, BenchRun(GRAPHMP, 64, OUT_OF_MEMORY)).only_converted == []


@pytest.mark.unit
def test_speedup_against_float32_of_the_same_batch_size():
    found = a_bench(
        timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5), timed(FLOAT32, 64, 4), timed(GRAPHMP, 64, 2)
    )
    assert [found.speedup(each) and found.speedup(each).value for each in found.runs] == [
        None,
        pytest.approx(1.5),
        None,
        pytest.approx(0.5),
    ]
    assert found.batch_sizes == [32, 64]


@pytest.mark.unit
def test_causes_only_where_it_is_hardly_faster():
    slow = FAST._replace(casts=0.004)
    found = a_bench(
        timed(FLOAT32, 32),
        timed(GRAPHMP, 32, 1.5, slow),
        timed(FLOAT32, 64),
        timed(GRAPHMP, 64, 1.1, slow),
    )
    assert found.causes(32) is None and [cause.kind for cause in found.causes(64)] == [
        KERNELS,
        CASTS,
    ]
    assert (
        text.cause_lines(found, 64)[1]
        == " 40%  casts: casts take 4 ms more than in float32, of 10 ms in kernels"
    )
    assert text.cause_lines(found, 32) == []


@pytest.mark.unit
def test_waiting_for_input_is_a_cause():
    runs = timed(FLOAT32, 32), timed(GRAPHMP, 32)
    given = a_bench(*runs, input=Input(seconds_a_batch=1.0)).causes(32)
    assert given[0].kind == INPUT and given[0].share > 0.9
    own = a_bench(*runs, input=Input(waiting=0.5)).causes(32)
    assert own[0].kind == KERNELS and (own[1].kind, own[1].share) == (INPUT, pytest.approx(0.5))


@pytest.mark.unit
def test_remarks_say_where_no_difference_is_shown():
    found = a_bench(
        timed(FLOAT32, 32),
        timed(GRAPHMP, 32, 1.5),
        timed(FLOAT32, 64),
        timed(GRAPHMP, 64),
        notes=["a note"],
    )
    assert found.remarks == [
        "a note",
        (
            "batch size 64: the interval includes 1, so no difference is shown; more --rounds or"
            " --steps narrow it"
        ),
    ]
    single = a_bench(timed(FLOAT32, 32, rounds=ROUNDS[:1]), timed(GRAPHMP, 32, rounds=ROUNDS[:1]))
    assert single.remarks == [
        "batch size 32: a single round says nothing of the noise; take more --rounds"
    ]


@pytest.mark.unit
def test_json_has_what_its_docstring_says():
    found = json.loads(
        a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32), OUT, timed(GRAPHMP, 64)).to_json("go on")
    )
    assert set(found) == {
        "accumulation", "batch_sizes", "causes", "compute_dtype", "data", "device", "environment", "fixed", "flags", "input", "memory_limit", "next",
        "notes", "only_converted", "rounds", "runs", "schema", "seconds", "seed", "source", "steps", "tensorflow", "variants", "warmup",
    }  # fmt: skip
    assert (found["schema"], found["next"], found["only_converted"], found["batch_sizes"]) == (
        "graphmp.bench/1",
        "go on",
        [64],
        [32, 64],
    )
    first, second, third, _ = found["runs"]
    assert set(first) == {
        "apart", "batch_size", "examples_per_second", "kernels", "message", "milliseconds", "ops", "peak_bytes", "peak_rss_bytes", "peak_source", "rounds",
        "speedup", "status", "variant",
    }  # fmt: skip
    assert set(first["milliseconds"]) == {
        "step",
        "median",
        "first_quartile",
        "third_quartile",
        "least",
        "most",
    }
    step = float(stats.gmean([0.011, 0.02, 0.01]))
    assert first["milliseconds"]["median"] == pytest.approx(12.0) and first["milliseconds"][
        "step"
    ] == pytest.approx(1000 * step)
    assert first["examples_per_second"] == pytest.approx(32 / step)
    assert first["speedup"] is None and second["speedup"] == {
        "value": pytest.approx(1.0),
        "low": pytest.approx(1.0),
        "high": pytest.approx(1.0),
    }
    assert (third["status"], third["milliseconds"], third["rounds"]) == ("out of memory", None, [])
    assert found["causes"]["32"][0]["kind"] == KERNELS


WILD = [[0.001], [0.02], [0.001]]


SLOW, OTHER = FAST._replace(casts=0.005, products=0.001), FAST._replace(products=0.004)


@pytest.mark.unit
@pytest.mark.parametrize(
    "runs, changes, expected",
    [
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5)],
            {},
            "graphmp convert model.meta --compute_dtype=bfloat16",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, rounds=WILD)],
            {},
            "graphmp bench model.meta --rounds=12",
        ),
        ([OUT, timed(GRAPHMP, 64)], {}, "graphmp convert model.meta --compute_dtype=bfloat16"),
        ([OUT, BenchRun(GRAPHMP, 64, OUT_OF_MEMORY)], {}, "smaller --batch_sizes"),
        (
            [timed(FLOAT32, 32), BenchRun(GRAPHMP, 32, FAILED, "no kernel")],
            {},
            "graphmp audit model.meta --random_data",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32)],
            {},
            "graphmp bench model.meta --rounds=12, for intervals that tell more",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1)],
            {},
            "graphmp doctor says what this machine computes fast",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, FAST._replace(products=0.004))],
            {},
            "graphmp inspect model.meta",
        ),
        (
            [
                timed(FLOAT32, 32, parts=OTHER),
                timed(GRAPHMP, 32, 1.1, OTHER._replace(products=0.001)),
            ],
            {},
            "larger --batch_sizes, or: graphmp inspect model",
        ),
        (
            [
                timed(FLOAT32, 32, parts=OTHER),
                timed(GRAPHMP, 32, 1.1, OTHER._replace(products=0.001)),
            ],
            dict(fixed=True),
            "graphmp inspect model.meta",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, SLOW)],
            {},
            "graphmp inspect model.meta, which lists what keeps the casts",
        ),
        (
            [
                replace(timed(FLOAT32, 32), ops={"Relu": 0.0001}),
                replace(
                    timed(GRAPHMP, 32, 1.1, FAST._replace(products=0.004)), ops={"Relu": 0.005}
                ),
            ],
            {},
            "graphmp tune model.meta -o machine.costs, then --costs=machine.costs",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32)],
            dict(compute_dtype="float16"),
            "run this on a GPU of compute capability 7.0 or later, or: graphmp bench",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32)],
            dict(compute_dtype="float16", device=PLAIN_CPU),
            "run this on a GPU of compute capability 7.0 or later",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32, 0.9)],
            dict(input=Input(1.0)),
            "make the input faster, then run this again",
        ),
    ],
)
def test_what_to_do_next(runs, changes, expected):
    assert text.next_step(a_bench(*runs, **changes), True).startswith(expected)


@pytest.mark.unit
def test_a_python_file_is_converted_before_it_is_inspected():
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, SLOW), source="model.py")
    assert text.next_step(found, False).startswith(
        "graphmp convert model.py, and graphmp inspect its original.meta"
    )


@pytest.mark.parametrize("form, start", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures(form, start):
    pytest.importorskip("matplotlib")
    from graphmp.bench.render import plot

    found = a_bench(
        timed(FLOAT32, 32),
        timed(GRAPHMP, 32, 1.5),
        timed(TENSORFLOW, 32, 1.4),
        OUT,
        timed(GRAPHMP, 64),
        BenchRun(TENSORFLOW, 64, FAILED),
    )
    drawn = plot.render(found, form)
    assert drawn.startswith(start)
    if form == "svg":
        assert (
            drawn.decode().count("<!-- out of memory -->") == 3
            and "<!-- graphmp bfloat16 -->" in drawn.decode()
        )
