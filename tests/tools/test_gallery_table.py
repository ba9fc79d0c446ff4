"""The gallery's table matches examples/gallery.json and is complete; tools/gallery.py."""

from __future__ import annotations

import importlib
import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from tests.support.places import TOOLS

pytestmark = pytest.mark.unit

NEWEST = tf.__version__ > "2"
STEPS = "made\nstep    1  loss 4.0000\nstep    2  loss 0.5000\n3.2 images/s\n"
REFUSED = {"failed": "GMP012", "text": "a.py:3: mixes"}
REPORT = {
    "coverage": {"converted_ops": 2, "tensor_core_ops": 3},
    "graph": {"casts_inserted": 1, "repaired": 1},
}
BENCH = {
    "device": {"capability": "", "name": "CPU with AMX_BF16"},
    "runs": [
        {"variant": "float32", "status": "timed", "milliseconds": {"step": 3.0}, "speedup": None},
        {
            "variant": "graphmp",
            "status": "timed",
            "milliseconds": {"step": 2.0},
            "speedup": {"value": 1.5, "low": 1.25, "high": 1.75},
        },
    ],
}


@pytest.fixture
def gallery(monkeypatch):
    """The tool as a module."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("gallery")


@pytest.fixture
def table(gallery):
    return gallery.gallery_table


def row(program="b", tensorflow="2.21.0", seeds=None, **given):
    """A row as in the file of results."""
    whole = {"converted_ops": 9, "tensor_core_ops": 9, "casts": 4, "repaired": 0}
    seeds = {"1": {"loss": [2.0, 2.01]}, "2": {"loss": [4.0, 4.02]}} if seeds is None else seeds
    about = {"program": program, "tensorflow": tensorflow, "date": "2026-01-02", "cpu": "a CPU"}
    return dict(
        about,
        recipe=whole,
        rewrite=whole,
        run=whole,
        parity={"compute_dtype": "bfloat16", "share": 0.25, "seeds": seeds},
        speed={},
        **given,
    )


def cells(table, *rows):
    """The table's headings and, by program, its cells."""
    first, _, *others = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.table(rows)
    )
    return first, {name: rest for name, *rest in others}


def test_the_readmes_table_is_what_was_measured(gallery, table):
    text = (gallery.EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert table.replaced(text, gallery.read(gallery.RESULTS)) == text


def test_every_program_was_measured_on_both_tensorflows(gallery, table):
    measured = {
        (row["program"], version)
        for row in gallery.read(gallery.RESULTS)
        for version in table.VERSIONS
        if row["tensorflow"].startswith(version)
    }
    assert measured == {
        (name, version) for name in gallery.programs() for version in table.VERSIONS
    }


def test_what_is_the_same_on_both_is_said_once(table):
    headings, found = cells(
        table, row(), row(tensorflow="1.15.5", seeds={"1": {"loss": [1.0, 0.998]}})
    )
    assert headings == [
        "program",
        "recipe",
        "rewrite",
        "run",
        "TensorFlow 2.21",
        "1.15.5",
        "loss parity",
        "coverage",
        "casts",
        "CPU speed ratio",
    ]
    assert found == {
        "[b](b.py)": [
            "whole",
            "whole",
            "whole",
            "yes",
            "yes",
            "+0.50% (47.1%) / -0.20%",
            "9 of 9",
            "4",
            "-",
        ]
    }


def test_what_differs_is_given_for_both(table):
    part = {"converted_ops": 8, "tensor_core_ops": 9, "casts": 5, "repaired": 0}
    old = dict(row(tensorflow="1.15.5", seeds={}), recipe=REFUSED, rewrite=part, run=REFUSED)
    assert list(cells(table, row(), old)[1].values()) == [
        [
            "whole / GMP012",
            "whole / in part",
            "whole / GMP012",
            "yes",
            "no",
            "+0.50% (47.1%) / -",
            "9 of 9 / 8 of 9",
            "4 / 5",
            "-",
        ]
    ]


def test_a_program_measured_on_one_and_speeds(table):
    cpu = {"value": 1.256, "low": 1.1, "high": 1.4}
    headings, found = cells(
        table, dict(row("a"), speed={"cpu": cpu}), dict(row("b", "1.15.5"), rewrite=REFUSED)
    )
    assert headings[-1] == "CPU speed ratio"
    assert found["[a](a.py)"][3:] == [
        "yes",
        "-",
        "+0.50% (47.1%) / -",
        "9 of 9",
        "4",
        "1.26 [1.10, 1.40]",
    ]
    assert found["[b](b.py)"][1:] == [
        "GMP012",
        "whole",
        "-",
        "no",
        "- / +0.50% (47.1%)",
        "-",
        "-",
        "-",
    ]
    headings, found = cells(
        table, dict(row("a"), speed={"cpu": cpu, "gpu": dict(cpu, value=2.0)}), row("b")
    )
    assert headings[-2:] == ["CPU speed ratio", "GPU speed ratio"]
    assert found["[a](a.py)"][-1] == "2.00 [1.10, 1.40]" and found["[b](b.py)"][-1] == "-"


@pytest.mark.parametrize(
    "losses, said",
    [
        (
            {"d": [2.0, 2.02], "g": [4.0, 3.0]},
            "-25.00%",
        ),  # of several losses the one that differs most
        ({"loss": [-2.0, -1.0]}, "+50.00%"),
        ({"loss": [2.0, None]}, "not finite"),
        ({"loss": [1.0, 0.9999999]}, "+0.00%"),
    ],
)
def test_parity(table, losses, said):
    assert table.parity(row(seeds={"1": losses})) == said


def test_the_columns_are_aligned_and_the_notes_say_where_it_is_from(table):
    rows = [row(), row("a_long_name"), row(tensorflow="1.15.5")]
    assert len({len(line) for line in table.table(rows)}) == 1
    text = " ".join(table.notes(rows))
    assert (
        "TensorFlow 2.21.0: 2026-01-02, 2 seeds, a CPU; TensorFlow 1.15.5: 2026-01-02, 2 seeds, "
        "a CPU." in text
    )
    assert max(map(len, table.notes(rows))) <= 150


def test_the_command_writes_between_the_marks_alone(gallery, tmp_path, capsys):
    readme, results = tmp_path / "README.md", tmp_path / "gallery.json"
    gallery.write(results, [row()])
    readme.write_text("before\n<!-- gallery -->\nold\n<!-- end -->\nafter\n")
    arguments = ["table", "-o", str(results), "--readme", str(readme)]
    assert gallery.main(arguments) == 0
    text = readme.read_text()
    assert (
        text.startswith("before\n<!-- gallery -->\n| program ")
        and text.endswith("\n<!-- end -->\nafter\n")
        and "old" not in text
    )
    assert gallery.main(arguments) == 0 and readme.read_text() == text
    readme.write_text("no place")
    assert gallery.main(arguments) == 1 and readme.read_text() == "no place"
    assert (
        capsys.readouterr().err
        == "gallery: no place for the table: accepted is one line <!-- gallery --> and one line "
        "<!-- end --> behind it\n"
    )


@pytest.mark.parametrize(
    "argv, words",
    [
        (["measure", "nothing"], "found nothing, accepted are"),
        (["measure", "--seeds=one"], "argument --seeds: invalid numbers value: 'one'"),
        ([], "measure|table"),
    ],
)
def test_bad_usage(gallery, argv, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        gallery.main(argv)
    assert stopped.value.code == 2 and words in capsys.readouterr().err


@pytest.fixture
def commands(gallery, monkeypatch):
    """Simulated results of commands, in place of running them, and their command lines."""
    given = {
        "run": (
            0,
            STEPS,
            "graphmp: converted 9 nodes in 0.2 s: 8 of 9 matmuls and convolutions in bfloat16, "
            "15 casts; loss scale none\n",
        )
    }
    given.update(
        convert=(1, "", "graphmp: error GMP012: a.py:3: mixes\n"), bench=(0, json.dumps(BENCH), "")
    )
    given[""] = 0, STEPS.replace("0.5", "0.25"), ""
    seen = []

    def python(*arguments):
        seen.append(arguments)
        return given[arguments[2] if arguments[0] == "-m" else ""]

    monkeypatch.setattr(gallery, "python", python)
    return given, seen


def test_measured_programs_are_merged_and_not_measured_again(gallery, commands, tmp_path, capsys):
    seen = commands[1]
    results = tmp_path / "gallery.json"
    other = row("zzz", "0.1")
    gallery.write(results, [other])
    arguments = ["measure", "lstm", "-o", str(results), "--seeds=1,2", "--no_bench"]
    assert gallery.main(arguments) == 0
    found, kept = gallery.read(results)
    assert kept == other
    assert (found["program"], found["tensorflow"], found["recipe"]) == (
        "lstm",
        tf.__version__,
        REFUSED,
    ) and found["cpu"]
    assert found["command"] == "python tools/gallery.py " + " ".join(arguments)
    assert found["run"] == {"converted_ops": 8, "tensor_core_ops": 9, "casts": 15}
    assert found["parity"] == {
        "compute_dtype": gallery.COMPUTE_DTYPE,
        "share": 0.25,
        "seeds": {"1": {"loss": [0.25, 0.5]}, "2": {"loss": [0.25, 0.5]}},
    }
    assert (
        capsys.readouterr().out
        == "lstm  recipe GMP012  rewrite GMP012  run in part  loss +100.00% (0.0%)\n"
    )
    trainings = len(seen)
    assert trainings == 6 and gallery.main(arguments) == 0 and len(seen) == trainings
    assert gallery.main([*arguments, "--again"]) == 0 and len(seen) == 2 * trainings
    assert (
        gallery.main([*arguments[:-2], "--seeds=3"]) == 0
        and len(seen) == 3 * trainings - 2 + NEWEST
    )


@pytest.mark.skipif(
    not NEWEST, reason="1.15.5's CPU has no bfloat16 convolutions: nothing is timed"
)
def test_a_program_that_was_measured_is_only_timed(gallery, commands, tmp_path):
    given, seen = commands
    results = str(tmp_path / "gallery.json")
    assert gallery.main(["measure", "lstm", "-o", results, "--seeds=1", "--no_bench"]) == 0
    before = len(seen)
    assert (
        gallery.main(["measure", "lstm", "-o", results, "--seeds=1"]) == 0
        and len(seen) == before + 1
    )
    batch_size, flags = gallery.TIMED_LARGER["lstm"]
    assert seen[-1][3:5] == ("--compute_dtype=bfloat16", "--batch_sizes=%d" % batch_size) and seen[
        -1
    ][-4:] == tuple(flags.split())
    cpu = gallery.read(tmp_path / "gallery.json")[0]["speed"]["cpu"]
    assert cpu == dict(
        value=1.5,
        low=1.25,
        high=1.75,
        float32_ms=3.0,
        bfloat16_ms=2.0,
        device="CPU with AMX_BF16",
        batch_size=batch_size,
        flags=flags,
    )
    given["bench"] = (
        0,
        json.dumps({"device": BENCH["device"], "runs": [dict(BENCH["runs"][0], status="failed")]}),
        "",
    )
    assert gallery.speed("lstm") == {}
    given["bench"] = 0, json.dumps(dict(BENCH, device={"capability": "9.0", "name": "a GPU"})), ""
    assert set(gallery.speed("lstm")) == {"gpu"}


def test_a_program_that_does_not_train_in_float32_is_no_result(gallery, commands, tmp_path, capsys):
    commands[0][""] = 1, "", "Traceback\nValueError: no\n"
    assert gallery.main(["measure", "lstm", "-o", str(tmp_path / "gallery.json")]) == 1
    assert (
        capsys.readouterr().err == "gallery: lstm: in float32: ValueError: no\n"
        and not (tmp_path / "gallery.json").exists()
    )


def test_losses_that_are_not_finite_and_several_losses(gallery):
    steps = gallery.printed(
        "step    1  critic loss -1.5000  penalty nan\nnot a step 1  x 3\nstep  2  critic loss "
        "0.5000  penalty 2.0\n"
    )
    assert [sorted(step) for step in steps] == [["critic loss", "penalty"]] * 2
    assert gallery.compared(steps[:1], steps[:1]) == {
        "critic loss": [-1.5, -1.5],
        "penalty": [None, None],
    }
    assert gallery.compared(
        [{"loss": 9.0}, *[{"loss": float(n)} for n in range(7)]], [{"loss": 2.0}] * 8
    ) == {"loss": [5.5, 2.0]}
    assert gallery.compared(steps, steps) == {"critic loss": [0.5, 0.5], "penalty": [2.0, 2.0]}


@pytest.mark.parametrize("added", [0, 1])
def test_casts_are_counted_in_the_files(gallery, commands, tmp_path, added):
    def write(file, count):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [2])
            for _ in range(count):
                tf.cast(tf.cast(tf.cast(x, tf.int32), tf.float32), tf.bfloat16)
            (tmp_path / file).write_bytes(serialize(tf.train.export_meta_graph()))

    write("original.meta", 1)
    write("converted.meta", 1 + added)
    commands[0]["convert"] = 0, json.dumps(REPORT), ""
    if added:
        assert gallery.converted("lstm", "rewrite", tmp_path) == {
            "converted_ops": 2,
            "tensor_core_ops": 3,
            "casts": 1,
            "repaired": 1,
        }
        return
    with pytest.raises(
        gallery.Failed,
        match=r"lstm: converted.meta of the rewrite has 0 casts more, its report says 1",
    ):
        gallery.converted("lstm", "rewrite", tmp_path)
