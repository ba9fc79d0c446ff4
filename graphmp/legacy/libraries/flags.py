"""Flags as scripts of TensorFlow 1.0 to 1.4 read them, which absl replaced in 1.5.

They parse with `FLAGS._parse_flags()`, and list what they define with `FLAGS.__flags`, a dict of
values, or `FLAGS.__dict__["__flags"]`. They keep values of their own in it: `FLAGS.words = 3`.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

import tensorflow.compat.v1 as tf
from absl import flags

_HIDDEN = "__flags"
_LIBRARIES = ("absl", "graphmp", "tensorflow")


class Values(Mapping[str, Any]):
    """The flags that the script defines, with their values at each look."""

    def __getitem__(self, name: str) -> Any:
        return _own()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_own())

    def __len__(self) -> int:
        return len(_own())

    def __repr__(self) -> str:
        return repr(_own())

    def copy(self) -> Dict[str, Any]:
        """The values now."""
        return _own()


def restore() -> None:
    """Restore these ways; calling it again does nothing."""
    vars(tf.flags.FLAGS).setdefault(_HIDDEN, Values())
    if not hasattr(flags.FlagValues, _HIDDEN):
        setattr(flags.FlagValues, _HIDDEN, property(lambda self: Values()))
        flags.FlagValues._parse_flags = _parse_flags  # type: ignore[attr-defined]
        flags.FLAGS._register_unknown_flag_setter(_set)


def _parse_flags(self: flags.FlagValues, args: Optional[Sequence[str]] = None) -> Dict[str, Any]:
    """Parse arguments, by default those of the program; unknown ones are left."""
    self([sys.argv[0], *(sys.argv[1:] if args is None else args)], known_only=True)
    return _own()


def _set(name: str, value: Any) -> None:
    """Set a flag that nothing defines, as `FLAGS.words = 3` does."""
    flag: flags.Flag[Any] = flags.Flag(flags.ArgumentParser(), None, name, None, "")
    flags.FLAGS[name] = flag
    flags.FLAGS.register_flag_by_module(sys.argv[0], flag)
    flag.value = value


def _own() -> Dict[str, Any]:
    """The values of the flags that no library defines; parsed now if they haven't been."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv, known_only=True)
    return {
        flag.name: flag.value
        for module, defined in flags.FLAGS.flags_by_module_dict().items()
        if module.split(".")[0] not in _LIBRARIES
        for flag in defined
    }
