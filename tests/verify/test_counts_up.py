"""A count that its op returns: a skipped step gives the value, another step what the op gives."""

from __future__ import annotations

import pytest

from tests.support.programs import state  # registers them
from tests.support.proved import of_program, open_claims


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("build", [state.counted_up_to, state.counted_up_to_beside])
def test_the_old_value_is_there_in_skipped_steps_alone(build, use_resource):
    original, converted = of_program(build.__name__, use_resource, "dynamic")
    assert not open_claims(original, converted)
    old = next(n for n in converted.graph_def.node if n.name.endswith("CountUpTo/old"))
    (skipped,) = (wait for wait in old.input if wait.endswith("/skipped"))
    old.input.remove(skipped)
    assert open_claims(original, converted)
