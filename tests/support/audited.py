"""Audits of graphs with planted faults."""

from __future__ import annotations

import functools

import graphmp
from graphmp.audit.repair.fix import Fixer
from graphmp.audit.run import audit
from graphmp.config import Config
from tests.support.planted import planted

STEPS, TOLERANCE = 2, 0.1


@functools.lru_cache(None)
def graph_of(fault):
    return planted(fault)


@functools.lru_cache(None)
def found(fault, data, **options):
    """The conversion of a planted model, and its audit."""
    conversion = graphmp.convert(graph_of(fault), **options)
    return conversion, audit(conversion, data, TOLERANCE)


@functools.lru_cache(None)
def repaired(fault, data, **options):
    conversion, audited = found(fault, data, **options)
    tried = []
    repair = Fixer(conversion, Config.make(**options), data, TOLERANCE, tried.append).repair(
        audited
    )
    assert tried == list(range(1, repair.runs + 1))
    return repair
