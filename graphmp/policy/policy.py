"""The `Policy` value: four disjoint sets of op types, with a text form that round-trips.

The lists start from the field's common ones (TensorFlow's auto mixed precision) and add what those
leave out: BatchMatMulV3, TensorArrays and Stacks; squares, logarithms and reciprocal square roots
are denied by name.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Iterator, List, Tuple

from graphmp.errors import GraphmpError
from graphmp.files.reading import read_text
from graphmp.patterns import pattern
from graphmp.policy import tables

CATEGORIES = ("allow", "infer", "clear", "deny")
UNLISTED = "unlisted"
MOST_LINES, MOST_CHARACTERS = 20_000, 1 << 20  # of a policy file


@dataclass(frozen=True)
class Policy:
    """Op types by the compute dtype that they need.

    Attributes:
        allow: worth half precision (matmul, convolution, fused RNN kernels).
        infer: safe in half precision unless fed by a denied op.
        clear: the dtype makes no numerical difference.
        deny: needs float32. Ops on no list are float32 too.
        keep_float32: regular expressions for names of nodes that stay float32 whatever their op.
    """

    allow: FrozenSet[str] = frozenset()
    infer: FrozenSet[str] = frozenset()
    clear: FrozenSet[str] = frozenset()
    deny: FrozenSet[str] = frozenset()
    keep_float32: Tuple[str, ...] = ()

    @classmethod
    @functools.lru_cache(maxsize=None)
    def default(cls, compute_dtype: str) -> Policy:
        """The shipped lists for "float16" or "bfloat16" ("float32": nothing is allowed)."""
        if compute_dtype == "float32":
            return cls()
        return cls.from_text(
            (tables.FOLDER / (compute_dtype + ".txt")).read_text(), compute_dtype + ".txt"
        )

    @classmethod
    def from_text(cls, text: str, source: str = "op policy") -> Policy:
        """Parse a policy: `allow|infer|clear|deny Op`, `-Op`, `keep_float32 REGEX`, comments.

        Raises:
            GraphmpError: GMP010, naming the source and line.
        """
        return cls().with_text(text, source)

    def with_text(self, text: str, source: str = "op policy") -> Policy:
        """This policy with the lines of `text` applied in order.

        An op ends on the last list that is named.
        """
        listed, kept = self._by_op(), list(self.keep_float32)
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if len(words) == 1 and words[0].startswith("-") and len(words[0]) > 1:
                listed.pop(words[0][1:], None)
            elif len(words) == 2 and words[0] in CATEGORIES:
                listed[words[1]] = words[0]
            elif words[:1] == ["keep_float32"] and len(words) == 2 and _is_regex(words[1]):
                kept.append(words[1])
            elif words:
                raise GraphmpError(
                    "GMP010",
                    "%s:%d: found %.200r; accepted are `allow|infer|clear|deny OpName`, `-OpName`,"
                    " `keep_float32 REGEX`, `# comment`" % (source, number, line.strip()),
                )
        lists = {
            c: frozenset(op for op, listed_as in listed.items() if listed_as == c)
            for c in CATEGORIES
        }
        return replace(self, keep_float32=tuple(kept), **lists)

    def to_text(self) -> str:
        """The text form: sorted, one op a line; `Policy.from_text` reads it back."""
        lines = [
            "%s %s\n" % (category, op)
            for category in CATEGORIES
            for op in sorted(getattr(self, category))
        ]
        return "".join(lines + ["keep_float32 %s\n" % pattern for pattern in self.keep_float32])

    def category(self, op: str) -> str:
        """The list that an op type is on, or "unlisted"."""
        for category in CATEGORIES:
            if op in getattr(self, category):
                return category
        return UNLISTED

    def wants_float32(self, op: str) -> bool:
        """Whether the op must always compute in float32."""
        return self.category(op) in ("deny", UNLISTED)

    def _by_op(self) -> Dict[str, str]:
        return {op: category for category in CATEGORIES for op in getattr(self, category)}


def _is_regex(text: str) -> bool:
    try:
        pattern(text)
    except ValueError:
        return False
    return True


def load(compute_dtype: str, path: str) -> Policy:
    """The default policy for a compute dtype, with the lines of the file at `path` applied.

    `path` may be empty.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP010 for a bad line.
    """
    policy = Policy.default(compute_dtype)
    return policy.with_text(_read(path), path) if path else policy


def op_rules(path: str, kind: str = "") -> Iterator[Tuple[str, str]]:
    """For each rule of a policy file, its place for messages and its op (or other last word).

    Args:
        path: the file; no rules if it is empty.
        kind: only lines of this kind.
    """
    for number, line in enumerate(_lines(path), 1):
        words = line.split("#")[0].split()
        if words and (words[0] == kind if kind else words[0] != "keep_float32"):
            yield (
                "--op_policy=%s:%d: `%s`" % (path, number, " ".join(words)),
                words[-1] if kind else words[-1].lstrip("-"),
            )


def _lines(path: str) -> List[str]:
    """The lines of a policy file; none if `path` is empty."""
    return _read(path).splitlines() if path else []


def _read(path: str) -> str:
    label = "--op_policy=%s" % path
    text = read_text(path, label)
    if len(text) > MOST_CHARACTERS or text.count("\n") > MOST_LINES:
        found = "%s: found more than %s characters or %s lines; accepted are fewer"
        limits = (format(MOST_CHARACTERS, ","), format(MOST_LINES, ","))
        raise GraphmpError("GMP010", found % (label, *limits))
    return text


@functools.lru_cache(maxsize=None)
def tensor_core_ops() -> Tuple[str, ...]:
    """Op types that Tensor Cores serve: the shipped allow list."""
    return tuple(sorted(Policy.default("float16").allow))
