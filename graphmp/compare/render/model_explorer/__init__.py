"""A diff for Model Explorer, Google's graph viewer."""

from __future__ import annotations

from graphmp.compare.render.model_explorer.files import command, files

__all__ = ["command", "files"]
