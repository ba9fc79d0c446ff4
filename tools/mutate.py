#!/usr/bin/env python3
"""Plant faults in converted graphs, and measure the share of each class that a check catches.

usage: mutate.py [--count=N] [--seed=S] [--subjects=NAME,...] [--classes=NAME,...] [--held_out]
                 [--run] [--jobs=N] [--check=MODULE:FUNCTION] [--folder=FOLDER]
                 [--expected=FILE [--write_expected]] [--numbers]
                 [--only=SUBJECT:CLASS:NUMBER] [--list]

    python tools/mutate.py --count=2000 --subjects='shape/*' --jobs=2
    python tools/mutate.py --count=20000 --run --folder=/tmp/conversions
    python tools/mutate.py --only=shape/plain/clip:gate_swapped:3 --run

A check is a function of the original and the converted MetaGraphDef. It returns whether the
conversion is correct, as a boolean or as an object with the attribute `ok`; the default is
`graphmp.verify`. A mutant accepted by the check is, in this order:

    equivalent   if a rule of tools/mutants/equivalence.py says so; it isn't counted
    missed       if an ordering is lost that nothing implies, or, with --run, if running both graphs
                 shows a difference
    undecided    otherwise; it counts as missed

The share caught is that of the mutants that aren't equivalent. A conversion that the check doesn't
prove is left out, since every mutant of it would count as caught; such conversions are listed
separately if the recipe made them. --expected names a file with the classes known to have holes,
and the mutants of these that are caught (tools/mutants/expected.py); --write_expected updates the
latter. --numbers prints the counts by class and by kind of conversion, but no fault and no name of
a class, for results of the held-out classes. GRAPHMP_CORPUS names the folder of recorded graphs.

Exit status: 0; 1 if the share of a class without known holes is below 99%, if a mutant passes that
was caught before, if the check fails on a conversion of the rewrite, or if a conversion named
without a pattern is unusable; 2 for bad usage.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.conversion.quiet import quiet_stderr

# isort: split
import tensorflow.compat.v1 as tf
from mutants import classes, equivalence, executed, expected, subjects
from mutants.outcomes import CAUGHT, EQUIVALENT, MISSED, UNDECIDED, Outcome
from mutants.plant import Mutant
from mutants.report import BY_RECIPE, NOT_PROVED, RAISES, TOOL_FAILED, numbers, report
from mutants.subject import Subject

_TRIES = 3  # numbers tried per mutant wanted

Check = Callable[[Any, Any], bool]


class Task(NamedTuple):
    """Mutants of one subject for one process: some numbers of each class.

    Faults in `known` are left out.
    """

    subject: str
    classes: Tuple[str, ...]
    first: int
    wanted: int
    known: Dict[str, Set[str]]


class Settings(NamedTuple):
    """The settings shared by all tasks."""

    check: Check
    folder: pathlib.Path
    seed: str
    run: bool


class Answer(NamedTuple):
    """The result of a task: outcomes, the reason that the subject is unusable, and seconds."""

    task: Task
    outcomes: List[Outcome]
    unfit: str
    seconds: float


def named_check(text: str) -> Check:
    """The check named by MODULE:FUNCTION."""
    module, _, function = text.partition(":")
    found = getattr(importlib.import_module(module), function)

    def check(original: Any, converted: Any) -> bool:
        proof = found(original, converted)
        return bool(getattr(proof, "ok", proof))

    return check


def judged(
    subject: Subject, mutant: Mutant, number: int, settings: Settings, comparison: Callable[[], Any]
) -> Outcome:
    """The outcome of a mutant."""

    def outcome(verdict: str, why: str = "") -> Outcome:
        return Outcome(subject.name, mutant.name, number, mutant.what, verdict, why)

    try:
        passes = settings.check(subject.original, mutant.graph)
    except Exception as error:  # a conversion that isn't proved is caught; the report counts these
        return outcome(CAUGHT, "the check raised %s: %s" % (type(error).__name__, str(error)[:100]))
    if not passes:
        return outcome(CAUGHT)
    rule = equivalence.rule(subject, mutant.graph)
    if rule:
        return outcome(EQUIVALENT, rule)
    if equivalence.loses_order_alone(subject, mutant.graph):
        return outcome(MISSED, "an order is lost")
    if not settings.run:
        return outcome(UNDECIDED, "not run")
    found, why = _difference(comparison, mutant)
    return outcome(MISSED if found else UNDECIDED, why)


def _difference(comparison: Callable[[], Any], mutant: Mutant) -> Tuple[bool, str]:
    try:
        difference = comparison().difference(mutant.graph)
    except executed.NotRun as error:
        return False, "the unmutated graph doesn't run: %s" % error
    return bool(difference), difference or "no difference seen"


def planted(subject: Subject, name: str, task: Task, seed: str) -> Iterator[Tuple[int, Mutant]]:
    """Up to the wanted number of mutants of a class, without duplicate faults."""
    seen = set(task.known.get(name, ()))
    found = 0
    for number in range(task.first, task.first + _TRIES * task.wanted):
        mutant = classes.planted(name, subject, "%s %d" % (seed, number))
        if mutant is None:
            return
        if mutant.what not in seen:
            seen.add(mutant.what)
            found += 1
            yield number, mutant
        if found == task.wanted:
            return


def done(
    task: Task, settings: Settings, note: Callable[[Outcome], None] = lambda outcome: None
) -> Answer:
    """Do a task.

    Calls `note` for each mutant first with the outcome in case the process dies, then with the real
    one.
    """
    start = time.time()
    try:
        subject = subjects.subject(task.subject, settings.folder)
    except subjects.Unfit as error:
        return Answer(task, [], str(error), time.time() - start)
    unfit = "" if task.first else _not_proved(subject, settings.check)
    if unfit:
        return Answer(task, [], unfit, time.time() - start)
    kept: List[Any] = []

    def comparison() -> Any:
        if not kept:
            try:
                kept.append(executed.Comparison(subject))
            except executed.NotRun as error:
                kept.append(error)
        if isinstance(kept[0], executed.NotRun):
            raise kept[0]
        return kept[0]

    found = []
    for name in task.classes:
        for number, mutant in planted(subject, name, task, settings.seed):
            note(
                Outcome(
                    subject.name,
                    name,
                    number,
                    mutant.what,
                    MISSED,
                    "it ends the process that runs it",
                )
            )
            found.append(judged(subject, mutant, number, settings, comparison))
            note(found[-1])
    return Answer(task, found, "", time.time() - start)


def _not_proved(subject: Subject, check: Check) -> str:
    """Why every mutant of a subject would count as caught; empty if they wouldn't."""
    try:
        holds = check(subject.original, subject.converted)
    except Exception as error:
        return "%s: %s: %s" % (RAISES, type(error).__name__, error)
    return "" if holds else BY_RECIPE if subject.engine == "recipe" else NOT_PROVED


def _guarded(
    task: Task, settings: Settings, note: Callable[[Outcome], None] = lambda outcome: None
) -> Answer:
    try:
        return done(task, settings, note)
    except Exception:  # one unusable subject must not end a run of hours
        return Answer(
            task, [], "%s: %s" % (TOOL_FAILED, traceback.format_exc().strip().splitlines()[-1]), 0.0
        )


def _answer_into(pipe: Any, task: Task, settings: Settings) -> None:
    pipe.send(_guarded(task, settings, pipe.send))
    pipe.close()


def answers(tasks: Sequence[Task], jobs: int, settings: Settings) -> Iterator[Answer]:
    """The results of tasks.

    With more than one job, each task runs in a fork: a mutant that crashes it ends only this task,
    whose other classes are continued in another.
    """
    if jobs == 1:
        yield from (_guarded(task, settings) for task in tasks)
        return
    context, waiting = multiprocessing.get_context("fork"), list(reversed(tasks))
    running: Dict[Any, Tuple[Any, Task, Dict[Any, Outcome]]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            task = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_answer_into, args=(theirs, task, settings))
            process.start()
            theirs.close()
            running[ours] = process, task, {}
        for pipe in multiprocessing.connection.wait(list(running)):
            process, task, noted = running[pipe]
            try:
                answer = pipe.recv()
            except EOFError:
                process.join()
                answer, rest = _ended(task, list(noted.values()), process.exitcode)
                waiting += rest
            if isinstance(answer, Outcome):
                noted[answer.name, answer.number] = answer
                continue
            del running[pipe]
            process.join()
            yield answer


def _ended(task: Task, noted: List[Outcome], status: int) -> Tuple[Answer, List[Task]]:
    """The result of a task whose process has died, and the rest of its work."""
    if not noted:
        return Answer(
            task, [], "%s: its process ended with status %s" % (TOOL_FAILED, status), 0.0
        ), []
    left = task.classes[task.classes.index(noted[-1].name) + 1 :]
    return Answer(task, noted, "", 0.0), [task._replace(classes=left)] if left else []


def measured(
    names: Sequence[str], faults: Sequence[str], count: int, jobs: int, settings: Settings
) -> Tuple[List[Outcome], Dict[str, str]]:
    """Plant at least `count` faults if the subjects have enough places.

    Returns:
        The outcomes, and the unusable subjects with the reason.
    """
    outcomes: List[Outcome] = []
    unfit: Dict[str, str] = {}
    open_classes = {name: tuple(faults) for name in names}
    known: Dict[str, Dict[str, Set[str]]] = {name: {} for name in names}
    first = 0
    while open_classes and len(outcomes) < count:
        wanted = max(1, -(-(count - len(outcomes)) // sum(map(len, open_classes.values()))))
        parts = [
            (name, part)
            for name, left in open_classes.items()
            for part in _parts(left, jobs, len(open_classes))
        ]
        tasks = [Task(name, part, first, wanted, known[name]) for name, part in parts]
        open_classes = {}
        for answer in answers(tasks, jobs, settings):
            outcomes += answer.outcomes
            if answer.unfit:
                unfit[answer.task.subject] = answer.unfit
            _note(answer, len(outcomes))
            full = tuple(
                name
                for name in answer.task.classes
                if sum(o.name == name for o in answer.outcomes) == wanted
            )
            if full:
                open_classes[answer.task.subject] = open_classes.get(answer.task.subject, ()) + full
            for outcome in answer.outcomes:
                known[outcome.subject].setdefault(outcome.name, set()).add(outcome.what)
        first += _TRIES * wanted
    return sorted(outcomes), unfit


def _parts(names: Tuple[str, ...], jobs: int, subject_count: int) -> List[Tuple[str, ...]]:
    """The classes in enough parts to keep all processes busy."""
    parts = max(1, -(-2 * jobs // subject_count)) if jobs > 1 else 1
    return [names[part::parts] for part in range(parts) if names[part::parts]]


def _note(answer: Answer, total: int) -> None:
    text = answer.unfit or "%d mutants" % len(answer.outcomes)
    print(
        "%6d  %s: %s, %.1f s" % (total, answer.task.subject, text, answer.seconds),
        file=sys.stderr,
        flush=True,
    )


def again(text: str, settings: Settings) -> int:
    """Make one mutant again and print its outcome. Return the exit status."""
    name, fault, number = text.rsplit(":", 2)
    subject = subjects.subject(name, settings.folder)
    mutant = classes.planted(fault, subject, "%s %s" % (settings.seed, number))
    if mutant is None:
        print("%s has no place for %s" % (name, fault))
        return 2
    outcome = judged(subject, mutant, int(number), settings, lambda: executed.Comparison(subject))
    print(outcome)
    return int(outcome.verdict in (MISSED, UNDECIDED))


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=int, default=20000, help="total number of mutants (default 20000)"
    )
    parser.add_argument("--seed", default="1", help="seed of the faults (default 1)")
    parser.add_argument(
        "--subjects",
        type=_listed,
        default=[],
        help="conversions, by names or patterns (default: all)",
    )
    parser.add_argument(
        "--classes",
        type=_listed,
        default=[],
        help="classes of faults (default: all that aren't held out)",
    )
    parser.add_argument(
        "--held_out",
        action="store_true",
        help="the classes that are kept out of the verifier's development",
    )
    parser.add_argument("--run", action="store_true", help="run the mutants that the check passes")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    parser.add_argument(
        "--check",
        default="graphmp.verify:verify",
        metavar="MODULE:FUNCTION",
        help="default graphmp.verify:verify",
    )
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        help="folder of the conversions (default: a temporary folder)",
    )
    parser.add_argument(
        "--expected",
        type=pathlib.Path,
        metavar="FILE",
        help="file of the classes with known holes and of their caught mutants",
    )
    parser.add_argument(
        "--write_expected", action="store_true", help="update the caught mutants in that file"
    )
    parser.add_argument(
        "--numbers",
        action="store_true",
        help="print counts alone: no fault, and no name of a class",
    )
    parser.add_argument(
        "--only",
        metavar="SUBJECT:CLASS:NUMBER",
        help="one mutant, as a line of the report names it",
    )
    parser.add_argument(
        "--list", action="store_true", help="print conversions and classes, and plant nothing"
    )
    args = parser.parse_args(argv)
    try:
        args.faults = classes.chosen(args.classes, args.held_out)
        args.hopes = expected.read(args.expected) if args.expected else expected.NO_HOLES
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if args.write_expected and not args.expected:
        parser.error("--write_expected needs --expected=FILE")
    return args


def _listed(text: str) -> List[str]:
    return [part for part in text.split(",") if part]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Plant faults and report. Return the exit status."""
    args = parse(argv)
    if tf.__version__ > "2":
        with quiet_stderr():
            tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    if args.list:
        print("\n".join([*subjects.chosen(args.subjects), *args.faults]))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        settings = Settings(
            named_check(args.check), args.folder or pathlib.Path(temporary), args.seed, args.run
        )
        if args.only:
            return again(args.only, settings)
        names = subjects.chosen(args.subjects)
        outcomes, unfit = measured(names, args.faults, args.count, args.jobs, settings)
    if args.write_expected:
        expected.write(args.expected, outcomes)
        return 0
    if args.numbers:
        return numbers(outcomes, args.faults, unfit, names)
    return report(outcomes, args.faults, unfit, names, args.hopes, set(args.subjects))


if __name__ == "__main__":
    sys.exit(main())
