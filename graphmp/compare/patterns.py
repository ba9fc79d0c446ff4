"""Changes that repeat from layer to layer, grouped into patterns.

Their names only differ in numbers, and the changes and reasons are equal. `dense/kernel`,
`dense_1/kernel` and `dense_2/kernel` are `dense*/kernel`; digits within a word, as in `Conv2D` and
`float16`, stay.
"""

from __future__ import annotations

import functools
import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from graphmp.compare import categories
from graphmp.compare.changes import Change

_SUFFIX = re.compile(r"_\d+(?=$|[/:,;)\]\s])")  # TensorFlow's suffix for a name that is taken
_NUMBER = re.compile(r"(?<!float)(?<!int)(?<!\d)(?:(?<![A-Za-z])\d+(?![dDxX\d])|\d+(?![A-Za-z\d]))")
_NAMES = frozenset(
    (categories.REWIRED, categories.VIA_CAST, categories.CONTROL, categories.RENAMED)
)  # they contain names, no values


class ChangePattern(NamedTuple):
    """Similar changes.

    Attributes:
        text: their nodes' path, with `*` where it differs.
        category: one of CATEGORIES.
        part: as in Change.
        before: the original's value, with `*` where it differs.
        after: the converted graph's value.
        kind: the kind of the reason.
        reason: the reason of the first change.
        changes: the changes themselves.
    """

    text: str
    category: str
    part: str
    before: str
    after: str
    kind: str
    reason: str
    changes: Tuple[Change, ...]


def patterns(changes: Sequence[Change]) -> Tuple[ChangePattern, ...]:
    """The patterns of changes, in the order in which each first appears."""
    groups: Dict[Tuple[object, ...], List[Change]] = {}
    for change in changes:
        before, after = (
            (stem(value or "") for value in (change.before, change.after))
            if change.category in _NAMES
            else (change.before, change.after)
        )
        key = (
            change.category,
            change.part,
            stem(change.path),
            before,
            after,
            change.kind,
            _cached_stem(change.reason),
        )
        groups.setdefault(key, []).append(change)
    return tuple(_pattern(group) for group in groups.values())


def _pattern(group: List[Change]) -> ChangePattern:
    first = group[0]
    before, after = (
        common([value or "" for value in values])
        for values in ([c.before for c in group], [c.after for c in group])
    )
    return ChangePattern(
        common([c.path for c in group]),
        first.category,
        first.part,
        before,
        after,
        first.kind,
        first.reason,
        tuple(group),
    )


def stem(text: str) -> str:
    """A text with `*` for each of its numbers: equal for texts that only differ in numbers."""
    return _NUMBER.sub("*", _SUFFIX.sub("", text))


_cached_stem = functools.lru_cache(maxsize=10000)(stem)


def common(texts: List[str]) -> str:
    """Texts with equal stems as one, with `*` in the components that differ."""
    if len(texts) == 1 or len(set(texts)) == 1:
        return texts[0]
    return "/".join(
        component[0] if len(set(component)) == 1 else _starred(component)
        for component in zip(*(text.split("/") for text in texts))
    )


def _starred(components: Tuple[str, ...]) -> str:
    """The common form of components.

    `dense*` for dense and dense_1, `dense_*` for dense_1 and dense_2, `layer*` for layer1 and
    layer2.
    """
    heads = [_SUFFIX.sub("", component) for component in components]
    numbers = iter([set(found) for found in zip(*(_NUMBER.findall(head) for head in heads))])
    stem = _NUMBER.sub(lambda match: match.group() if len(next(numbers)) == 1 else "*", heads[0])
    suffixes = {(_SUFFIX.search(component) or [""])[0] for component in components}
    if len(suffixes) == 1:
        return stem + suffixes.pop()
    return stem + ("*" if "" in suffixes else "_*")
