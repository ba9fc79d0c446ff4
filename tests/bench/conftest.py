"""Fixtures of several test modules."""

from __future__ import annotations

import pytest

import graphmp
from tests.support.classifiers import classifier


@pytest.fixture(scope="module")
def conversion():
    return graphmp.convert(classifier())
