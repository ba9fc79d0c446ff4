"""Programs with several losses are proved, whose gradient code reads gradients of each other.

The proof shares no code with the conversion: one that lets a loss read gradients which are still
multiplied by another's scale, or twice by its own, is not proved.
"""

from __future__ import annotations

import pytest

from tests.support.programs import several
from tests.support.programs.registry import NORM, PROGRAMS
from tests.support.proved import of_program, open_claims

HOW: dict = {"dynamic": ("dynamic",), "fixed": (1024,), "clipped": ("dynamic", NORM)}


def cases():
    """By default each program by a dynamic scale, every second one clipped, with kinds by turns."""
    names = sorted(n for n, p in PROGRAMS.items() if p.build.__module__ == several.__name__)
    for place, name in enumerate(names):
        for how in HOW:
            for use_resource in (False, True):
                by_default = how == "dynamic" or (how == "clipped" and place // 2 % 2 == 0)
                yield pytest.param(
                    name,
                    how,
                    use_resource,
                    marks=[]
                    if by_default and use_resource == bool(place % 2)
                    else pytest.mark.slow,
                    id="%s-%s-%s" % (name, how, use_resource),
                )


@pytest.mark.parametrize("name, how, use_resource", cases())
def test_program(name, how, use_resource):
    assert not open_claims(*of_program(name, use_resource, *HOW[how]))
