"""The tools: their measurements on small graphs, and their errors."""

import contextlib
import importlib
import io
import json
import re
import struct
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from graphmp.config import Config
from graphmp.doctor.installed import cpu_flags
from graphmp.graph.io.messages import serialize
from graphmp.policy.policy import Policy
from graphmp.report.facts import casts, coverage
from graphmp.rewrite import pipeline
from tests.support import chromium
from tests.support.places import ROOT

TOOLS = ROOT / "tools"
PICTURES = sorted((ROOT / "docs").glob("*.png"))
CONFIG = Config.make(loss_scale="none")
needs_peer = pytest.mark.skipif(
    tf.__version__ < "2",
    reason="TensorFlow's own pass can be called ahead of time on TensorFlow 2 only",
)

# The least of what TensorFlow's pass converts to bfloat16: nothing on a CPU without AVX512.
LEAST = int("avx512f" in (cpu_flags() or ()))


@pytest.fixture
def commands_here(tool, monkeypatch):
    """Run `python -m graphmp` of `time_page` and `time_rewrite` in this process.

    test_times_as_json starts a process.
    """

    def run(command, **_):
        with io.StringIO() as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(
            said
        ):
            return subprocess.CompletedProcess(
                command, run_command(["graphmp", *command[3:]]), said.getvalue()
            )

    here = types.SimpleNamespace(run=run, DEVNULL=None, PIPE=None, STDOUT=None)
    for name in ("time_page", "time_rewrite"):
        monkeypatch.setattr(tool(name), "subprocess", here)


def concatenated():
    """A concat of one half-precision tensor and two float32 ones, which float32 ops read.

    A flood fill makes it half.
    """
    with tf.Graph().as_default():
        x, w = tf.placeholder(tf.float32, [8, 8]), tf.placeholder(tf.float32, [8, 8])
        tf.reduce_sum(tf.concat([tf.matmul(x, w), tf.exp(x), tf.exp(w)], 0))
        return tf.train.export_meta_graph()


def calling():
    """Two matmuls in a function called by the graph."""

    @tf.function
    def twice(x, w):
        return tf.matmul(tf.matmul(x, w), w)

    with tf.Graph().as_default():
        twice(tf.placeholder(tf.float32, [8, 8]), tf.placeholder(tf.float32, [8, 8]))
        return tf.train.export_meta_graph()


@pytest.fixture(scope="module")
def train_meta(tmp_path_factory):
    """A training graph, as the content of its file."""
    path = tmp_path_factory.mktemp("train") / "train.meta"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        importlib.import_module("parts.training_graph").write(500, path)
    return path.read_bytes()


@pytest.fixture
def files(tmp_path, train_meta):
    """A training graph, and the graph on which cut and flood fill differ."""
    paths = [tmp_path / "train.meta", tmp_path / "concatenated.meta"]
    for path, content in zip(paths, (train_meta, serialize(concatenated()))):
        path.write_bytes(content)
    return [str(path) for path in paths]


@pytest.mark.unit
@needs_peer
@pytest.mark.parametrize("compute_dtype", ["float16", "bfloat16"])
def test_compare_measures_all_three(tool, files, capsys, compute_dtype):
    flags = ["--json", "--flood_fill", "--compute_dtype", compute_dtype]
    assert tool("compare_grappler").main(flags + files) == 0
    train, concat = map(json.loads, capsys.readouterr().out.splitlines())
    for name in ("ours", "flood", "peer"):
        found = train[name]
        least = LEAST if (name, compute_dtype) == ("peer", "bfloat16") else 1
        assert least <= found["half"] <= train["of"] and least <= found["casts"]
        assert least <= found["bytes_cast"] < found["bytes_moved"]
        assert found["seconds"] > 0
    assert train["ours"]["half"] == train["of"] == train["flood"]["half"]
    assert train["original"] == dict(train["original"], half=0, casts=0, bytes_cast=0)
    assert train["original"]["bytes_moved"] > 0
    kept = {name: train[name]["bytes_kept"] for name in ("original", "ours", "flood", "peer")}
    assert (
        0 < kept["ours"] <= kept["peer"] and kept["ours"] < kept["original"] and kept["flood"] > 0
    )
    assert (
        train["original"]["bytes_of_kept_variable_casts"]
        == 0
        < train["ours"]["bytes_of_kept_variable_casts"]
    )
    assert concat["nodes"] > concat["of"] == 1
    assert (
        concat["original"]["bytes_kept"]
        == concat["ours"]["bytes_kept"]
        == 0
        < concat["original"]["bytes_at_peak"]
    )
    assert concat["ours"]["casts"] < concat["flood"]["casts"]
    assert concat["ours"]["bytes_moved"] < concat["flood"]["bytes_moved"]


@pytest.mark.unit
@needs_peer
def test_compare_prints_a_table_its_sums_and_ratios(tool, files, capsys):
    assert tool("compare_grappler").main(files) == 0
    heading, train, concat, total, ratios = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["graph", "nodes", "half", "ours/peer"]
    assert (train.split()[0], concat.split()[0], total.split()[:3]) == (
        "train.meta",
        "concatenated.meta",
        ["sum", "of", "2"],
    )
    assert ratios.startswith("ours/peer: half 1.00, casts ")
    assert "; ours/float32: bytes moved " in ratios and ", bytes kept 0." in ratios.split("; ")[-1]


@pytest.mark.unit
@needs_peer
def test_one_bad_graph_does_not_hide_the_rest(tool, files, tmp_path, capsys):
    bad = tmp_path / "bad.meta"
    bad.write_bytes(b"no graph")
    assert tool("compare_grappler").main([str(bad), *files]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("sum of 2 ")
    assert lines[-2].startswith("bad.meta: GraphmpError: GMP008: ")


TRAINS = "import json, sys; print(json.dumps({'cosine': [0.5, 0.75], 'files': len(sys.argv)}))"
FAILS = "print('no JSON')"
NOT_A_NUMBER = "print('{\"cosine\": [NaN, NaN]}')"


@needs_peer
@pytest.mark.parametrize(
    "program, cosine",
    [(TRAINS, 0.75), (FAILS, None), (NOT_A_NUMBER, None), ("import time; time.sleep(60)", None)],
)
def test_rows_of_the_peer(tool, files, tmp_path, capsys, program, cosine):
    (tmp_path / "pair.py").write_text(program)
    flags = ["--train_pair=%s" % (tmp_path / "pair.py"), "--seconds=2"]
    assert (
        tool("peer_rows").main([*flags, files[0], str(tmp_path / "pair.py")]) == 1
    )  # the second is no graph
    captured = capsys.readouterr()
    (row,) = map(json.loads, captured.out.splitlines())
    assert (
        row.get("cosine") == cosine
        and row["file"] == "train.meta"
        and LEAST <= row["half"] <= row["of"]
    )
    assert row["casts"] >= LEAST and row["seconds"] > 0 and row["nodes"] > 20
    assert "peer_rows: " in captured.err and "GMP008" in captured.err


@pytest.mark.unit
@pytest.mark.skipif(tf.__version__ > "2", reason="TensorFlow 2 has what the tool needs")
def test_compare_says_that_it_needs_tensorflow_2(tool, capsys):
    assert tool("compare_grappler").main(["graph.meta"]) == 2
    assert (
        capsys.readouterr().err.splitlines(True)[
            -1
        ]  # threads of other tests may have written before
        == "compare_grappler: found TensorFlow %s; its own pass can be called ahead of time on "
        "TensorFlow 2\n" % tf.__version__
    )


@pytest.mark.unit
def test_the_cut_needs_fewer_casts_than_a_flood_fill(tool):
    graph, policy = concatenated(), Policy.default("float16")
    assert casts(pipeline.rewrite(graph, CONFIG, policy).meta_graph.graph_def) == 3
    assert (
        casts(
            pipeline.rewrite(
                graph, CONFIG, policy, solve=tool("parts.flood_fill").flooded
            ).meta_graph.graph_def
        )
        == 5
    )


@pytest.mark.unit
def test_a_flood_fill_reaches_into_functions(tool):
    graph, policy = calling(), Policy.default("float16")
    for converted in (
        pipeline.rewrite(graph, CONFIG, policy).meta_graph,
        pipeline.rewrite(graph, CONFIG, policy, solve=tool("parts.flood_fill").flooded).meta_graph,
    ):
        assert coverage(converted.graph_def) == {"tensor_core_ops": 2, "converted_ops": 2}
        assert casts(converted.graph_def) == 3


@pytest.mark.unit
def test_a_graph_of_the_size_that_is_asked_for(tool, tmp_path):
    nodes = tool("parts.training_graph").write(2000, tmp_path / "train.meta")
    assert abs(nodes - 2000) < 200


@pytest.mark.slow
def test_times(tool, capsys):
    assert tool("time_rewrite").main(["--nodes", "600,500", "--profile=verify"]) == 0
    heading, small, large, growth = capsys.readouterr().out.splitlines()[:4]
    assert small.endswith("ok") and large.endswith("ok")
    assert heading.startswith("nodes  read s  rewrite s")
    assert growth.startswith("growth, power of nodes from size to size: read ")


def test_times_as_json(tool, capsys):
    assert tool("time_rewrite").main(["--nodes", "500", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert all(row[name] > 0 for name in ("nodes", "read", "rewrite", "verify", "command"))
    assert "failure" not in row


@pytest.mark.unit
def test_what_a_scale_adds_to_a_step(tool, capsys):
    """By the times of rounds: the share of the step, and the larger of the two bounds."""
    time_scale, elements = tool("time_scale"), 250000
    rounds = {"none": [[0.1], [0.2]], "dynamic": [[0.11], [0.22]], "read": [[0.002], [0.002]]}
    row = time_scale.summary("a graph", 8, rounds, [elements, elements])
    assert row["megabytes"] == pytest.approx(2) and row["gradients"] == 2
    assert row["step"] == pytest.approx(0.02**0.5)
    assert row["added"] == pytest.approx([0.1 * row["step"]] * 3)
    assert row["bound"] == pytest.approx(0.004)
    time_scale.show([row])
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[-5:] == ["[14.142,", "14.142]", "10.0%", "2.000", "4.000"]


@pytest.mark.slow
def test_a_scale_is_timed_beside_none(tool, capsys):
    """The scale's ops are in the trace: a division and a sum for each gradient."""
    assert tool("time_scale").main(["nodes:200@4", "--rounds=2", "--trace", "--json"]) in (0, 1)
    row = json.loads(capsys.readouterr().out)
    added = {op: nodes for op, _, nodes in row["ops"]}
    assert added["RealDiv"] == added["Sum"] == row["gradients"] > 0
    assert row["step"] > 0 and row["read"] > 0 and row["batch"] == 4


@pytest.mark.slow
def test_memory_as_multiples_of_the_file(tool, capsys):
    assert tool("time_rewrite").main(["--nodes", "3000", "--memory", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    sizes = row["rewrite_memory"], row["command_memory"]  # neither is in all cases the larger one
    assert all(10 < size < 1000 for size in sizes)


def test_a_process_that_fails_has_no_peak(tool):
    with pytest.raises(subprocess.CalledProcessError):
        tool("peak_memory").above_imports(["-c", "raise SystemExit(3)"])


def test_a_command_that_fails_is_told_by_its_last_line(tool, commands_here, tmp_path):
    seconds, failure = tool("time_rewrite").command(tmp_path / "gone.meta", tmp_path / "out")
    assert seconds > 0
    assert failure.startswith("graphmp: error GMP003: gone.meta: ")


@pytest.mark.unit
def test_tables_on_a_terminal(tool, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    tool("parts.table").print_table(["name", "number"], [["[bold]x", "1"]])
    assert "[bold]x" in capsys.readouterr().out


@pytest.fixture
def needs_browser():
    """Skip the test without a browser."""
    if chromium.missing():
        pytest.skip(chromium.missing())


@pytest.fixture
def no_browser(tool, monkeypatch):
    monkeypatch.setattr(tool("parts.browser"), "missing", lambda: "selenium is not installed")


def test_a_page_is_timed_in_a_browser(tool, needs_browser, tmp_path, capsys):
    page = tmp_path / "diff.html"
    tool("time_page").main(["--nodes", "500", "--keep", str(page), "--json"])
    row = json.loads(capsys.readouterr().out)
    assert row["nodes after"] > row["nodes before"] > 400
    assert all(row[name] > 0 for name, _, _ in tool("time_page").BUDGETS if name != "requests")
    assert row["requests"] == 0
    assert page.stat().st_size == round(row["page"] * 1e6)


def test_a_page_is_timed_without_a_browser(tool, no_browser, commands_here, capsys):
    assert tool("time_page").main(["--nodes", "500"]) == 0
    out, err = capsys.readouterr()
    heading, sizes, budgets, page = out.splitlines()
    assert heading.split() == ["nodes", "converted", "changes", "compare", "s", "render", "s"]
    assert 400 < int(sizes.split()[0]) < int(sizes.split()[1].replace(",", ""))
    assert budgets.split() == ["measured", "at", "most", "unit"]
    assert page.split()[0] == "page"
    assert err.splitlines()[-1] == "no browser: selenium is not installed"


def test_a_page_over_its_budget_fails(tool, no_browser, monkeypatch):
    monkeypatch.setattr(tool("time_page"), "write_page", lambda *_: {"page": 0.5})
    assert tool("time_page").main(["--json"]) == 0
    monkeypatch.setattr(tool("time_page"), "BUDGETS", (("page", "MB", 0),))
    assert tool("time_page").main(["--json"]) == 1


@pytest.mark.unit
def test_screenshots_need_a_browser(tool, no_browser, tmp_path, capsys):
    assert tool("screenshots").main(["-o", str(tmp_path / "docs")]) == 2
    assert capsys.readouterr().err == "screenshots: selenium is not installed\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_screenshots(tool, needs_browser, tmp_path, capsys):
    assert tool("screenshots").main(["-o", str(tmp_path / "docs")]) == 0
    made = tmp_path / "docs"
    assert {path.name for path in made.iterdir()} == {path.name for path in PICTURES} | {
        "pictures.json"
    }
    for path in made.glob("*.png"):
        assert size_of(path) == tool("screenshots").SIZE
    shown = (made / "pictures.json").read_text(encoding="utf-8")
    assert shown == (ROOT / "docs" / "pictures.json").read_text(encoding="utf-8"), (
        "make them anew: python tools/screenshots.py"
    )
    assert len(capsys.readouterr().out.splitlines()) == len(PICTURES)


def test_what_a_command_writes_to_a_terminal(tool, tmp_path):
    screenshots = tool("screenshots")
    assert screenshots.on_a_terminal(["--version"], tmp_path).startswith("graphmp ")
    page = screenshots.terminal_page(
        "\x1b[1;36mchecks\x1b[0m\n  <b>&\n" + "x" * 500 + "\nlast" * 100
    )
    assert re.search('<span style="[^"]*font-weight: bold">checks</span>', page)
    assert "&lt;b&gt;&amp;" in page
    assert "x" * 151 + "…" in page
    assert page.count("\nlast") == screenshots.ROWS - 4


def test_a_picture_is_packed_without_loss(tool):
    pixels = np.random.RandomState(1).randint(0, 256, (5, 7, 3)).astype(np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        before = session.run(tf.image.encode_png(pixels))
        after = session.run(tf.image.decode_png(tool("screenshots").packed(before)))
    assert (after == pixels).all()


@pytest.mark.unit
def test_the_pictures_are_there_and_small(tool):
    assert [path.name for path in PICTURES] == [
        "diff-page-dark.png",
        "diff-page.png",
        "diff-terminal.png",
    ]
    assert sum(path.stat().st_size for path in PICTURES) < 600000
    page = (ROOT / "docs" / "reviewing.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in PICTURES:
        assert size_of(path) == tool("screenshots").SIZE
        assert "(docs/%s)" % path.name in readme or "(%s)" % path.name in page


def size_of(path):
    """Width and height of a PNG."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">2I", data[16:24])
