"""Train five small models in float32, float16 and bfloat16, and compare the results.

    pip install '.[parity]'
    python examples/parity/run.py --smoke
    python examples/parity/run.py
    python examples/parity/run.py --markdown

The runs of a model start from the same initial values and use the same batches. Each run is written
to results.json when it is done; runs already there with the same settings are skipped.
"""

import argparse
import datetime
import math
import pathlib
import sys
import warnings

import graphmp  # noqa: F401  # before TensorFlow, which reads its settings on import
from graphmp.cli.terminal import progress

# isort: split
import records
import tensorflow.compat.v1 as tf
import trainer
from summary import summarise, table

RESULTS = pathlib.Path(__file__).resolve().parent / "results.json"
SEEDS = tuple(
    range(1, 11)
)  # 6 to 10 were added, for all tasks, after the runs of 1 to 5: see README.md
SMOKE_STEPS = 4


def parse_flags(arguments):
    """The parsed command line.

    --smoke is one seed and a few steps, with results written only if --results is given.
    """
    parser = argparse.ArgumentParser(
        description="Train small models in float32, float16 and bfloat16 and compare the results."
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one seed and a few steps, as a quick test"
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK",
        choices=trainer.TASKS,
        default=list(trainer.TASKS),
        help=", ".join(trainer.TASKS),
    )
    parser.add_argument(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        choices=list(trainer.COLUMNS),
        default=list(trainer.COLUMNS),
        help=", ".join(trainer.COLUMNS),
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, metavar="SEED", help="default 1 to 10; smoke 1"
    )
    parser.add_argument(
        "--arithmetic",
        choices=["auto", "native", "simulated"],
        default="auto",
        help="arithmetic of half precision; auto: native on a GPU, else simulated",
    )
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        help="the file of results (default results.json beside this program)",
    )
    parser.add_argument(
        "--markdown",
        action="store_true",
        help="train nothing, and print the table of the file of results",
    )
    flags = parser.parse_args(arguments)
    flags.seeds = flags.seeds or (SEEDS[:1] if flags.smoke else SEEDS)
    flags.results = flags.results or (None if flags.smoke else RESULTS)
    return flags


def wanted(flags):
    """The requested runs as (task, column, seed), with all columns of a seed together."""
    return [
        (name, column, seed)
        for name in flags.tasks
        for seed in flags.seeds
        for column in flags.columns
    ]


def run(flags, how, command):
    """Do the missing runs, and return all runs."""
    steps = {name: SMOKE_STEPS if flags.smoke else trainer.task(name).STEPS for name in flags.tasks}
    digests = {name: records.digest(name, how, steps[name]) for name in flags.tasks}
    runs = records.read(flags.results) if flags.results else []
    done = {(run["task"], run["column"], run["seed"], run["digest"]) for run in runs}
    missing = [key for key in wanted(flags) if (*key, digests[key[0]]) not in done]
    with progress(len(missing)) as begin:
        for name, column, seed in missing:
            begin("%s %s seed %d" % (name, column, seed))
            made = {
                "task": name,
                "column": column,
                "seed": seed,
                "steps": steps[name],
                "digest": digests[name],
            }
            made.update(trainer.train(name, column, seed, how, steps[name]))
            print(
                "%(task)-12s %(column)-16s seed %(seed)d  %(value)10.4f  %(seconds)5.1f s" % made,
                flush=True,
            )
            made.update(
                {
                    key: number if math.isfinite(number) else None
                    for key, number in made.items()
                    if isinstance(number, float)
                }
            )
            runs = [
                run
                for run in runs
                if (run["task"], run["column"], run["seed"]) != (name, column, seed)
            ] + [made]
            if flags.results:
                date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
                records.write(flags.results, records.document(runs, date, command, how))
    return runs


def main(arguments):
    """Train the missing runs, and print the table."""
    flags = parse_flags(arguments)
    if flags.markdown:
        print("\n".join(table(summarise(records.read(flags.results or RESULTS), records.tasks()))))
        return
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    warnings.filterwarnings("ignore", message="`tf[.].*is deprecated", category=UserWarning)
    how = trainer.arithmetic(flags.arithmetic)
    if how == "native":
        trainer.exact_float32()
    runs = run(flags, how, " ".join(["python examples/parity/run.py", *arguments]))
    print("half precision is %s" % how)
    print("\n".join(table(summarise(runs, records.tasks()))))


if __name__ == "__main__":
    main(sys.argv[1:])
