"""Where a program's own modules are: on `sys.path`, or installed as a package with a command."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any, FrozenSet, Iterator, List, Sequence, Tuple

if sys.version_info >= (3, 8):
    from importlib import metadata
else:
    import importlib_metadata as metadata

_INSTALLED = frozenset(("dist-packages", "site-packages"))
_FACTS = "*.dist-info"  # of an installed package, beside it
_COMMANDS = frozenset(("Scripts", "bin"))  # folders, on Windows and elsewhere
_EDITABLE = "__editable__"  # begins the names of the modules that setuptools makes for `pip -e`


def authors_folders(path: Sequence[str]) -> List[pathlib.Path]:
    """Folders of a `sys.path` from PYTHONPATH or editable installations, without graphmp's own."""
    own = pathlib.Path(__file__).resolve().parents[2]
    folders = [pathlib.Path(entry).resolve() for entry in path if entry]
    installed = {pathlib.Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return [
        folder
        for folder in [*folders, *_editable()]
        if folder != own
        and folder.name not in _INSTALLED
        and not any(folder.glob(_FACTS))
        and not installed & {folder, *folder.parents}
    ]


def _editable() -> Iterator[pathlib.Path]:
    """Folders with packages that are installed as editable without being on `sys.path`."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_EDITABLE):
            for path in getattr(module, "MAPPING", {}).values():
                yield pathlib.Path(path).resolve().parent


def folder_of(package: str) -> List[pathlib.Path]:
    """The folder that has an installed package, or nothing; the package isn't imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    places = list(spec.submodule_search_locations or ())
    path = places[0] if places else spec.origin or ""
    return [pathlib.Path(path).resolve().parent]


def of_command(script: pathlib.Path) -> Tuple[str, FrozenSet[str]]:
    """The module that an installed command runs, and the packages that were installed with it.

    Both are empty for a file that is no command, and the module is for a command that pip copied.
    """
    if script.resolve().parent.name not in _COMMANDS:
        return "", frozenset()
    for distribution in metadata.distributions():
        entries = [entry for entry in distribution.entry_points if entry.name == script.name]
        modules = [
            entry.value.partition(":")[0] for entry in entries if entry.group == "console_scripts"
        ]
        if modules or _owns(distribution, script.name):
            module = modules[0] if modules else ""
            packages = {name.partition(".")[0] for name in [module, *_packages(distribution)]}
            return module, frozenset(packages - {""})
    return "", frozenset()


def _owns(distribution: Any, name: str) -> bool:
    places = (pathlib.PurePath(str(path)) for path in distribution.files or ())
    return any(place.parts[0] == ".." and place.name == name for place in places)


def _packages(distribution: Any) -> List[str]:
    """The names of a distribution's packages."""
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        return str(listed).split()
    parts = (pathlib.PurePath(str(path)).parts for path in distribution.files or ())
    return [part[0] for part in parts if len(part) > 1 and part[0].isidentifier()]
