"""The rules of the source tree, checked by parsing every module.

Which room imports which, no circles, and nothing below cli/ prints.
"""

import ast
import functools

import pytest

from tests.support.places import ROOT

# Each room and the rooms that it may import; all may import BASE.
ROOMS = {
    "files": [],
    "policy": ["files"],
    "graph": ["files", "policy"],
    "tf_hooks": ["graph", "policy"],
    "gate": ["graph", "tf_hooks"],
    "verify": ["gate", "graph", "policy", "tf_hooks"],
    "compare": ["files", "gate", "graph", "policy", "tf_hooks", "verify"],
    "report": ["compare", "graph", "policy"],
    "loss_scale": ["graph", "tf_hooks"],
    "scaling": ["graph", "loss_scale", "policy", "tf_hooks"],
    "rewrite": ["files", "graph", "policy", "report", "scaling", "tf_hooks", "tuning"],
    "recipe": ["graph", "loss_scale", "policy", "report", "rewrite", "scaling", "tf_hooks"],
    "session": [
        "compare",
        "files",
        "graph",
        "loss_scale",
        "policy",
        "recipe",
        "report",
        "rewrite",
        "scaling",
        "tf_hooks",
        "tuning",
    ],
    "legacy": [],
    "conversion": [
        "compare",
        "files",
        "gate",
        "graph",
        "legacy",
        "policy",
        "recipe",
        "report",
        "rewrite",
        "session",
        "tf_hooks",
        "verify",
    ],
    "feeds": ["conversion", "files", "graph", "policy", "tf_hooks"],
    "inspect": ["compare", "feeds", "graph", "policy", "rewrite", "scaling", "session", "tf_hooks"],
    "audit": [
        "compare",
        "conversion",
        "feeds",
        "graph",
        "policy",
        "report",
        "rewrite",
        "session",
        "tf_hooks",
        "verify",
    ],
    "executed": [
        "audit",
        "conversion",
        "feeds",
        "graph",
        "policy",
        "report",
        "session",
        "tf_hooks",
        "verify",
    ],
    "doctor": [],
    "tuning": ["doctor", "files"],
    "bench": [
        "conversion",
        "doctor",
        "feeds",
        "files",
        "gate",
        "graph",
        "inspect",
        "policy",
        "recipe",
        "report",
        "rewrite",
        "scaling",
        "session",
        "tf_hooks",
        "tuning",
    ],
    "cli": [
        *(
            "audit",
            "bench",
            "compare",
            "conversion",
            "doctor",
            "executed",
            "files",
            "gate",
            "graph",
            "inspect",
            "legacy",
        ),
        *("policy", "report", "rewrite", "session", "tf_hooks", "verify"),
    ],
}
BASE = [
    "config",
    "errors",
    "environment",
    "glass",
    "naming",
    "once",
    "patterns",
    "process_memory",
    "time_limit",
    "timings",
    "version",
    "wording",
]
ENTRY_POINTS = ["graphmp", "graphmp.__main__"]
INSIDE_FUNCTIONS = {
    # (how the module's name begins, how the name of what it imports there begins): why not at the
    # top
    (
        "graphmp.cli.",
        "graphmp.",
    ): "so that --help and usage errors come at once, without the seconds of a TensorFlow import",
    ("graphmp.cli.doctor", "rich."): "so that it can say that rich is missing",
}
MODULES = sorted((ROOT / "graphmp").rglob("*.py"))


def module_name(path):
    """graphmp/cli/main.py is graphmp.cli.main; a package is named without its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module):
    """graphmp.graph.io.files is of the room `graph`.

    The modules of BASE and the entry points have none.
    """
    part = (module.split(".") + [""])[1]
    return "" if module in ENTRY_POINTS or part in BASE else part


def may_import(name, imported):
    """Whether the table has it that a module imports another."""
    if name in ENTRY_POINTS or room(name) == room(imported):
        return True
    return not room(imported) or room(imported) in ROOMS.get(room(name), ())


def imports(tree):
    """(node, what it imports by full name) for each import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, "%s%s.%s" % ("." * node.level, node.module or "", alias.name)


def inside_functions(tree):
    """Every node that stands in a function."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    return {
        inner for function in functions for inner in ast.walk(function) if inner is not function
    }


def problems(name, source):
    """What a module does that it shouldn't, a line each."""
    tree = ast.parse(source)
    found = list(import_problems(name, tree)) + list(call_problems(name, tree))
    if not ast.get_docstring(tree):
        found.append("has no docstring")
    return found


def import_problems(name, tree):
    """Imports that the table of rooms lacks, hide in functions, take everything, or name
    TensorFlow otherwise than all do.
    """
    local = inside_functions(tree)
    for node, imported in imports(tree):
        if imported.startswith("."):
            yield "imports %s: relative" % imported
        elif imported.startswith("graphmp.") and not may_import(name, imported):
            yield "imports %s: not in the table" % imported
        elif imported.split(".")[0] == "tensorflow" and [
            (alias.name, alias.asname) for alias in node.names
        ] != [("tensorflow.compat.v1", "tf")]:
            yield "imports %s: TensorFlow is `import tensorflow.compat.v1 as tf`" % imported
        if imported.endswith(".*"):
            yield "imports %s: everything" % imported
        if node in local and not may_hide(name, imported):
            yield "imports %s: inside a function" % imported


def may_hide(name, imported):
    """Whether the list says why this import stands inside a function."""
    return any(
        name.startswith(module) and imported.startswith(what) for module, what in INSIDE_FUNCTIONS
    )


def call_problems(name, tree):
    """Printing below cli/, and the environment outside cli/ and environment.py."""
    if name.startswith("graphmp.cli"):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield "prints"
        if name != "graphmp.environment" and names_the_environment(node):
            yield "reads the environment"


def names_the_environment(node):
    """os.environ, os.getenv and the like, and `from os import environ`."""
    names = ("environ", "environb", "getenv", "putenv", "unsetenv")
    if isinstance(node, ast.Attribute):
        return node.attr in names and isinstance(node.value, ast.Name) and node.value.id == "os"
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and any(alias.name in names for alias in node.names)
    )


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_the_rules_hold(path):
    assert problems(module_name(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.unit
@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.name not in ("__init__.py", "__main__.py", "version.py")],
    ids=module_name,
)
def test_annotations_are_not_evaluated(path):
    assert "\nfrom __future__ import annotations\n" in path.read_text(encoding="utf-8")


@pytest.mark.unit
def test_every_folder_is_a_room():
    folders = {path.parent.name for path in (ROOT / "graphmp").glob("*/__init__.py")}
    files = {path.stem for path in (ROOT / "graphmp").glob("*.py")} - {"__init__", "__main__"}
    assert folders == set(ROOMS)
    assert files == set(BASE)


@pytest.mark.unit
def test_the_table_has_no_line_too_many():
    used = {
        (room(name), room(found)) for name, below in imported_modules().items() for found in below
    }
    assert [(one, other) for one in ROOMS for other in ROOMS[one] if (one, other) not in used] == []


@pytest.mark.unit
def test_nothing_imports_in_a_circle():
    assert circles({one: set(others) for one, others in ROOMS.items()}) == []
    assert circles(imported_modules()) == []


@functools.lru_cache(maxsize=None)
def imported_modules():
    """For each module those that it imports, for type checking too."""
    names = {module_name(path): path for path in MODULES}
    found = {}
    for name, path in names.items():
        below = {imported for _, imported in imports(ast.parse(path.read_text(encoding="utf-8")))}
        found[name] = {one if one in names else one.rpartition(".")[0] for one in below} & set(
            names
        )
    return found


def circles(graph):
    """What can't be put in an order in which each comes after all that it imports."""
    left = {name: set(below) for name, below in graph.items()}
    while True:
        free = [name for name, below in left.items() if not below & set(left)]
        if not free:
            return sorted(left)
        for name in free:
            del left[name]


@pytest.mark.unit
def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


DOCSTRING = '"""Says what."""\n'


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, source, problem",
    [
        (
            "graphmp.compare.render.text",
            "from graphmp.cli import main",
            "imports graphmp.cli.main: not in the table",
        ),
        (
            "graphmp.graph.structure.view",
            "import graphmp.tf_hooks.patch",
            "imports graphmp.tf_hooks.patch: not in the table",
        ),
        (
            "graphmp.config",
            "from graphmp.graph import view",
            "imports graphmp.graph.view: not in the table",
        ),
        ("graphmp.recipe.plan", "from . import state", "imports ..state: relative"),
        (
            "graphmp.recipe.plan",
            "def f():\n    from graphmp import config",
            "imports graphmp.config: inside a function",
        ),
        ("graphmp.cli.diff", "def f():\n    import json", "imports json: inside a function"),
        ("graphmp.recipe.plan", "from numpy import *", "imports numpy.*: everything"),
        (
            "graphmp.recipe.plan",
            "import tensorflow as tf",
            "imports tensorflow: TensorFlow is `import tensorflow.compat.v1 as tf`",
        ),
        (
            "graphmp.recipe.plan",
            "from tensorflow import nn",
            "imports tensorflow.nn: TensorFlow is `import tensorflow.compat.v1 as tf`",
        ),
        (
            "graphmp.recipe.plan",
            "import tensorflow.compat.v1",
            "imports tensorflow.compat.v1: TensorFlow is `import tensorflow.compat.v1 as tf`",
        ),
        ("graphmp.recipe.plan", "print(1)", "prints"),
        ("graphmp.recipe.plan", "import os\nos.environ['A']", "reads the environment"),
        ("graphmp.recipe.plan", "from os import getenv", "reads the environment"),
    ],
)
def test_a_breach_is_found(name, source, problem):
    assert problems(name, DOCSTRING + source) == [problem]


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, source",
    [
        (
            "graphmp.cli.diff",
            (
                "import graphmp.cli.parser\ndef run():\n    from graphmp.compare import model\n   "
                " print(model)"
            ),
        ),
        ("graphmp.environment", "import os\nos.environ['A'] = '1'"),
        (
            "graphmp.recipe.plan",
            (
                "import tensorflow.compat.v1 as tf\nfrom graphmp.recipe import state\nfrom"
                " graphmp.graph.structure.view import GraphView"
            ),
        ),
    ],
)
def test_what_is_allowed(name, source):
    assert problems(name, DOCSTRING + source) == []


@pytest.mark.unit
def test_a_missing_docstring_is_found():
    assert problems("graphmp.config", "x = 1") == ["has no docstring"]


def test_no_test_imports_from_another():
    """Shared helpers lie in tests/support."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                last = (node.module or "").split(".")[-1]
                assert not last.startswith("test_"), (path.name, node.module)
