"""Summary of runs: means, deviations, and intervals of paired differences, in rows or a table."""

import math

import numpy as np
import scipy.stats
from trainer import COLUMNS, FLOAT32, TASKS

CONFIDENCE = 0.95
HEADINGS = (
    "task",
    "",
    "runs",
    "mean ± deviation",
    "difference, 95% interval",
    "margin",
    "zero inside",
    "in margin",
    "skipped",
)


def interval(differences):
    """The mean of paired differences and its 95% interval by Student's t: (mean, low, high).

    NaN for fewer than two differences.
    """
    number = len(differences)
    mean = float(np.mean(differences)) if number else math.nan
    if number < 2:
        return mean, math.nan, math.nan
    half = (
        scipy.stats.t.ppf((1 + CONFIDENCE) / 2, number - 1)
        * np.std(differences, ddof=1)
        / math.sqrt(number)
    )
    return mean, mean - float(half), mean + float(half)


def summarise(runs, tasks):
    """A row for each task and column that has runs.

    Args:
        runs: dicts as in results.json.
        tasks: the measure and the margin by task name: {"measure": "accuracy", "margin": 1.5}.

    Returns:
        Dicts. `difference`, `low`, `high` and `margin` are percentage points for accuracy, and per
        cent of float32's mean for losses. None stands for a number that is not finite: a column
        with a run that diverged has no mean.
    """
    rows = []
    for task in TASKS:
        for column in COLUMNS:
            chosen = [run for run in runs if (run["task"], run["column"]) == (task, column)]
            if chosen:
                reference = [run for run in runs if (run["task"], run["column"]) == (task, FLOAT32)]
                rows.append(_row(chosen, reference, tasks[task]))
    return rows


def _row(runs, reference, task):
    values, others = _by_seed(runs), _by_seed(reference)
    numbers = list(values.values())
    row = {
        "task": runs[0]["task"],
        "column": runs[0]["column"],
        "measure": task["measure"],
        "runs": len(runs),
    }
    row.update(
        mean=_finite(np.mean(numbers)),
        deviation=_finite(np.std(numbers, ddof=1)) if len(numbers) > 1 else None,
    )
    row.update(skipped=sum(run["skipped"] for run in runs), steps=sum(run["steps"] for run in runs))
    if row["column"] == FLOAT32 or not others:
        return row
    is_loss = task["measure"] == "loss"
    unit = 100.0 / np.mean(list(others.values())) if is_loss else 1.0
    mean, low, high = interval(
        [(values[seed] - others[seed]) * unit for seed in sorted(values) if seed in others]
    )
    margin = task["margin"] * (100.0 if is_loss else 1.0)
    row.update(difference=_finite(mean), low=_finite(low), high=_finite(high), margin=margin)
    if len(numbers) > 1:
        row.update(
            contains_zero=bool(low <= 0 <= high), in_margin=bool(-margin <= low and high <= margin)
        )
    return row


def _by_seed(runs):
    return {run["seed"]: math.nan if run["value"] is None else run["value"] for run in runs}


def _finite(number):
    return float("%.6g" % number) if math.isfinite(number) else None


def table(rows):
    """The rows as an aligned Markdown table."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells)]
    lines = [HEADINGS, ["-" * width for width in widths], *cells]
    return [
        "| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths))
        for line in lines
    ]


def _cells(row):
    unit, forms = (
        (" points", ("%.2f", "%.2f")) if row["measure"] == "accuracy" else ("%", ("%#.4g", "%#.2g"))
    )
    found = "%s ± %s" % tuple(
        _text(row[key], form) for key, form in zip(("mean", "deviation"), forms)
    )
    name = "%s, %s" % (row["task"], row["measure"]) if row["column"] == FLOAT32 else ""
    skipped = "%d of %d" % (row["skipped"], row["steps"]) if row["skipped"] else ""
    if "margin" not in row:
        return [name, row["column"], str(row["runs"]), found, "", "", "", "", skipped]
    difference = "%s [%s, %s]%s" % (
        *(
            _text(row[key], "%+.2f").replace("-0.00", "+0.00")
            for key in ("difference", "low", "high")
        ),
        unit,
    )
    verdicts = [
        {True: "yes", False: "NO"}.get(row.get(key), "-") for key in ("contains_zero", "in_margin")
    ]
    return [
        name,
        row["column"],
        str(row["runs"]),
        found,
        difference,
        "± %g%s" % (row["margin"], unit),
        *verdicts,
        skipped,
    ]


def _text(number, form):
    return "-" if number is None else form % number
