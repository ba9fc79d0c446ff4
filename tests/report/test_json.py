"""report.json is what Python's json writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.report.report import as_json
from graphmp.wording import json_escaped

pytestmark = pytest.mark.unit

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@settings(max_examples=150)
@given(st.dictionaries(st.text(max_size=4), _VALUES, max_size=4))
def test_the_same_bytes_as_by_json(report):
    """Indented by one, sorted, control characters escaped, with a last line break."""
    try:
        whole = json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        with pytest.raises(UnicodeEncodeError):
            as_json(report)
    else:
        assert as_json(report) == json_escaped(whole.decode("utf-8")).encode("utf-8") + b"\n"
