#!/usr/bin/env python3
"""Time the review page of a large conversion: comparison, writing, and the page in a browser.

usage: time_page.py [--nodes 50000] [--keep FILE] [--json]

    python tools/time_page.py --nodes 50000
    python tools/time_page.py --nodes 5000 --keep diff.html

Builds a training graph of that many nodes with TensorFlow, converts it with `python -m graphmp
convert` in another process, compares the two and writes the page. Then opens the page in headless
Chromium (Debian's chromium and chromium-driver, and selenium) and measures:

- the time from the start of the navigation until the first rows are painted;
- the time from a key press, or a letter in the search box, until the resulting rows are painted,
  the slowest of several;
- the largest number of rows in the document at any time;
- the requests, to any address.

Exit status 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.compare.api import compare
from graphmp.compare.render import html
from graphmp.gate.reading import read_graph

# isort: split
import tensorflow.compat.v1 as tf
from parts import browser, training_graph
from parts.table import print_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEARCHES = ("conv", "matmul", "gradients kernel", "zzz", "a")
# Measurements, with their unit and budget.
BUDGETS = (
    ("page", "MB", 3),
    ("first rows", "ms", 1500),
    ("expand all", "ms", 150),
    ("search", "ms", 150),
    ("filter", "ms", 150),
    ("rows", "in the document", 199),
    ("requests", "", 0),
)
FIRST_ROWS = """
new MutationObserver((changes, observer) => {
  if (!document.querySelector('[role=treeitem]')) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.firstRows = performance.now(); }));
}).observe(document, {subtree: true, childList: true});
"""
TIMED = """
const done = arguments[arguments.length - 1];
const start = performance.now();
(() => { %s })();
requestAnimationFrame(() => setTimeout(() => done(
  [performance.now() - start, document.querySelectorAll('[role=treeitem]').length])));
"""
PRESS = (
    "document.getElementById('tree').dispatchEvent(new KeyboardEvent('keydown', {key: '%s', "
    "bubbles: true, cancelable: true}));"
)
SEARCH = (
    "const box = document.getElementById('search'); box.value = '%s'; box.dispatchEvent(new "
    "Event('input'));"
)
CHOOSE = "document.querySelectorAll('.choice')[%d].click();"


def main(argv: Optional[List[str]] = None) -> int:
    """Measure and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--nodes", type=int, default=50000, help="nodes of the original (default 50000)"
    )
    parser.add_argument(
        "--keep", type=pathlib.Path, metavar="FILE", help="file to keep the page in"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = args.keep or folder / "diff.html"
        row = write_page(args.nodes, folder, path)
        reason = browser.missing()
        if reason:
            print("no browser: %s" % reason, file=sys.stderr)
        else:
            row.update(browse(path, folder / "profile"))
    if args.json:
        print(json.dumps(row))
    else:
        show(row)
    return int(any(row.get(name, 0) > most for name, _, most in BUDGETS))


def write_page(nodes: int, folder: pathlib.Path, path: pathlib.Path) -> Dict[str, Any]:
    """Build, convert, compare and write the page. Return sizes and seconds."""
    training_graph.write(nodes, folder / "train.meta")
    command = [
        sys.executable,
        "-m",
        "graphmp",
        "convert",
        str(folder / "train.meta"),
        "-o",
        str(folder),
    ]
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    before, after = (read_graph(folder / name) for name in ("original.meta", "converted.meta"))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    gc.collect()
    start = time.perf_counter()
    diff = compare(before, after, report)
    compared = time.perf_counter()
    page = html.render(diff)
    end = time.perf_counter()
    path.write_text(page, encoding="utf-8")
    sizes = {
        "nodes before": len(before.graph_def.node),
        "nodes after": len(after.graph_def.node),
        "changes": len(diff.changes),
    }
    return dict(
        sizes, compare=compared - start, render=end - compared, page=path.stat().st_size / 1e6
    )


def browse(path: pathlib.Path, profile: pathlib.Path) -> Dict[str, Any]:
    """The measurements of the browser."""
    driver = browser.start(profile)
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FIRST_ROWS})
        firsts = [first_rows(driver, path) for _ in range(3)]
        expand = [timed(driver, PRESS % key) for key in "ecec"]
        scrolled = [
            timed(driver, "document.getElementById('tree').scrollTop = %d;" % (step * 100000))
            for step in range(5)
        ]
        searches = [timed(driver, SEARCH % query) for query in SEARCHES + ("",)]
        filters = [timed(driver, CHOOSE % index) for index in (1, 1, 2, 2)]
        rows = max(rows for _, rows in expand + scrolled + searches + filters)
        slowest = {"expand all": expand, "search": searches, "filter": filters}
        found = {name: max(ms for ms, _ in values) for name, values in slowest.items()}
        return dict(
            found,
            **{"first rows": max(firsts), "rows": rows, "requests": len(browser.requests(driver))},
        )
    finally:
        driver.quit()


def first_rows(driver: Any, path: pathlib.Path) -> float:
    """Milliseconds from the start of the navigation to the first rows."""
    browser.open_page(driver, path)
    return float(browser.wait_for(driver, "return window.firstRows"))


def timed(driver: Any, script: str) -> Any:
    """Milliseconds until the effect of a script is painted, and rows in the document."""
    return driver.execute_async_script(TIMED % script)


def show(row: Dict[str, Any]) -> None:
    """Print two tables: sizes and seconds in Python, then the measurements with a budget."""
    sizes = [format(row[name], ",") for name in ("nodes before", "nodes after", "changes")]
    print_table(
        ["nodes", "converted", "changes", "compare s", "render s"],
        [sizes + ["%.2f" % row[name] for name in ("compare", "render")]],
    )
    print_table(
        ["", "measured", "at most", "unit"],
        [
            [name, "%.4g" % row[name], str(most), unit]
            for name, unit, most in BUDGETS
            if name in row
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
