"""Random damage to bytes and to texts."""

from __future__ import annotations

import random
from typing import Callable, List

NAMES = (
    "\x1b[31mred\x1b[0m",
    "new\nline",
    "a" * 5000,
    "\u202eright to left",
    "\u2028",
    "../../up",
    "-o",
    "%s%n",
    "<script>alert(1)</script>",
    "\x9b31m",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "",
    " ",
    "^x",
    "x:999999999",
    "x:-1",
)
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 10**9)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes after one to eight random changes."""
    for _ in range(rng.randint(1, 8)):
        data = rng.choice(_DAMAGES)(rng, data)
    return data


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _replace(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    new = rng.choice([b"\0", b"\xff", b"\x80" * 10, b"{", b"\n", bytes([rng.randrange(256)])])
    return data[:at] + new + data[at + len(new) :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data


def _remove(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randint(1, 40) :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    new = bytes(rng.randrange(256) for _ in range(rng.randint(1, 20)))
    return data[:at] + new + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.randint(1, 200)]
    return data[:at] + piece * rng.randint(2, 5) + data[at:]


_DAMAGES: List[Callable[[random.Random, bytes], bytes]] = [
    _flip,
    _replace,
    _cut,
    _remove,
    _insert,
    _repeat,
]
