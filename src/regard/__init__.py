"""regard: the Transformer, whole, in one readable package: train it, look inside it, serve it.

    model = regard.load("runs/en-de")
    model.translate(["A man rides a bicycle."])

What is unusual: `import regard` loads no torch; `load`, `train` and their types are fetched when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import CheckpointError, ConfigError, DataError, MissingExtraError, NonFiniteError, UserError

if TYPE_CHECKING:
    from regard.api import Generation, Loaded, Translation, load, look, train
    from regard.inspect.notebook import Look

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "Generation",
    "Loaded",
    "Look",
    "MissingExtraError",
    "NonFiniteError",
    "Translation",
    "UserError",
    "__version__",
    "load",
    "look",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("regard.inspect.notebook" if name == "Look" else "regard.api"), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
