"""The mathematics of the Transformer: configuration, layers, cache, heads. It sees no text and no files."""

from regard.model.attention import Attention, attend, use_kernels
from regard.model.cache import DecodeState
from regard.model.config import (
    Alibi,
    Learned,
    LinearScaling,
    Llama3Scaling,
    NoPositions,
    PositionScheme,
    Relative,
    Rope,
    Sinusoidal,
    TransformerConfig,
    Window,
    YarnScaling,
)
from regard.model.heads import (
    HEADS,
    ClassifierHead,
    LMHead,
    MaskedLMHead,
    Model,
    NoHead,
    Pooler,
    head_name,
    make_classifier,
    make_language_model,
    make_model,
    mean_pool,
)
from regard.model.masks import Mask
from regard.model.transformer import Stack, Transformer
from regard.model.watch import see, watch, watched

__all__ = [
    "HEADS",
    "Alibi",
    "Attention",
    "ClassifierHead",
    "DecodeState",
    "LMHead",
    "Learned",
    "LinearScaling",
    "Llama3Scaling",
    "Mask",
    "MaskedLMHead",
    "Model",
    "NoHead",
    "NoPositions",
    "Pooler",
    "PositionScheme",
    "Relative",
    "Rope",
    "Sinusoidal",
    "Stack",
    "Transformer",
    "TransformerConfig",
    "Window",
    "YarnScaling",
    "attend",
    "head_name",
    "make_classifier",
    "make_language_model",
    "make_model",
    "mean_pool",
    "see",
    "use_kernels",
    "watch",
    "watched",
]
