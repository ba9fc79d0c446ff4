"""Benches in the process of the test."""

from __future__ import annotations

import json

from graphmp.bench.processes import processes
from graphmp.bench.processes.child import Child


class Local:
    """A replacement for the process: the same orders, carried out here."""

    def __init__(self, specification, folder):
        self._specification = json.loads(json.dumps(specification))
        self.close()

    def ask(self, order, *arguments, limit=None):
        return processes.value_of(
            json.loads(json.dumps(self._child.answer({"order": order, "arguments": arguments})))
        )

    def close(self):
        self._child = Child(self._specification)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
