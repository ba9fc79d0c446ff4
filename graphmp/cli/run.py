"""`graphmp run`: an unmodified training script, in mixed precision."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import asdict
from typing import Any, Dict, List, Sequence

from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.misplaced import misplaced
from graphmp.config import Config
from graphmp.conversion.contents import FILES
from graphmp.conversion.source import LEGACY_IMPORTS
from graphmp.environment import prepare_training
from graphmp.errors import GraphmpError
from graphmp.files.kept import check_tune_file
from graphmp.files.outputs import check_folder

HELP = "run an unmodified training script in mixed precision"
EXAMPLE = """  graphmp run train.py --batch_size 64
  graphmp run --loss_scale=128 --clip_norm=5 --report=out train.py --data_dir=data
  graphmp run --compute_dtype=bfloat16 -m package.train --steps 1000
  graphmp run --tune --compute_dtype=bfloat16 train.py

graphmp's own flags precede the script; arguments after it are the script's. The script has the
same command line, folder, stdin, signals and exit status as with `python train.py`. Its graph is
converted at its first training step, in the running session. Exit status: the script's; 1 if the
graph can't be converted; 2 for bad usage."""
FLAGS = conversion_flags()
EVERYDAY = ("compute_dtype", "loss_scale", "clip_norm", "keep_float32", "report", "debug_overflow")
_PATHS = ("op_policy", "ranges", "costs")  # conversion flags that name files
_OWN = (
    *("children", "debug_overflow", "legacy_imports", "on_error", "report"),
    *("tune", "tune_file", "verify"),
)
ON_ERROR = ("stop", "float32")
# The process finds graphmp where this one did; the script's own folder comes first in its path.
_START = """import sys
sys.path.append(sys.argv[1])
from graphmp.conversion.quiet import quiet_stderr
with quiet_stderr():  # TensorFlow speaks while it is imported
    from graphmp.cli.launcher import start
start(sys.argv[2])"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    parser.add_argument(
        "-m",
        dest="module",
        metavar="MODULE",
        nargs=argparse.REMAINDER,
        help="run a module as `python -m MODULE` does",
    )
    parser.add_argument(
        "--report",
        metavar="DIR",
        default="",
        help="write the five files of `graphmp convert`, of the trained graph",
    )
    parser.add_argument(
        "--on_error",
        choices=ON_ERROR,
        default="stop",
        help="a graph that can't be converted: stop, or train it in float32",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help=(
            "prove the conversion at its first step, and run both graphs on that batch; say so in a"
            " line"
        ),
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help=(
            "train the first steps in float32 and in half precision by turns, time them, keep the"
            " faster"
        ),
    )
    parser.add_argument(
        "--tune_file",
        metavar="FILE",
        default="",
        help=(
            "tune, and keep what is measured there for the next run (default with --tune:"
            " graphmp.costs beside the checkpoints)"
        ),
    )
    parser.add_argument(
        "--debug_overflow",
        action="store_true",
        help="name the first op that is not finite in such a step",
    )
    parser.add_argument(
        "--legacy_imports",
        default="auto",
        choices=LEGACY_IMPORTS,
        help=(
            "make `import tensorflow` mean tensorflow.compat.v1, with tf.contrib (default: where"
            " the script needs it; strict: so, and a name of contrib that nothing serves stops at"
            " its import)"
        ),
    )
    parser.add_argument(
        "--children",
        action="store_true",
        help="prepare the Python processes that the script starts too, when they import TensorFlow",
    )
    parser.add_argument(
        "script",
        metavar="script.py [ARGS]",
        nargs=argparse.REMAINDER,
        help="the script and its own command line",
    )


def run(args: argparse.Namespace) -> int:
    """Become the script's process."""
    prepare_training()
    spec = _spec(args)
    command = [
        sys.executable,
        # as multiprocessing does
        *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
        "-c",
        _START,
        str(pathlib.Path(__file__).resolve().parent.parent.parent),
        json.dumps(spec),
    ]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def _from_here(options: Dict[str, Any], names: Sequence[str]) -> Dict[str, Any]:
    """Options with absolute paths: a script may change the working folder."""
    given = [name for name in names if options[name]]
    return dict(options, **{name: os.path.abspath(options[name]) for name in given})


def _spec(args: argparse.Namespace) -> Dict[str, Any]:
    module: List[str] = args.module or []
    script: List[str] = args.script[1:] if args.script[:1] == ["--"] else args.script
    if bool(module) == bool(script):
        raise GraphmpError(
            "GMP001", "graphmp run: name a script, or a module with -m; see `graphmp run --help`"
        )
    config = Config.make(**_from_here(options_of(FLAGS), _PATHS))
    own = _from_here(vars(args), ("report", "tune_file"))
    path = "" if module else script[0]
    if not module and not os.path.isfile(path):
        raise GraphmpError("GMP003", "%s: no such file; accepted is a Python script" % path)
    if args.report:
        read = [path, config.op_policy, config.ranges, config.costs]
        check_folder(pathlib.Path(args.report), FILES, read)
    if args.tune_file:
        check_tune_file("--tune_file", args.tune_file, config, [path])
    arguments = (module or script)[1:]
    unset = [
        *(name for name in FLAGS if not FLAGS[name].present),
        *_OWN,
    ]  # a flag given before the script and after it: the latter is the script's own
    return {
        "path": path,
        "notes": misplaced(path, arguments, unset, "before the script"),
        "module": module[0] if module else "",
        "arguments": arguments,
        "imported": [],
        "name": "-m " + module[0] if module else path,
        "config": asdict(config),
        "report": own["report"],
        "on_error": args.on_error,
        "tune": args.tune or bool(args.tune_file),
        "tune_file": own["tune_file"],
        "verify": args.verify,
        "debug_overflow": args.debug_overflow,
        "children": args.children,
        "legacy_imports": args.legacy_imports,
        "verbose": args.verbosity > 0,
    }
