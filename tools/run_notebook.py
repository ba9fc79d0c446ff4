#!/usr/bin/env python3
"""Run the notebook in examples/ from its first cell to its last, and save it with its outputs.

usage: run_notebook.py [NOTEBOOK]

    python tools/run_notebook.py

Needs ipykernel and nbclient. TensorFlow's startup messages on stderr and the times of the cells are
left out. Exit status 1 if a cell fails; then nothing is written.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Any, List, Optional

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples" / "review.ipynb"
SECONDS = 300  # per cell


def main(argv: Optional[List[str]] = None) -> int:
    """Run the notebook and write it. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", nargs="?", type=pathlib.Path, default=NOTEBOOK)
    args = parser.parse_args(argv)
    try:
        notebook = executed(args.notebook, args.notebook.parent)
    except CellExecutionError as error:
        print("run_notebook: %s" % error, file=sys.stderr)
        return 1
    nbformat.write(notebook, str(args.notebook))
    return 0


def executed(path: pathlib.Path, folder: pathlib.Path) -> Any:
    """The notebook with fresh outputs.

    It runs in `folder` with this Python and graphmp of this checkout.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(str(path), as_version=4)
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    )
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=environment)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    sys.exit(main())
