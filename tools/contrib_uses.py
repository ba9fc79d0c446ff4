"""The names of TensorFlow 1 that public code uses, and whether graphmp serves them.

    python tools/contrib_uses.py count FOLDER uses.json     a repository is a folder of FOLDER
    python tools/contrib_uses.py resolve uses.json          once on 1.15.5 and once on 2.21
    python tools/contrib_uses.py table uses.json            writes the table of docs/legacy.md

A use is a place in a file that reads a name of `tensorflow`: an attribute chain, a name bound by an
import or by an assignment, or the import itself. Aliases are followed. Counted are the uses of
`tf.contrib` and of other public names that 1.15.5 has and the other TensorFlow lacks without
graphmp; modules by themselves are not. Files that Python 3 can't parse are skipped. `resolve` looks
each name up; on TensorFlow 2 after `legacy.install()`, with the packages that are installed there.
A stand-in for a name that nothing serves counts as missing.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
import sys
import types
from typing import Any, Counter, Dict, List, NamedTuple, Optional, Set

if sys.version_info >= (3, 8):
    from importlib import metadata
else:
    import importlib_metadata as metadata

from parts.contrib_names import Names, parsed

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "legacy.md"
MARKS = ("<!-- table: uses -->\n", "<!-- end of table -->\n")
UNSERVED_ROWS = 40  # the most used names that aren't served, named in the page
WITH_CONTRIB = "1.15.5"
PACKAGES = ("tensorflow-estimator", "tf-keras", "tf-slim", "tensorboard")  # serve names
STAND_INS = ("graphmp.legacy.stand_ins", "graphmp.legacy.estimator.gone")
MODULE = "."  # ends the name of a module: reading one shows nothing about what is in it


class Row(NamedTuple):
    """One name: its uses, the repositories with one, and whether it is served."""

    name: str
    uses: int
    repositories: int
    served: bool


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=("count", "resolve", "table"))
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    {"count": count, "resolve": resolve, "table": table}[args.step](*args.paths)


def count(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Write the uses of each name, by repository."""
    found: Dict[str, Counter[str]] = {}
    files = skipped = 0
    for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
        uses: Counter[str] = collections.Counter()
        for path in sorted(repository.rglob("*.py")):
            tree = parsed(path.read_bytes())
            files, skipped = files + 1, skipped + (tree is None)
            if tree is not None:
                uses.update(Names(tree).uses())
        found[repository.name] = uses
        print("%-50s %d" % (repository.name, sum(uses.values())), file=sys.stderr)
    data = {"files": files, "skipped": skipped, "uses": found, "resolved": {}}
    output.write_text(json.dumps(data, indent=0, sort_keys=True))


def resolve(path: pathlib.Path) -> None:
    """Add, for the TensorFlow that runs this, the part of each name that exists.

    A name is cut after a function, class or value; that of a module ends in a dot. Null stands for
    a missing name.
    """
    # Both are imported here so that `count` and `table` need no TensorFlow.
    import tensorflow.compat.v1 as tf

    from graphmp import legacy

    data = json.loads(path.read_text())
    names = sorted({name for uses in data["uses"].values() for name in uses})
    entry: Dict[str, Any] = {"plain": {name: resolved(tf, name) for name in names}}
    legacy.install()
    entry["packages"] = _installed()
    entry["installed"] = {name: resolved(sys.modules["tensorflow"], name) for name in names}
    data["resolved"][tf.VERSION] = entry
    path.write_text(json.dumps(data, indent=0, sort_keys=True))


def resolved(module: Any, name: str) -> Optional[str]:
    """The name up to its first part that isn't a module, or None if a part is missing."""
    value, known = module, []
    for part in name.split("."):
        if not isinstance(value, types.ModuleType):
            break
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            return None
        if _is_stand_in(value):
            return None
        known.append(part)
    return ".".join(known) + (MODULE if isinstance(value, types.ModuleType) else "")


def _is_stand_in(value: Any) -> bool:
    """Whether this object, module or class only says that something is missing."""
    kind = value if isinstance(value, type) else type(value)
    return any(base.__module__ in STAND_INS for base in kind.__mro__)


def _installed() -> Dict[str, str]:
    """The versions of those packages of `PACKAGES` that are installed."""
    found = {
        distribution.metadata["Name"].lower().replace("_", "-"): distribution.version
        for distribution in metadata.distributions()
        if distribution.metadata["Name"]
    }
    return {name: found[name] for name in PACKAGES if name in found}


def rows(data: Dict[str, Any], version: str) -> List[Row]:
    """The counted names, the most used first."""
    old, new = data["resolved"][WITH_CONTRIB]["installed"], data["resolved"][version]
    uses: Counter[str] = collections.Counter()
    places: Dict[str, Set[str]] = collections.defaultdict(set)
    served: Dict[str, bool] = {}
    for repository, counted in data["uses"].items():
        for written, number in counted.items():
            name = old[written]
            is_contrib = written.startswith("contrib.")
            if not name or name.endswith(MODULE) or (new["plain"][written] and not is_contrib):
                continue
            uses[name] += number
            places[name].add(repository)
            served[name] = served.get(name, True) and bool(new["installed"][written])
    return [
        Row(name, uses[name], len(places[name]), served[name])
        for name, _ in sorted(uses.items(), key=lambda item: (-item[1], item[0]))
    ]


def table(path: pathlib.Path) -> None:
    """Write the table into the page."""
    data = json.loads(path.read_text())
    version = max(name for name in data["resolved"] if name != WITH_CONTRIB)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(
        before + MARKS[0] + "\n".join(page(data, version)) + "\n" + MARKS[1] + after,
        encoding="utf-8",
    )


def page(data: Dict[str, Any], version: str) -> List[str]:
    """The lines of the table: one a module, then the names that aren't served."""
    found = rows(data, version)
    total, good = sum(row.uses for row in found), sum(row.uses for row in found if row.served)
    lines = [
        "%d repositories, %d files (%d skipped): %d uses of %d names, of which %d"
        " (%.1f%%) are served on TensorFlow %s with %s."
        % (
            len(data["uses"]),
            data["files"],
            data["skipped"],
            total,
            len(found),
            good,
            100.0 * good / max(total, 1),
            version,
            _listed(data["resolved"][version]["packages"]),
        ),
        "",
        "| module | uses | served | names used most (uses) |",
        "|---|---:|---:|---|",
    ]
    modules: Dict[str, List[Row]] = collections.defaultdict(list)
    for row in found:
        modules[_module(row.name)].append(row)
    for module, members in sorted(
        modules.items(), key=lambda item: (-sum(row.uses for row in item[1]), item[0])
    ):
        uses = sum(row.uses for row in members)
        good = sum(row.uses for row in members if row.served)
        named = ", ".join("%s (%d)" % (_short(row, module), row.uses) for row in members[:8])
        lines.append("| `%s` | %d | %.1f%% | %s |" % (module, uses, 100.0 * good / uses, named))
    lines += ["", "Names without a successor, the most used first:", ""]
    lines += ["| name | uses | repositories |", "|---|---:|---:|"]
    missing = [row for row in found if not row.served]
    lines += [
        "| `tf.%s` | %d | %d |" % (row.name, row.uses, row.repositories)
        for row in missing[:UNSERVED_ROWS]
    ]
    rest = missing[UNSERVED_ROWS:]
    if rest:
        lines += ["", "and %d more with %d uses." % (len(rest), sum(row.uses for row in rest))]
    return lines


def _listed(packages: Dict[str, str]) -> str:
    return ", ".join("%s %s" % package for package in sorted(packages.items()))


def _module(name: str) -> str:
    if name.startswith("contrib."):
        return "tf." + ".".join(name.split(".")[:2])
    return "tf." + name.rpartition(".")[0] if "." in name else "tf"


def _short(row: Row, module: str) -> str:
    short = re.sub("^" + re.escape(module[3:]) + r"\.?", "", row.name) or module[3:]
    return "`%s`" % short


if __name__ == "__main__":
    sys.path.insert(0, str(PAGE.parent.parent))
    main()
