"""`tf.contrib.training.HParams`: named settings with types, read from text.

Own code: TensorFlow 2 has no successor.
"""

from __future__ import annotations

import json
import numbers
import re
from typing import Any, Callable, Dict, Optional

__all__ = ["HParams", "parse_values"]

# name=value, name[2]=value or name=[value,value], then a comma or the end.
_ASSIGNMENT = re.compile(
    r"(?P<name>[a-zA-Z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"((?P<value>[^,\[]*)|\[(?P<values>[^\]]*)\])($|,\s*)"
)


def parse_values(
    values: str, type_map: Dict[str, type], ignore_unknown: bool = False
) -> Dict[str, Any]:
    """Parse `a=1,b=[2,3],c[1]=x` into `{"a": 1, "b": [2, 3], "c": {1: "x"}}`.

    Each value has its type in `type_map`.

    Raises:
        ValueError: the text is malformed, names an unknown parameter, assigns one twice, or a value
            has the wrong type.
    """
    result: Dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if not match:
            raise ValueError("Malformed hyperparameter value: %s" % values[position:])
        position = match.end()
        name, index = match.group("name"), match.group("index")
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError("Unknown hyperparameter type for %s" % name)
        into: Dict[Any, Any] = result if index is None else result.setdefault(name, {})
        key: Any = name if index is None else int(index)
        if not isinstance(into, dict) or key in into:
            raise ValueError("Multiple assignments to variable '%s' in %s" % (name, values))
        into[key] = _parsed(name, type_map[name], match, values)
    return result


def _parsed(name: str, wanted: type, match: Any, values: str) -> Any:
    read: Callable[[str], Any] = _boolean if wanted is bool else wanted
    items = match.group("values")
    if items is not None and match.group("index") is not None:
        raise ValueError("Assignment of a list to a list index.")
    try:
        return (
            read(match.group("value"))
            if items is None
            else [read(item) for item in re.split("[ ,]", items) if item]
        )
    except ValueError:
        given = match.group("value") if items is None else items
        raise ValueError(
            "Could not parse hparam '%s' of type '%s' with value '%s' in %s"
            % (name, wanted.__name__, given, values)
        ) from None


def _boolean(text: str) -> bool:
    return text in ("true", "True") or (text not in ("false", "False") and bool(int(text)))


class HParams:
    """Settings as attributes; each keeps its initial type, and remains a list or a single value."""

    def __init__(self, hparam_def: None = None, model_structure: Any = None, **kwargs: Any):
        if hparam_def is not None:
            raise ValueError(
                "hparam_def: the HParamDef message is gone from TensorFlow 2; pass values by name"
            )
        self._hparam_types: Dict[str, Any] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a setting; its name must be new."""
        if getattr(self, name, None) is not None:
            raise ValueError("Hyperparameter name is reserved: %s" % name)
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError("Multi-valued hyperparameters cannot be empty: %s" % name)
        self._hparam_types[name] = (type(value[0] if is_list else value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a setting to a value of the same type."""
        wanted, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(
                "Must %spass a list for %s-valued parameter: %s"
                % (("", "multi", name) if is_list else ("not ", "single", name))
            )
        setattr(
            self,
            name,
            (
                [_cast(name, wanted, item) for item in value]
                if is_list
                else _cast(name, wanted, value)
            ),
        )

    def del_hparam(self, name: str) -> None:
        """Removes a setting, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def override_from_dict(self, values_dict: Dict[str, Any]) -> HParams:
        """Changes several settings."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Changes settings from text, `a=1,b=[2,3]`."""
        return self.override_from_dict(
            parse_values(values, {name: wanted for name, (wanted, _) in self._hparam_types.items()})
        )

    def parse_json(self, values_json: str) -> HParams:
        """Changes settings from a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self, indent: Optional[int] = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        """The settings as a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> Dict[str, Any]:
        """The settings as a dict."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """A setting, or the default."""
        return getattr(self, key) if key in self._hparam_types else default

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join("%s=%s" % item for item in self.values().items())

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, sorted(self.values().items()))


def _cast(name: str, wanted: type, value: Any) -> Any:
    """The value as its parameter's type: only ints are converted, to floats."""
    if type(value) is wanted or wanted is type(None):
        return value
    fits = all(
        issubclass(wanted, kind) <= isinstance(value, kind)
        for kind in ((str, bytes), numbers.Integral, numbers.Number)
    )
    if not fits or issubclass(wanted, bool) != isinstance(value, bool):
        raise ValueError(
            "Could not cast hparam '%s' of type '%s' from value %r" % (name, wanted, value)
        )
    return wanted(value)
