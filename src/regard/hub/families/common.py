"""What several families say in the same words: the names of activations, and the axes that a family does not have."""

from __future__ import annotations

from typing import Any

from regard.errors import ConfigError
from regard.model import TransformerConfig
from regard.model.config import Activation

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "silu": "silu", "swish": "silu",
}  # fmt: skip
"""Their names for ours. gelu_fast is gelu_tanh in other words."""
_NAMES: dict[Activation, str] = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}


def activation_name(ours: Activation) -> str:
    """Their name for one of our activations."""
    return _NAMES[ours]


def refuse_others(config: TransformerConfig, head: str, *, heads: tuple[str, ...], **axes: Any) -> None:
    """Raise ConfigError for the first axis whose value the family has no words for.

    Args:
        heads: the heads that it has.
        axes: name -> the one value it has, or a tuple of them.
    """
    if head not in heads:
        raise ConfigError("the family has no such head", where="head", expected=" or ".join(heads), got=head)
    for name, allowed in axes.items():
        value = getattr(config, name)
        if not (value in allowed if isinstance(allowed, tuple) else value == allowed):
            raise ConfigError("the family has no counterpart of this axis value", where=name, expected=allowed,
                              got=value)  # fmt: skip
