"""The printed report of a run of many mutants, and its exit status."""

from __future__ import annotations

import collections
from typing import Callable, Collection, Counter, Dict, Iterable, List, Sequence

from parts.table import print_table

from mutants.expected import NO_HOLES, Expected
from mutants.outcomes import CAUGHT, ENOUGH, EQUIVALENT, MISSED, UNDECIDED, Outcome, share

NOT_PROVED = "the check doesn't hold for the conversion itself"
RAISES = "the check raises on the conversion itself"
BY_RECIPE = "the recipe made it, and the check doesn't hold for it"
TOOL_FAILED = "this tool failed"
_VERDICTS = (CAUGHT, MISSED, UNDECIDED, EQUIVALENT)


def report(
    outcomes: Sequence[Outcome],
    faults: Sequence[str],
    unfit: Dict[str, str],
    names: Sequence[str],
    expected: Expected = NO_HOLES,
    needed: Collection[str] = (),
) -> int:
    """Print tables by class and by kind of conversion, and the passed mutants. Return the status.

    Args:
        outcomes: of all mutants.
        faults: the classes.
        unfit: the unusable conversions, with the reason.
        names: all conversions.
        expected: the known holes.
        needed: conversions that must be usable.
    """
    counted = _counted(outcomes, lambda outcome: outcome.name)
    _tables("class", faults, counted, outcomes)
    for verdict in (MISSED, UNDECIDED):
        _lines(outcome for outcome in outcomes if outcome.verdict == verdict)
    raised = [outcome for outcome in outcomes if outcome.why.startswith("the check raised")]
    _lines(raised[:20])
    _print_used(unfit, names, "; the check raised on %d mutants" % len(raised))
    poor = [name for name in faults if share(counted[name]) < ENOUGH]
    known, new = (
        [name for name in poor if (name in expected.below) == below] for below in (True, False)
    )
    for names_, words in ((known, "below %d%%, as expected"), (new, "below %d%%")):
        if names_:
            print("%s: %s" % (words % (100 * ENOUGH), ", ".join(names_)))
    escaped = expected.escaped(outcomes)
    for outcome in escaped:
        print("was caught:", outcome)
    return int(bool(new or escaped) or _spoilt(unfit, needed))


def numbers(
    outcomes: Sequence[Outcome],
    faults: Sequence[str],
    unfit: Dict[str, str],
    names: Sequence[str],
) -> int:
    """Print counts by class, without its name, and by kind of conversion. Return the status."""
    masked = {name: "class %d" % number for number, name in enumerate(faults, 1)}
    counted = _counted(outcomes, lambda outcome: masked[outcome.name])
    _tables("class", list(masked.values()), counted, outcomes)
    total = _counted(outcomes, lambda outcome: "all")["all"]
    print(
        "caught %d of %d, %.2f%%"
        % (total[CAUGHT], len(outcomes) - total[EQUIVALENT], 100 * share(total))
    )
    _print_used(unfit, names)
    poor = [name for name in masked.values() if share(counted[name]) < ENOUGH]
    if poor:
        print("below %d%%: %s" % (100 * ENOUGH, ", ".join(poor)))
    return int(bool(poor) or _spoilt(unfit))


def _counted(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> Dict[str, Counter[str]]:
    counted: Dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        counted[key(outcome)][outcome.verdict] += 1
    return counted


def _tables(
    heading: str,
    names: Sequence[str],
    counted: Dict[str, Counter[str]],
    outcomes: Sequence[Outcome],
) -> None:
    """Print a table by class, and one by kind of conversion if there are several."""
    _table(heading, names, counted)
    kinds = _counted(outcomes, lambda outcome: outcome.subject.split("/")[0])
    if len(kinds) > 1:
        _table("conversions", sorted(kinds), kinds)


def _table(heading: str, names: Sequence[str], counted: Dict[str, Counter[str]]) -> None:
    total: Counter[str] = sum((counted[name] for name in names), collections.Counter())
    rows = [_row(name, counted[name]) for name in names] + [_row("all %d" % len(names), total)]
    print_table([heading, "planted", *_VERDICTS, "share"], rows)


def _row(name: str, counted: Counter[str]) -> List[str]:
    planted = sum(counted[verdict] for verdict in _VERDICTS)
    return [
        name,
        *map(str, (planted, *(counted[verdict] for verdict in _VERDICTS))),
        "%.2f%%" % (100 * share(counted)) if planted else "-",
    ]


def _lines(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        print(outcome)


def _print_used(unfit: Dict[str, str], names: Sequence[str], more: str = "") -> None:
    """Print how many conversions were used, and why others weren't."""
    recipe = sum(why == BY_RECIPE for why in unfit.values())
    text = "%d of %d conversions" % (len(names) - len(unfit), len(names))
    if recipe:
        text += (
            "; %d by the recipe are not proved, a mutant there would be caught for nothing" % recipe
        )
    print(text + more)
    for name, why in sorted(unfit.items()):
        print("not used: %s: %s" % (name, why))


def _spoilt(unfit: Dict[str, str], needed: Collection[str] = ()) -> bool:
    """Whether a needed conversion is unusable."""
    return any(
        name in needed or why.startswith((NOT_PROVED, RAISES, TOOL_FAILED))
        for name, why in unfit.items()
    )
