"""The documents.

Their commands parse and run, so does their code, outputs are what is printed, links lead somewhere,
the reference is up to date.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
import sys
import types
import xml.etree.ElementTree
from typing import List, NamedTuple, Tuple

import numpy as np
import pydot
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.main import COMMANDS, run_command
from graphmp.cli.parser import build_parser, split_script_arguments
from graphmp.conversion import builds
from graphmp.errors import CODES
from graphmp.gate.reading import read_graph
from graphmp.tuning import files as costs_files
from tests.support import commands
from tests.support.costed import of_nodes
from tests.support.forks import builds_in_forks
from tests.support.places import ROOT

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
NEWEST = tf.__version__ >= "2.21"  # whose output the documents show
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
OTHER_GRAPH = "<!-- output of another graph -->"
ELIDED = "..."
COMMENT = re.compile(r"\s{4,}.*| # .*")  # behind a command
FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z]\w*")
BATCH = 16


class Block(NamedTuple):
    """A code block.

    Attributes:
        language: what stands behind the fence; `sh` for indented blocks.
        text: what is in it.
        comment: the HTML comment in the line before, empty for none.
    """

    language: str
    text: str
    comment: str


def blocks(page) -> List[Block]:
    """The code blocks of a page, in order."""
    found, lines, number, before = [], page.read_text(encoding="utf-8").splitlines(), 0, ""
    while number < len(lines):
        line = lines[number]
        if line.startswith("```") or (line.startswith("    ") and not before):
            fenced = line.startswith("```")
            end = number + 1
            while end < len(lines) and (
                lines[end] != "```" if fenced else lines[end].startswith("    ")
            ):
                end += 1
            text = "\n".join(each if fenced else each[4:] for each in lines[number + fenced : end])
            found.append(
                Block(
                    line[3:] if fenced else "sh", text, before if before.startswith("<!--") else ""
                )
            )
            number, before = end + fenced, ""
            continue
        number, before = number + 1, line.strip()
    return found


def command_lines(page) -> List[str]:
    """The lines of its shell blocks, one for each command, without comments behind them."""
    lines = [
        line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()
    ]
    return [
        command.strip()
        for line in lines
        for command in re.split(r" && | \| ", COMMENT.sub("", line))
    ]


def arguments(line) -> List[str]:
    """The words of a command of graphmp's, what goes to a file left out."""
    return shlex.split(line.split(" > ")[0])[1:]


def parsed(line):
    """A command as the real parser has it; GMP001 where it refuses."""
    words = arguments(line)
    own = words if words[0] == "run" else split_script_arguments(words)[0]
    return build_parser(COMMANDS, "").parse_args(own)


def code(page) -> List[Block]:
    """Its Python blocks, but those that are marked as not to be run."""
    return [
        block
        for block in blocks(page)
        if block.language == "python" and not NOT_RUN.match(block.comment)
    ]


OWN_COMMANDS = sorted(
    {line for page in PAGES for line in command_lines(page) if line.startswith("graphmp ")}
)
# `run` and `bench` train in processes of their own (tests/session/test_run.py, tests/cli/bench/),
# and so does what a Python file is converted in.
RUN = [
    line
    for line in sorted(
        {
            line
            for page in PAGES
            if page.name != "flags.md"
            for line in command_lines(page)
            if line.startswith("graphmp ")
        }
    )
    if arguments(line)[0] in ("audit", "convert", "diff", "explain", "inspect")
    and ".py" not in line
]
EXPORT = code(DOCS / "distributed.md")[0].text


def net():
    """A small training graph: feeds, what initialises it, loss and train op."""
    x, y = tf.placeholder(tf.float32, [None, 8], "x"), tf.placeholder(tf.int32, [None], "y")
    logits = tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu, name="hidden"), 8, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(
        loss, tf.train.get_or_create_global_step()
    )
    random = np.random.RandomState(1)
    feed = {x: random.randn(BATCH, 8).astype(np.float32), y: random.randint(0, 8, BATCH)}
    return dict(feed=feed, loss=loss, train_op=train_op, init=tf.global_variables_initializer())


def given(graph):
    """What the documents' code takes as given.

    A training graph, in parts and as a whole, and its conversion.
    """
    names = dict(net(), graphmp=graphmp, tf=tf, graph=graph)
    meta_graph = tf.train.export_meta_graph(graph=graph)
    conversion = graphmp.convert(meta_graph)
    return dict(
        names,
        meta_graph=meta_graph,
        before=conversion.original,
        after=conversion.meta_graph,
        report=conversion.report,
    )


def execute(text, namespace, folder):
    """Runs a block of code in a folder, as a program without arguments.

    Modules that it imports from there are forgotten.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["block.py"])
        patch.setattr(sys, "path", list(sys.path))
        before = set(sys.modules)
        try:
            exec(compile(text, "block.py", "exec"), namespace)
        finally:
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(
                    ("examples", str(folder))
                ):
                    del sys.modules[name]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that the documents name, and what converting the first example
    printed.
    """
    folder = tmp_path_factory.mktemp("files")
    shutil.copytree(
        str(ROOT / "examples"),
        str(folder / "examples"),
        ignore=lambda path, names: [name for name in names if name[-3:] != ".py"],
    )
    with tf.Graph().as_default() as graph:
        parts = net()
        meta = tf.train.export_meta_graph(graph=graph)
        for name in ("model.meta", "model.ckpt-150000.meta"):
            (folder / name).write_bytes(meta.SerializeToString())
        measured = {"hidden/MatMul": (9e3, 4e3)}
        costs = of_nodes(meta, measured, 100.0, compute_dtype="bfloat16")
        (folder / "machine.costs").write_bytes(costs_files.dumps(costs))
        with tf.Session() as session:
            session.run(parts["init"])
            frozen = tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["logits/BiasAdd"]
            )
            (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
            builder = tf.saved_model.Builder(str(folder / "exported"))
            builder.add_meta_graph_and_variables(session, ["train"])
            builder.save()
            tf.train.Saver().save(session, str(folder / "float32" / "model.ckpt-1000"))
    np.savez(
        str(folder / "batches.npz"),
        **{
            tensor.op.name: np.tile(value, [4] + [1] * (value.ndim - 1))
            for tensor, value in parts["feed"].items()
        },
    )
    with tf.Graph().as_default():
        execute(EXPORT, {}, folder)
    return folder


@pytest.fixture(scope="module")
def first_output(files, forks, tmp_path_factory):
    """What the README's first command prints; its files become the folder `out`."""
    line = next(
        line for line in command_lines(README) if line.startswith("graphmp convert examples/")
    )
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.chdir(files)
        patch.setattr(
            builds, "subprocess", builds_in_forks(forks, tmp_path_factory.mktemp("builds"))
        )
        assert run_command(["graphmp", *arguments(line)]) == 0
    shutil.copytree(str(files / "examples" / "simple_cnn_graphmp"), str(files / "out"))
    return out.getvalue()


@pytest.fixture
def workplace(files, first_output, tmp_path, monkeypatch):
    """A working folder with copies of those files."""
    shutil.copytree(str(files), str(tmp_path / "work"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.unit
def test_there_are_pages_and_commands():
    assert {"README.md", "concepts.md", "distributed.md", "flags.md", "errors.md"} <= {
        page.name for page in PAGES
    }
    assert len(RUN) > 15 and len(OWN_COMMANDS) > len(RUN)


@pytest.mark.unit
@pytest.mark.parametrize("line", OWN_COMMANDS)
def test_a_command_parses(line):
    assert parsed(line).command == arguments(line)[0]


@pytest.mark.unit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_within_the_text_have_the_flags_that_they_name(page):
    for line in re.findall(r"`graphmp ([a-z]+\b[^`]*)`", page.read_text(encoding="utf-8")):
        own = split_script_arguments(line.split())[0]
        parser = build_parser(COMMANDS, "")._subparsers._group_actions[0].choices[own[0]]
        accepted = {
            *parser._option_string_actions,
            "--flagfile",
        }  # absl takes that before argparse sees it
        named = FLAG.findall(
            re.split(r" [\w./]+\.py\b", line)[0] if own[0] == "run" else " ".join(own)
        )
        assert set(named) <= accepted, line


@pytest.mark.unit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_other_commands_name_files_and_flags_that_are_there(page):
    for line in command_lines(page):
        if line.startswith("python ") and line.split()[1].startswith(("tools/", "examples/")):
            path = ROOT / line.split()[1]
            shared = [path.parent / "training.py"] if path.parent.name == "examples" else []
            sources = "".join(source.read_text(encoding="utf-8") for source in [path, *shared])
            options = [
                flag.lstrip("-")
                for flag in FLAG.findall(re.sub(r"--prefix=.*", "--prefix", line))
                if flag.startswith("--")
            ]
            assert all(re.search(r"\b%s\b" % option, sources) for option in options), line
        else:
            assert line.split()[0] in ("graphmp", "pip", "pytest"), line


@pytest.mark.parametrize("line", RUN)
def test_a_command_runs(line, workplace, capfd):
    status, out, err = commands.graphmp(capfd, *arguments(line))
    differs = line.startswith("graphmp diff") and "--check" not in line
    assert (status, "error" in err) == (1 if differs else 0, False), out + err
    assert out


def masked(text) -> List[str]:
    """The lines of an output without their numbers, and without what aligns columns."""
    return [
        " ".join(re.sub(r"\d[\d.,]*( [kMG]?B\b)?", "#", line).split())
        for line in text.splitlines()
        if line.strip()
    ]


def shown() -> List[Tuple[str, str]]:
    """The commands beneath which a page shows the output, and that."""
    found = []
    for page in PAGES:
        inside = blocks(page)
        for command, output in zip(inside, inside[1:]):
            if (
                command.language == "sh"
                and output.language == ""
                and output.comment != OTHER_GRAPH
                and page.name != "flags.md"
            ):
                found.append(
                    (COMMENT.sub("", command.text.splitlines()[-1]).split(" && ")[-1], output.text)
                )
    return found


@pytest.mark.skipif(not NEWEST, reason="the documents show the output on TensorFlow 2.21")
@pytest.mark.parametrize("line, output", shown(), ids=lambda text: text.splitlines()[0][:60])
def test_an_output_is_what_is_printed(line, output, workplace, first_output, capfd):
    printed = (
        first_output if "simple_cnn.py" in line else commands.graphmp(capfd, *arguments(line))[1]
    )
    wanted, lines = masked(output), masked(printed)
    if ELIDED not in wanted:
        assert lines == wanted
    for part in " \n".join(wanted).split(ELIDED):
        assert part.strip(" \n") in " \n".join(lines)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_code_runs(page, workplace, capfd):
    named = {
        name for block in code(page) for name in compile(block.text, page.name, "exec").co_names
    }
    with tf.Graph().as_default() as graph:
        namespace = given(graph) if "graphmp" in named else {}
        for block in code(page):
            execute(block.text, namespace, workplace)
        if "build_training_model" in namespace:
            with tf.Graph().as_default() as decorated:
                inputs, labels = (
                    tf.placeholder(tf.float32, [None, 8]),
                    tf.placeholder(tf.int32, [None]),
                )
                namespace["build_training_model"](inputs, labels, 8)
            assert {
                node.attr["T"].type for node in decorated.as_graph_def().node if node.op == "MatMul"
            } == {tf.float16.as_datatype_enum}


@pytest.mark.unit
def test_code_that_is_not_run_says_why():
    marked = [
        block
        for page in PAGES
        for block in blocks(page)
        if block.language == "python" and block.comment
    ]
    assert all(NOT_RUN.match(block.comment) for block in marked)


def anchors(page) -> List[str]:
    """What a link may name in a page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    ]


@pytest.mark.unit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = [
        link
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists() and ROOT in target.resolve().parents, link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.unit
def test_each_page_is_in_the_index():
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / "README.md").read_text(encoding="utf-8"))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= set(links)


@pytest.mark.unit
def test_the_drawings_are_small_pictures_that_a_page_shows():
    drawings, text = (
        sorted(DOCS.glob("*.svg")),
        "".join(page.read_text(encoding="utf-8") for page in PAGES),
    )
    assert [path.name for path in drawings] == [
        "exponents.svg",
        "paint.svg",
        "storage.svg",
        "unscale.svg",
    ]
    for path in drawings:
        assert (
            xml.etree.ElementTree.parse(str(path)).getroot().tag.endswith("svg")
            and "](%s)" % path.name in text
        )
    assert sum(path.stat().st_size for path in drawings) < 100000


@pytest.fixture
def tool(monkeypatch):
    """Imports a tool by name, as Python would from its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module


def test_the_drawing_of_the_forward_pass(workplace, tool):
    original, converted = (read_graph("out/%s.meta" % name) for name in ("original", "converted"))
    (drawn,) = pydot.graph_from_dot_data(
        tool("drawings").painted(types.SimpleNamespace(original=original, meta_graph=converted))
    )
    nodes = {node.get_name().strip('"'): node for node in drawn.get_nodes() if node.get("label")}
    matmul, loss = (
        nodes["hidden/MatMul"],
        nodes["sparse_softmax_cross_entropy_loss/xentropy/xentropy"],
    )
    assert (
        "allow" in matmul.get("label")
        and "float16" in matmul.get("label")
        and matmul.get("penwidth") == "2"
    )
    assert (
        "deny" in loss.get("label") and "float32" in loss.get("label") and not loss.get("penwidth")
    )
    edges = {
        (edge.get_source().strip('"'), edge.get_destination().strip('"'))
        for edge in drawn.get_edges()
    }
    assert ("hidden/MatMul", "hidden/BiasAdd") in edges and {
        name for edge in edges for name in edge
    } == set(nodes)


def test_the_drawing_of_exponents(tool):
    pytest.importorskip("matplotlib", reason="what draws it")
    counts = np.zeros(256, np.int64)
    counts[127 - 20] = 1
    assert b"times a loss scale of 1024" in tool("drawings").histogram(counts)


@pytest.mark.unit
def test_without_what_draws_nothing_is_drawn(tool, monkeypatch, tmp_path, capfd):
    drawings = tool("drawings")
    monkeypatch.setattr(drawings.shutil, "which", lambda name: None)
    assert drawings.main(["-o", str(tmp_path)]) == 2 and not list(tmp_path.iterdir())
    assert (
        capfd.readouterr().err
        == "drawings: Graphviz's dot (apt-get install graphviz) is not there\n"
    )


@pytest.mark.unit
def test_the_reference_is_up_to_date(tool, capfd):
    assert tool("reference").main(["--check"]) == 0, "run python tools/reference.py"
    assert capfd.readouterr().out == "the reference is up to date\n"


@pytest.mark.unit
def test_a_page_that_is_out_of_date_is_named_and_written_anew(tool, tmp_path, capfd):
    reference = tool("reference")
    (tmp_path / "flags.md").write_text("# Flags\n")
    assert reference.main(["--check", "-o", str(tmp_path)]) == 1
    assert capfd.readouterr().out == "stale: flags.md, errors.md; run python tools/reference.py\n"
    assert (tmp_path / "flags.md").read_text() == "# Flags\n" and not (
        tmp_path / "errors.md"
    ).exists()
    assert (
        reference.main(["-o", str(tmp_path)]) == 0
        and reference.main(["--check", "-o", str(tmp_path)]) == 0
    )


@pytest.mark.unit
def test_each_flag_is_in_the_reference(tool):
    reference = tool("reference")
    page = reference.flags_page()
    for name, command in COMMANDS.items():
        section = page[page.index("## graphmp %s\n" % name) :].split("\n## ")[0]
        written = [
            option for action in reference.actions(command) for option in action.option_strings
        ]
        assert written and all(
            "`%s" % option in section or ", %s" % option in section for option in written
        ), name
        assert ("It takes the [conversion flags]" in section) == hasattr(command, "FLAGS")
    conversion = page[page.index("## Conversion flags") : page.index("## graphmp audit")]
    assert all(
        "| `--%s" % name in conversion
        for name in COMMANDS["convert"].FLAGS
        if name not in ("flagfile", "undefok")
    )


@pytest.mark.unit
def test_each_code_is_in_the_reference_once(tool):
    page = tool("reference").errors_page()
    assert {code: page.count("| `%s` |" % code) for code in CODES} == dict.fromkeys(CODES, 1)
