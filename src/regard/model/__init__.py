"""The mathematics of the Transformer: configuration, layers, cache, heads. It sees no text and no files."""

from regard.model.attention import Attention, attend, use_kernels
from regard.model.cache import DecodeState
from regard.model.config import (
    Alibi,
    Learned,
    NoPositions,
    PositionScheme,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
)
from regard.model.heads import (
    ClassifierHead,
    LMHead,
    Model,
    make_classifier,
    make_language_model,
    mean_pool,
)
from regard.model.masks import Mask
from regard.model.transformer import Stack, Transformer
from regard.model.watch import see, watch, watched

__all__ = [
    "Alibi",
    "Attention",
    "ClassifierHead",
    "DecodeState",
    "LMHead",
    "Learned",
    "Mask",
    "Model",
    "NoPositions",
    "PositionScheme",
    "Relative",
    "Rope",
    "Sinusoidal",
    "Stack",
    "Transformer",
    "TransformerConfig",
    "Window",
    "attend",
    "make_classifier",
    "make_language_model",
    "mean_pool",
    "see",
    "use_kernels",
    "watch",
    "watched",
]
