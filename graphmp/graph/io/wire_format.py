"""The binary form of protobuf messages, field by field, without parsing the whole.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Tuple

# Wire types of fields; groups are long deprecated, but an unknown field may be one.
_VARINT, _EIGHT_BYTES, _COUNTED, _GROUP, _END_OF_GROUP, _FOUR_BYTES = range(6)


class Field(NamedTuple):
    """One field of a message: its number, its start, the start of its content, and their end."""

    number: int
    start: int
    content: int
    end: int


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in `data`, in the order of the bytes."""
    while start < end:
        key, content = _varint(data, start)
        content, after = _content(data, key & 7, content)
        yield Field(key >> 3, start, content, after)
        start = after


def _content(data: bytes, kind: int, position: int) -> Tuple[int, int]:
    """Start and end of a field's content; `position` is behind its key."""
    if kind == _COUNTED:
        size, start = _varint(data, position)
        return start, start + size
    if kind == _GROUP:
        start, kind = position, _GROUP
        while kind != _END_OF_GROUP:
            key, position = _varint(data, position)
            kind = key & 7
            position = position if kind == _END_OF_GROUP else _content(data, kind, position)[1]
        return start, position
    return position, _varint(data, position)[1] if kind == _VARINT else position + {
        _EIGHT_BYTES: 8,
        _FOUR_BYTES: 4,
    }[kind]


def counted(number: int, content: bytes) -> bytes:
    """A whole length-delimited field."""
    return counted_key(number, len(content)) + content


def counted_key(number: int, size: int) -> bytes:
    """The bytes before the content of a length-delimited field."""
    key = bytearray([number << 3 | _COUNTED])
    while size >= 0x80:
        key.append(size & 0x7F | 0x80)
        size >>= 7
    key.append(size)
    return bytes(key)


def _varint(data: bytes, position: int) -> Tuple[int, int]:
    """A varint (seven bits a byte, lowest first), and its end."""
    value = shift = 0
    while data[position] >= 0x80:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return value | data[position] << shift, position + 1
