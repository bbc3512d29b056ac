"""What a Transformer is: one frozen record, one axis with named values per idea.

What is unusual: a field is never "is this model X". A value that has numbers of its own carries them
(`Rope(theta=500_000)`, `Window(size=512)`), so no number means anything outside the value it belongs to; and
`n_encoder_layers`, `n_decoder_layers` alone say whether the model is an encoder, a decoder or both.
What it does not know: text, files, training, or any model family by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class NoPositions:
    """Order is invisible to an encoder; a decoder sees it only through its mask (chapter 2.6)."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Sinusoidal:
    """p_t of chapter 2.6, added to the embeddings; `interleaved` as the chapter writes it, or `split` as in Marian."""

    kind: ClassVar[str] = "sinusoidal"
    layout: Literal["interleaved", "split"] = "interleaved"
    theta: float = 10_000.0


@dataclass(frozen=True, kw_only=True)
class Learned:
    """One trained vector for each of the `max_len` positions, added to the embeddings."""

    kind: ClassVar[str] = "learned"
    offset: int = 0
    """Rows of the table before that of position 0, which nobody looks up (RoBERTa and BART: 2)."""


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """Every angle is divided by `factor`, so that longer texts turn no further (Chen et al. 2023)."""

    kind: ClassVar[str] = "linear"
    factor: float


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """Slow pairs are divided by `factor`, fast ones not at all, those between in part (Llama 3.1).

    Slow: fewer than `low` turns within the `original_len` tokens of the first training; fast: more than `high`.
    """

    kind: ClassVar[str] = "llama3"
    factor: float
    original_len: int
    low: float = 1.0
    high: float = 4.0


@dataclass(frozen=True, kw_only=True)
class YarnScaling:
    """As Llama 3's, the pairs between by a ramp over their number, and q and k grow a little (Peng et al. 2023).

    Slow: fewer than `slow` turns within `original_len`; fast: more than `fast`. `growth` multiplies q and k; None:
    0.1 ln(factor) + 1.
    """

    kind: ClassVar[str] = "yarn"
    factor: float
    original_len: int
    fast: float = 32.0
    slow: float = 1.0
    growth: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Rotary positions (Su et al. 2021): q and k are turned by an angle that grows with their position."""

    kind: ClassVar[str] = "rope"
    theta: float = 10_000.0
    fraction: float = 1.0
    """Share of a head's width that is turned; the rest stays as it is (GPT-NeoX: 0.25)."""
    scaling: LinearScaling | Llama3Scaling | YarnScaling | None = None
    """How the angles of a model made for short texts were changed for longer ones."""


@dataclass(frozen=True, kw_only=True)
class Alibi:
    """A penalty on each score that grows linearly with the distance (Press et al. 2022)."""

    kind: ClassVar[str] = "alibi"


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A trained number per head and distance bucket, added to each score (T5, Raffel et al. 2020)."""

    kind: ClassVar[str] = "relative"
    buckets: int = 32
    max_distance: int = 128


PositionScheme = NoPositions | Sinusoidal | Learned | Rope | Alibi | Relative


@dataclass(frozen=True, kw_only=True)
class Window:
    """A decoder's query sees itself and the `size - 1` tokens before it, in every layer (Mistral's sliding window)."""

    size: int


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Biases = Literal["all", "none", "qkv", "attention", "ffn"]

MOST_PARAMETERS = 10**12
"""A model beyond this is a slip of the keyboard; refused before anything is allocated (4 TB in float32)."""
LONGEST = 10**9
"""Tokens; a `max_len` beyond this is one too."""


_NAMED_VALUES = {
    "norm": ("layer", "rms"),
    "norm_order": ("post", "pre", "parallel"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "bias": ("all", "none", "qkv", "attention", "ffn"),
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """All that is needed to build a Transformer; checked when it is made, before anything is allocated.

    Raises:
        ConfigError: a size is not positive, or sizes do not divide; the message shows the arithmetic.
    """

    vocab_size: int
    """V, the number of token ids."""
    decoder_vocab_size: int | None = None
    """V of the decoder and of the head, with embeddings of their own (Marian's two vocabularies); None: the same V."""
    d_model: int
    """D, the width of the representations x_t (the chapter's d)."""
    n_heads: int
    """H, the number of attention heads (2.5)."""
    d_ff: int
    """The inner width of the feed-forward sublayer (2.7)."""
    n_encoder_layers: int = 0
    """Blocks whose positions all see each other; 0: the model has no encoder."""
    n_decoder_layers: int = 0
    """Blocks that see only the past (2.8); 0: the model has no decoder."""
    n_kv_heads: int | None = None
    """K, heads of keys and values, each shared by H / K query heads; None: one for each query head."""
    d_head: int | None = None
    """d, the width of one head (the chapter's d_k); None: d_model / n_heads."""
    attn_scale: float | None = None
    """What scores are multiplied by; None: 1 / sqrt(d_head), the chapter's 2.3."""
    attn_dropout: float = 0.0
    """Share of attention weights dropped in training; above 0 it pays for the open path."""
    positions: PositionScheme = Sinusoidal()
    """How order enters the model (2.6)."""
    max_len: int = 1024
    """How many tokens a sequence was meant to have; a bound that only learned positions cannot cross."""
    qk_norm: bool = False
    """An RMSNorm over each head's query and each head's key, before positions turn them (Qwen3)."""
    window: Window | None = None
    """How far back a decoder looks; None: all the way."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm (2.7), or RMSNorm: without mean and shift."""
    norm_order: Literal["post", "pre", "parallel"] = "post"
    """post: LayerNorm(x + f(x)), the chapter's; pre: x + f(LayerNorm(x)), and one more norm at the end of the stack;
    parallel: as pre, but x + f(LayerNorm_1(x)) + g(LayerNorm_2(x)), both sublayers side by side (GPT-NeoX)."""
    norm_eps: float = 1e-5
    """Added to the variance before its root is taken."""
    activation: Activation = "relu"
    """The sigma of the feed-forward sublayer (2.7)."""
    gated_ffn: bool = False
    """W_2 (sigma(W_g x) * (W_1 x)) in place of W_2 sigma(W_1 x) (Shazeer 2020)."""
    bias: Biases = "all"
    """Which linear maps of the blocks have a constant term; qkv: W_Q, W_K, W_V alone (Qwen2)."""
    n_token_types: int = 0
    """Segments that an encoder tells apart by a trained vector (BERT); 0: none."""
    embed_scale: float = 1.0
    """What token embeddings are multiplied by before positions are added; sqrt(d_model) in Vaswani et al. 2017."""
    embed_norm: bool = False
    """A norm right after the embeddings (BERT)."""
    tie_embeddings: bool = True
    """The output projection is the embedding matrix itself."""
    head_bias: bool = False
    """A constant term in the output projection."""
    logit_scale: float = 1.0
    """What the last hidden state is multiplied by before the output projection (T5: d_model ** -0.5)."""
    dropout: float = 0.0
    """Share of the embeddings and of each sublayer's output that is dropped in training."""

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "d_model", "n_heads", "d_ff", "max_len", "n_kv_heads", "d_head", "decoder_vocab_size")
        for name in sizes:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError("a size must be at least 1", where=name, got=value)
        offset = self.positions.offset if isinstance(self.positions, Learned) else 0
        for name, number in (("n_token_types", self.n_token_types), ("positions.offset", offset)):
            if number < 0:
                raise ConfigError("a number cannot be negative", where=name, got=number)
        if min(self.n_encoder_layers, self.n_decoder_layers) < 0 or self.n_encoder_layers + self.n_decoder_layers == 0:
            got = f"n_encoder_layers = {self.n_encoder_layers}, n_decoder_layers = {self.n_decoder_layers}"
            raise ConfigError("a Transformer has an encoder, a decoder, or both", got=got,
                              mend="set one of them above 0, and none below")  # fmt: skip
        if self.d_head is None and self.d_model % self.n_heads:
            quotient = f"{self.d_model} / {self.n_heads} = {self.d_model / self.n_heads:.2f}"
            raise ConfigError("d_model is not divisible by n_heads", where="d_model", got=quotient,
                              mend="choose a multiple, or give d_head")  # fmt: skip
        if self.n_heads % self.kv_heads:
            quotient = f"{self.n_heads} / {self.kv_heads} = {self.n_heads / self.kv_heads:.2f}"
            raise ConfigError("n_heads is not divisible by n_kv_heads", where="n_kv_heads", got=quotient,
                              mend="choose a divisor, or 1")  # fmt: skip
        self._check_numbers()
        if isinstance(self.positions, Rope) and (self.turned_width < 2 or self.turned_width % 2):
            raise ConfigError("rotary positions turn pairs, so the turned part of a head's width must be even",
                              where="positions", got=f"{self.positions.fraction} of {self.head_width}",
                              mend="choose an even width of a head: d_model / n_heads, or d_head")  # fmt: skip
        if isinstance(self.positions, Sinusoidal) and self.d_model % 2:
            raise ConfigError("sinusoidal positions come in pairs, so d_model must be even", where="d_model",
                              got=self.d_model, mend=f"{self.d_model + 1}, or other positions")  # fmt: skip
        if isinstance(self.positions, Relative) and not 4 <= self.positions.buckets < 2 * self.positions.max_distance:
            raise ConfigError("half of the buckets are exact, the others reach on to max_distance", where="positions",
                              expected="4 <= buckets < 2 max_distance", got=self.positions)  # fmt: skip
        if self.window is not None and self.window.size < 1:
            raise ConfigError("a window holds at least the query itself", where="window.size", got=self.window.size)
        both = self.n_encoder_layers > 0 and self.n_decoder_layers > 0
        if self.norm_order == "parallel" and both:
            raise ConfigError("side by side stand self-attention and feed-forward; there is no place for a third",
                              where="norm_order", expected="post or pre for an encoder with a decoder")  # fmt: skip
        if self.decoder_vocab_size is not None and not both:
            raise ConfigError("two vocabularies need an encoder and a decoder", where="decoder_vocab_size",
                              got=self.decoder_vocab_size)  # fmt: skip
        for name, known in _NAMED_VALUES.items():
            if getattr(self, name) not in known:
                raise ConfigError("no such value", where=name, expected=" or ".join(known), got=getattr(self, name))
        for name in ("dropout", "attn_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError("a share must be in [0, 1)", where=name, got=getattr(self, name))
        if (n := self.n_parameters) > MOST_PARAMETERS:
            got = f"{n:,} parameters, {4 * n / 1e12:,.0f} TB in float32"
            raise ConfigError("these sizes cannot be meant", expected=f"at most {MOST_PARAMETERS:,} parameters",
                              got=got, mend="look for a size with too many digits")  # fmt: skip
        if self.max_len > LONGEST:
            raise ConfigError("this length cannot be meant", where="max_len", expected=f"at most {LONGEST:,}",
                              got=f"{self.max_len:,}", mend="look for a size with too many digits")  # fmt: skip

    def _check_numbers(self) -> None:
        """Refuse numbers with which nothing can be computed: NaN, infinities, and 0 or less where it divides."""
        for name in ("embed_scale", "logit_scale", "attn_scale"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ConfigError("a number must be finite", where=name, got=value)
        above: dict[str, float | None] = {"norm_eps": self.norm_eps}
        if isinstance(self.positions, (Rope, Sinusoidal)) and not 1 < self.positions.theta < math.inf:
            raise ConfigError("each pair must turn more slowly than the one before", where="positions.theta",
                              expected="above 1, and finite", got=self.positions.theta)  # fmt: skip
        if isinstance(self.positions, Rope):
            if not 0 < self.positions.fraction <= 1:
                raise ConfigError("a share of each head is turned", where="positions.fraction", expected="in (0, 1]",
                                  got=self.positions.fraction)  # fmt: skip
            numbers = vars(self.positions.scaling) if self.positions.scaling is not None else {}
            above |= {f"positions.scaling.{name}": value for name, value in numbers.items()}
        for name, value in above.items():
            if value is not None and not 0 < value < math.inf:
                raise ConfigError("a number must be above 0, and finite", where=name, got=value)

    @property
    def kv_heads(self) -> int:
        """K as a number."""
        return self.n_kv_heads or self.n_heads

    @property
    def head_width(self) -> int:
        """d as a number."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def turned_width(self) -> int:
        """How much of a head's width rotary positions turn."""
        assert isinstance(self.positions, Rope)
        return int(self.head_width * self.positions.fraction)

    @property
    def target_vocab_size(self) -> int:
        """V of what the model says."""
        return self.decoder_vocab_size or self.vocab_size

    def has_bias(self, part: Literal["qkv", "o", "ffn"]) -> bool:
        """Whether these linear maps of a block have a constant term."""
        return part in {"all": "qkv o ffn", "attention": "qkv o"}.get(self.bias, self.bias).split()

    @property
    def scale(self) -> float:
        """What scores are multiplied by, as a number."""
        return self.head_width**-0.5 if self.attn_scale is None else self.attn_scale

    @property
    def n_parameters(self) -> int:
        """How many numbers such a model trains, language-model head included, without building it."""
        norm = self.d_model * (2 if self.norm == "layer" else 1)
        queries, keys = self.n_heads * self.head_width, self.kv_heads * self.head_width
        attention = 2 * self.d_model * (queries + keys) + norm + 2 * self.qk_norm * self.head_width
        attention += self.has_bias("qkv") * (queries + 2 * keys) + self.has_bias("o") * self.d_model
        up = 2 if self.gated_ffn else 1
        ffn = (up + 1) * self.d_model * self.d_ff + self.has_bias("ffn") * (up * self.d_ff + self.d_model) + norm
        both = self.n_encoder_layers > 0 and self.n_decoder_layers > 0
        target = self.target_vocab_size
        n = self.vocab_size * self.d_model + (self.decoder_vocab_size or 0) * self.d_model
        n += target * self.d_model * (not self.tie_embeddings) + self.head_bias * target
        n += self.n_encoder_layers * (attention + ffn) + self.n_decoder_layers * ((2 if both else 1) * attention + ffn)
        per_stack = norm * (self.embed_norm + (self.norm_order != "post"))
        if isinstance(self.positions, Learned):
            per_stack += (self.max_len + self.positions.offset) * self.d_model
        if isinstance(self.positions, Relative):
            per_stack += self.positions.buckets * self.n_heads
        n += per_stack * ((self.n_encoder_layers > 0) + (self.n_decoder_layers > 0))
        return n + self.n_token_types * self.d_model * (self.n_encoder_layers > 0)
