"""Names, numbers and errors in a sentence."""

from __future__ import annotations

import difflib
import re
import shlex
from typing import Iterable, List, Optional, Sequence

FRAMES = 1000  # of a traceback, the innermost: a recursion without end may have a million
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_LONGEST_WORD, _TAIL = 200, 60  # characters
_LONGEST_LINE = 2000
_MOST_COMPARED = 20000  # names; difflib takes about a second for as many


def printable(text: str) -> str:
    """`text` with invisible and control characters as escapes."""
    return (
        text
        if text.isprintable()
        else "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
        )
    )


def shell_word(text: str) -> str:
    """`text` as one word of a command, on one line: quoted where needed, with escapes of bash."""
    if text.isprintable():
        return shlex.quote(text)
    data = text.encode("utf-8", "surrogateescape")
    escaped = (
        "\\" + chr(byte) if byte in b"\\'" else chr(byte) if 32 <= byte < 127 else "\\x%02x" % byte
        for byte in data
    )
    return "$'%s'" % "".join(escaped)


def json_escaped(text: str) -> str:
    """JSON text with escapes also for control characters that JSON allows, and for bidi marks."""
    return _UNSEEN.sub(lambda found: "\\u%04x" % ord(found.group()), text)


def one_line(text: str) -> str:
    """`text` on one line, with control characters as escapes and long words cut."""
    words = (
        word
        if len(word) <= _LONGEST_WORD
        else "%s...%s" % (word[: _LONGEST_WORD - _TAIL], word[-_TAIL:])
        for word in map(printable, str(text).split())
    )
    line = " ".join(words)
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


def labelled(label: str, text: str) -> str:
    """A line of a summary."""
    return "%-12s %s" % (label, text)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 change`, `2,000 changes`; `nouns` if the plural is irregular."""
    return "%s %s" % (format(count, ","), noun if count == 1 else nouns or noun + "s")


def with_article(name: str) -> str:
    """`a MatMul`, `an AddV2`, `an FFT`: by the sound of the first letter, or of its name."""
    by_letters = name[:2].isupper()
    sounds = "AEFHILMNORSX" if by_letters else "AEIOU"
    is_vowel = name[:1].upper() in tuple(sounds) and not name.startswith(("One", "Uni"))
    return "%s %s" % ("an" if is_vowel else "a", name)


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and the number of the others: `a, b, c and 1,204 more`."""
    return " ".join(filter(None, (", ".join(names[:most]), more(len(names) - most))))


def more(hidden: int) -> str:
    """`and 1,204 more`; empty if nothing is left out."""
    return "and %s more" % format(hidden, ",") if hidden > 0 else ""


def nearest(name: str, names: Iterable[str]) -> List[str]:
    """The three names most similar to a wrong one.

    Of very many, only those with a common beginning or end are compared.
    """
    known = list(dict.fromkeys(names))
    if len(known) > _MOST_COMPARED:
        end, start = name.rpartition("/")[2], name.partition("/")[0] + "/"
        known = [one for one in known if one.endswith(end) or one.startswith(start)]
    return difflib.get_close_matches(name, known[:_MOST_COMPARED])


_HEADLINE = "Graph execution error:"


def first_line(error: Optional[Exception]) -> str:
    """A kernel's message in an error, without TensorFlow 2's headline and stack before it."""
    text = str(getattr(error, "message", error)).strip()
    if text.startswith(_HEADLINE + "\n"):
        text = text[len(_HEADLINE) :].strip()
    lines = text.split("\n")
    starts = [number + 1 for number, line in enumerate(lines[:-1]) if line.startswith("Node: ")]
    return lines[starts[-1] if starts else 0].strip()
