"""Python processes that a script starts: `graphmp run --children` prepares them too.

The environment leads them to `sitecustomize.py` in this folder, which Python imports at its start.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any, Dict

VARIABLE = "GRAPHMP_CHILDREN"  # sitecustomize.py has it too: it can't import this package
_FOLDER = str(pathlib.Path(__file__).resolve().parent)


def prepare(spec: Dict[str, Any]) -> None:
    """Set the environment that processes inherit from here on.

    Args:
        spec: what `graphmp run` was told; of the script itself nothing is used.
    """
    root = str(pathlib.Path(__file__).resolve().parents[3])
    os.environ[VARIABLE] = json.dumps({"prefix": sys.prefix, "root": root, "spec": spec})
    path = os.environ.get("PYTHONPATH")
    if _FOLDER not in (path or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_FOLDER, path]))


def spec_of_main(spec: Dict[str, Any]) -> Dict[str, Any]:
    """The spec of this process, whose main program is already running."""
    main = sys.modules["__main__"]
    found = getattr(main, "__spec__", None)
    module = found.name if found is not None else ""
    if module.endswith(".__main__"):
        module = module.rpartition(".")[0]
    path = "" if module else getattr(main, "__file__", "")
    return dict(
        spec,
        path=path,
        module=module,
        arguments=sys.argv[1:],
        name="-m " + module if module else path or "-c",
        notes=[],
        imported=list(sys.modules),
        report="%s_%d" % (spec["report"], os.getpid()) if spec["report"] else "",
    )
