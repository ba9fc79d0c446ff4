"""`graphmp audit` on given files."""

from __future__ import annotations

import json

from tests.support.commands import graphmp as command
from tests.support.planted import BATCH, WIDTH

STEPS = "--steps=2"


FUNCTIONS = """
import numpy as np

def generated():
    while True:
        yield {"x": np.ones((%d, %d), np.float32), "labels": np.zeros(%d, np.int32)}

def by_step(step):
    return next(generated())

def incomplete():
    return {"x": np.ones((%d, %d))}

def failing(step):
    raise ValueError("no data today")
""" % (BATCH, WIDTH, BATCH, BATCH, WIDTH)


def audited(capfd, *arguments, status=0):
    """The printed JSON."""
    found, out, err = command(capfd, "audit", *arguments, STEPS, "--json")
    assert found == status and err == "", err
    return json.loads(out)
