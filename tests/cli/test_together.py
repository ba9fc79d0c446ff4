"""Options that would have no effect are refused, or warned of, not ignored."""

import pytest

import graphmp
from graphmp.cli.main import run_command
from graphmp.graph.io.messages import serialize
from tests.support.classifiers import training_graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a graph and its conversion."""
    found = tmp_path_factory.mktemp("graphs")
    original = training_graph()
    (found / "a.meta").write_bytes(serialize(original))
    (found / "b.meta").write_bytes(serialize(graphmp.convert(original).meta_graph))
    return found


@pytest.mark.unit
@pytest.mark.parametrize(
    "line, message",
    [
        ("diff a.meta b.meta --depth=3", "GMP002: --depth: accepted only with --format=dot"),
        ("diff a.meta b.meta --all --json", "GMP002: --all: accepted only with --format=text or"),
        ("verify a.meta b.meta --steps=9", "GMP002: --steps: accepted only with --data or --rand"),
        ("verify a.meta b.meta --data=d.npz --seed=1", "GMP002: --seed: accepted only with made-"),
        ("tune a.meta -o c --data=d.npz --seed=1", "GMP002: --seed: accepted only with made-up"),
        ("bench a.meta --json --format=markdown", "GMP002: --format: accepted only without --json"),
        ("bench a.meta --verify_tensor_cores --rounds=3", "GMP002: --rounds: accepted only witho"),
        ("inspect a.meta --policy --cost", "GMP002: --cost, --memory, --policy and --wire: acc"),
        ("explain GMP012 --tag=serve", "GMP002: --tag: accepted only with a graph"),
        ("explain GMP012 --clip_norm=1", "GMP002: --clip_norm: accepted only with a graph; a code"),
        ("convert a.meta --input x=float32[3]", "GMP002: --input: accepted only with a Python"),
        ("audit a.meta --random_data --arg n=1", "GMP002: --arg: accepted only with a Python"),
        ("convert a.meta -- --lr=1", "GMP001: -- --lr=1: what stands behind `--` is a Python"),
        ("inspect a.meta -- --lr=1", "GMP001: -- --lr=1: what stands behind `--` is a Python"),
    ],
)
def test_refused(folder, monkeypatch, capsys, line, message):
    monkeypatch.chdir(folder)
    assert run_command(["graphmp", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("graphmp: error " + message) and err.count("\n") == 1


@pytest.mark.unit
@pytest.mark.parametrize(
    "options, said",
    [
        ({"compute_dtype": "float32", "keep_float32": "dense"}, ["--keep_float32=dense"]),
        ({"compute_dtype": "float32", "costs": "gone.costs"}, ["--costs=gone.costs"]),
        ({"compute_dtype": "float32", "fetch": "dense"}, []),
        ({"allreduce_half": True}, ["--allreduce_half"]),
    ],
)
def test_warned_of(options, said):
    rows = graphmp.convert(training_graph(), **options).report["warnings"]
    found = [row["message"] for row in rows if row["code"] == "GMP121"]
    assert [text.split(" changes nothing: ")[0] for text in found] == said


@pytest.mark.unit
def test_a_check_shows_all_where_all_is_asked_for(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    shown = []
    for flags in ([], ["--all"]):
        run_command(["graphmp", "diff", "a.meta", "b.meta", "--check", *flags])
        shown.append(capsys.readouterr().out.count("\n"))
    assert shown[1] > shown[0] + 10
