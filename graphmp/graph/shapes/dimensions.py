"""Arithmetic on dimensions that are numbers or symbols.

A symbol is any hashable value; None stands for an unknown rank.
"""

from __future__ import annotations

import operator
from typing import AbstractSet, Any, Callable, Dict, Hashable, List, Optional, Tuple

Dims = Optional[Tuple[Hashable, ...]]


def broadcast(first: Tuple[Hashable, ...], second: Tuple[Hashable, ...]) -> Tuple[Hashable, ...]:
    """The dimensions to which two tensors are broadcast."""
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second)
    return tuple(_joined(a, b) for a, b in pairs)


def _joined(a: Hashable, b: Hashable) -> Hashable:
    if a == b or b == 1:
        return a
    if a == 1 or isinstance(b, int):
        return b
    return (
        a
        if isinstance(a, int)
        else ("broadcast", tuple(sorted(_operands(a) | _operands(b), key=str)))
    )


def _operands(dim: Hashable) -> AbstractSet[Hashable]:
    """The dimensions that a dimension is broadcast from; itself if it isn't broadcast."""
    return (
        frozenset(dim[1]) if isinstance(dim, tuple) and dim[0] == "broadcast" else frozenset((dim,))
    )


def reshaped(source: Dims, wanted: Tuple[Hashable, ...], name: Hashable) -> Dims:
    """The dimensions of a Reshape's output; -1 is inferred. `name` names new symbols."""
    if -1 not in wanted:
        return wanted
    rest = None if source is None else _quotient(source, [dim for dim in wanted if dim != -1])
    return tuple((rest or (name, axis)) if dim == -1 else dim for axis, dim in enumerate(wanted))


def replaced(source: Dims, axis: Dims, new: Callable[[Hashable, int], Hashable]) -> Dims:
    """The dimensions with one axis replaced.

    The axis is in a tensor of one number; `new` computes the dimension from the old one and its
    index.
    """
    place = _place_of(source, axis)
    if source is None or place is None:
        return None
    return tuple(new(dim, at) if at == place else dim for at, dim in enumerate(source))


def without(source: Dims, axes: Dims, kept: bool = False) -> Dims:
    """The dimensions with some axes removed, or replaced by 1."""
    if source is None or axes is None:
        return None
    places = {_place_of(source, (axis,)) for axis in axes}
    left = [1 if at in places else dim for at, dim in enumerate(source) if kept or at not in places]
    return None if None in places else tuple(left)


def with_another(source: Dims, axis: Dims, dim: Hashable) -> Dims:
    """The dimensions with a new axis inserted, at the index that a tensor of one number holds."""
    place = None if source is None else _place_of((*source, dim), axis)
    return None if source is None or place is None else (*source[:place], dim, *source[place:])


def _place_of(source: Dims, axis: Dims) -> Optional[int]:
    """The index of an axis, counted from the first; None if it is unknown or out of range."""
    if (
        source is None
        or not axis
        or not isinstance(axis[0], int)
        or not -len(source) <= axis[0] < len(source)
    ):
        return None
    return axis[0] % len(source)


def product_of_matrices(first: Dims, second: Dims, transposed: Tuple[int, int]) -> Dims:
    """The dimensions of a product of matrices, or of batches of them.

    `transposed` tells for each operand whether it is transposed.
    """
    if first is None or second is None or len(first) < 2 or len(second) < 2:
        return None
    return (
        *broadcast(first[:-2], second[:-2]),
        first[transposed[0] - 2],
        second[-1 - transposed[1]],
    )


def sliced(source: Dims, begin: Dims, size: Dims) -> Dims:
    """The dimensions of a Slice, whose size is -1 for all that remains."""
    if (
        source is None
        or begin is None
        or size is None
        or not len(source) == len(begin) == len(size)
    ):
        return None
    rest = [
        dim if first == 0 else ARITHMETIC["Sub"](dim, first) for dim, first in zip(source, begin)
    ]
    return tuple(left if many == -1 else many for left, many in zip(rest, size))


def multiplied(source: Dims, multiples: Dims) -> Dims:
    """The dimensions of a Tile."""
    return (
        None
        if source is None or multiples is None
        else tuple(product(pair) for pair in zip(source, multiples))
    )


def permuted(source: Dims, order: Dims) -> Dims:
    """The dimensions of a transpose."""
    if (
        source is None
        or order is None
        or sorted(map(str, order)) != sorted(map(str, range(len(source))))
    ):
        return None
    return tuple(source[axis] for axis in order if isinstance(axis, int))


def product(dims: Any) -> Hashable:
    """One dimension, the product of several in a canonical form."""
    number, symbols = _factors(dims)
    if not symbols:
        return number
    return (
        symbols[0]
        if number == 1 and len(symbols) == 1
        else ("product", number, tuple(sorted(symbols, key=str)))
    )


def part(dim: Hashable, number: int, name: Hashable) -> Hashable:
    """A dimension divided by a number; a symbol of that name if it isn't divisible."""
    return _quotient([dim], [number]) or name


def _factors(dims: Any) -> Tuple[int, List[Hashable]]:
    """A number and symbols: the factors of a product."""
    number, symbols = 1, []  # type: int, List[Hashable]
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        elif isinstance(dim, tuple) and dim[0] == "product":
            number *= dim[1]
            symbols += dim[2]
        else:
            symbols.append(dim)
    return number, symbols


def _quotient(dims: Any, by: Any) -> Optional[Hashable]:
    """The quotient of two products of dimensions; None if it isn't exact."""
    number, symbols = _factors(dims)
    divisor, gone = _factors(by)
    for symbol in gone:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    return product([number // divisor, *symbols]) if divisor and number % divisor == 0 else None


def _of_numbers(
    function: Callable[[int, int], int], name: str
) -> Callable[[Hashable, Hashable], Hashable]:
    """A function of two dimensions: a number for two numbers, else a symbol."""
    return lambda a, b: (
        function(a, b) if isinstance(a, int) and isinstance(b, int) else (name, a, b)
    )


ARITHMETIC: Dict[str, Callable[[Hashable, Hashable], Hashable]] = {  # by op type
    "Add": _of_numbers(operator.add, "sum"),
    "AddV2": _of_numbers(operator.add, "sum"),
    "Maximum": _of_numbers(max, "maximum"),
    "Minimum": _of_numbers(min, "minimum"),
    "Mul": lambda a, b: product((a, b)),
    "Sub": _of_numbers(operator.sub, "difference"),
}
