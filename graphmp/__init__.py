"""graphmp: mixed precision for TensorFlow 1 training graphs."""

from graphmp import environment as _environment  # first: TensorFlow reads its settings when it is imported
from graphmp.errors import GraphmpError
from graphmp.policy.policy import Policy
from graphmp.recipe.decorator import mixed_precision
from graphmp.recipe.storage import float32_variable_storage_getter
from graphmp.version import __version__

__all__ = ["GraphmpError", "Policy", "__version__", "float32_variable_storage_getter", "mixed_precision"]
