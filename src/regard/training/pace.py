"""How long training on a token takes, by arithmetic over what was measured of the machine.

    seconds a token  =  products / (PRODUCT_SHARE * peak)  +  layers * d_model * BYTES_A_UNIT / memory's rate

What is unusual: the second term. A small model on a CPU spends most of its time not in matrix products but in all that
lies between them (norms, softmax, dropout, casts, residuals, updates), which grows with the width, not its square. So
half the precision, which doubles the products' rate, pays for wide models and not for narrow ones. The constants were
fitted to 24 timings of whole updates by a script that was not kept (2 cores with AMX, widths 64 to 256, 2 to 5 layers a
side, both precisions): within a factor of 1.5 for batches of 2,500 tokens, up to 2 for smaller ones. A run prints what
it planned and what it made.
What it does not know: how busy the machine is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from regard.machine import Speeds
from regard.model import TransformerConfig
from regard.training.recipe import Recipe

Precision = Literal["float32", "bfloat16"]

PRODUCT_SHARE = 0.6
"""Of the best matrix product's rate: what products of a small model's shapes reach."""
BYTES_A_UNIT: dict[Precision, float] = {"float32": 5_700, "bfloat16": 7_500}
"""Traffic for each token, layer and unit of width, forward, backward and update; bfloat16 has its casts as well."""
WORTH_IT = 1.1
"""How much quicker bfloat16 must be to be chosen: it costs precision."""


def training_flops(config: TransformerConfig, projected: float = 1.0) -> tuple[float, float]:
    """Floating-point operations of forward and backward for one source token and for one target token.

    6 for each weight that meets a token (2 forward, 4 backward); attention's own T x S products are left out: below a
    thousand tokens they are few. What an encoder alone reads counts as target tokens.

    Args:
        projected: the share of target tokens whose scores over the vocabulary are computed.
    """
    width, keys = config.n_heads * config.head_width, config.kv_heads * config.head_width
    self_attention = 2 * config.d_model * (width + keys)
    ffn = (3 if config.gated_ffn else 2) * config.d_model * config.d_ff
    cross_keys, cross_queries = 2 * config.d_model * keys, 2 * config.d_model * width
    both = config.n_encoder_layers > 0 and config.n_decoder_layers > 0
    source = config.n_encoder_layers * (self_attention + ffn) + both * config.n_decoder_layers * cross_keys
    target = config.n_decoder_layers * (self_attention + ffn + both * cross_queries)
    if not config.n_decoder_layers:
        source, target = 0, source
    return 6.0 * source, 6.0 * (target + projected * config.target_vocab_size * config.d_model)


def token_seconds(
    config: TransformerConfig, source_share: float, speeds: Speeds, precision: Precision, projected: float = 1.0
) -> float:
    """Seconds of training for one target token and the `source_share` source tokens that come with it."""
    per_source, per_target = training_flops(config, projected)
    products = (per_target + per_source * source_share) / (PRODUCT_SHARE * speeds.matmul_flops[precision])
    share = source_share if config.n_decoder_layers else 1.0
    layers = config.n_encoder_layers * share + config.n_decoder_layers
    return products + layers * config.d_model * BYTES_A_UNIT[precision] / speeds.read_bytes_per_second


def best_precision(config: TransformerConfig, source_share: float, speeds: Speeds, projected: float = 1.0) -> Precision:
    """bfloat16 where it should make training of this model at least a tenth quicker on this machine, else float32."""
    full, half = (token_seconds(config, source_share, speeds, precision, projected) for precision in BYTES_A_UNIT)
    return "bfloat16" if full >= WORTH_IT * half else "float32"


def as_quick_here(recipe: Recipe, speeds: Speeds) -> Recipe:
    """A recipe made elsewhere, in float32 where this machine has no quick bfloat16: a CPU may do it 100 times slower.

    What comes out differs by rounding alone, which is less than what another seed changes.
    """
    if speeds.matmul_flops["bfloat16"] >= speeds.matmul_flops["float32"]:
        return recipe
    optim, loop = replace(recipe.optim, matrix_dtype="float32"), replace(recipe.loop, dtype="float32")
    return replace(recipe, optim=optim, loop=loop)
