"""Scaled dot-product attention (chapter 2.3) and the module around it (2.2, 2.5).

    attend      softmax(Q K^T * scale + bias) V  over the visible keys, in one of two equal ways:
                fused   the kernel F.scaled_dot_product_attention; never holds T x S scores
                open    three plain matrix products, so that scores and weights can be seen and edited
    Attention   projects to heads, attends, joins the heads; one class for self- and cross-attention

What is unusual: one chooser picks the way, from who is watching and a table of what is quicker on this machine (on a
CPU with bf16 units the open path wins for short sequences, elsewhere the fused one). Whatever differs from query to
query is drawn for blocks of queries, so no T x S mask or ALiBi bias is ever held; a query that sees no key gives zero.
What it does not know: which position scheme it has, whether keys come from a cache, which family a model is of.

Shapes: B batch, T queries, S keys, D d_model, H query heads, K key/value heads, d head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.model.config import TransformerConfig
from regard.model.masks import Mask
from regard.model.positions import Bias
from regard.model.watch import see, watched

BLOCK_ELEMENTS = 2**22
"""Booleans or scores drawn at a time (B x H x rows x S): 16 MB in float32, about what a CPU core's caches can feed."""
HIDDEN_BELOW = -1e30
"""Scores below it, as whoever looks at them is shown them, are of keys that their query may not look at."""
LEAST_BAND = 128
"""Queries in a block of a window's band, at least: fewer are slower (64 to 1,024 tried on a CPU)."""

KernelTable = Callable[[str, torch.dtype, int], str]


def _usual_kernel(device: str, dtype: torch.dtype, keys: int) -> str:
    """What won on the machines we measured (performance.md); replaced by this machine's own table when there is one."""
    return "open" if device == "cpu" and dtype == torch.bfloat16 and keys <= 256 else "fused"


_kernel_table: KernelTable = _usual_kernel


def use_kernels(table: KernelTable | None) -> None:
    """Let `attend` choose by this machine's measured table: (device type, dtype, keys) -> "fused" or "open".

    A property of the process, like its number of threads; None goes back to the built-in rule.
    """
    global _kernel_table
    _kernel_table = table or _usual_kernel


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    scale: float,
    bias: Bias | None = None,
    dropout: float = 0.0,
    site: nn.Module | None = None,
    kernel: str | None = None,
) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T * scale + bias) V over the keys that `mask` shows (chapter 2.3, 2.8).

    Args:
        q: (B, H, T, d).  k, v: (B, K, S, d), each of the K heads serving H / K query heads.
        bias: draws (B|1, H, rows, S), added to the scores.
        dropout: share of weights dropped; above 0 takes the open path.
        site: the module that watchers know this attention by; it offers `bias`, `scores` and `weights`.
        kernel: "fused" or "open", for tests and measurements; None lets the table choose.

    Returns:
        (B, H, T, d), in q's dtype; zero for a query that sees no key.
    """
    seen = watched(site, "bias", "scores", "weights")
    if kernel is None:
        kernel = "open" if seen or dropout else _kernel_table(q.device.type, q.dtype, k.size(2))
    way = _open if kernel == "open" else _fused
    arguments = (q, k, v, mask, scale, bias, dropout, site if seen else None)
    if kernel == "fused" and bias is None and (mask.kernel_causal or mask.same_for_all_queries):
        return way(*arguments, slice(0, q.size(2)))
    return _by_blocks(way, arguments, whole=seen)


def _by_blocks(way: Callable[..., Tensor], arguments: tuple, *, whole: bool) -> Tensor:
    """Run `way` for blocks of queries, so that what it draws stays small; in training, redraw in the backward pass."""
    q, k, _, mask = arguments[:4]
    n_queries, n_keys = q.size(2), k.size(2)
    widest = n_queries
    if mask.limited is not None:  # n queries reach n + window keys: of a block wider than the window most is hidden
        widest = max(LEAST_BAND, mask.limited)
        n_keys = min(n_keys, widest + mask.limited)
    step = n_queries if whole else min(widest, max(16, BLOCK_ELEMENTS // (q.size(0) * q.size(1) * n_keys + 1)))
    if step >= n_queries:
        return way(*arguments, slice(0, n_queries))
    blocks = [slice(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]
    # A compiler chooses by itself what is drawn again; torch 2.13's fails on `checkpoint` around what it closes over.
    if torch.is_grad_enabled() and mask.limited is None and not torch.compiler.is_compiling():
        return torch.cat([checkpoint(way, *arguments, rows, use_reentrant=False) for rows in blocks], 2)
    return torch.cat([way(*arguments, rows) for rows in blocks], 2)


def _fused(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float, bias: Bias | None, dropout: float,
    site: nn.Module | None, rows: slice,
) -> Tensor:  # fmt: skip
    gqa = q.size(1) != k.size(1)
    if bias is None and mask.kernel_causal and rows.stop - rows.start == k.size(2):
        # A single query sees its single key; saying so lets the kernel skip its causal path.
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1, scale=scale, enable_gqa=gqa)
    columns = mask.reach(rows)
    visible = mask.draw(rows, columns)
    extra: Tensor | None = visible
    if bias is not None:
        extra = bias(rows)[..., columns].to(q.dtype)
        extra = extra if visible is None else extra.masked_fill(~visible, -torch.inf)
    out = F.scaled_dot_product_attention(
        q[:, :, rows], k[:, :, columns], v[:, :, columns], attn_mask=extra, scale=scale, enable_gqa=gqa
    )
    if visible is not None and mask.may_hide_all:
        out = out.masked_fill(~visible.any(-1, keepdim=True), 0)  # what a kernel gives for an empty row differs
    return out


def _open(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float, bias: Bias | None, dropout: float,
    site: nn.Module | None, rows: slice,
) -> Tensor:  # fmt: skip
    columns = mask.reach(rows)
    k, v, n_heads = k[:, :, columns], v[:, :, columns], q.size(1)
    # The H / K query heads that share a key head are laid one after another as more queries of it: no key is copied.
    shared = q[:, :, rows].unflatten(1, (k.size(1), -1)).flatten(2, 3)  # (B, K, H/K * rows, d)
    scores = (shared * scale @ k.transpose(-1, -2)).view(*q[:, :, rows].shape[:3], k.size(2))  # (B, H, rows, S)
    wide = torch.promote_types(scores.dtype, torch.float32)
    if bias is not None:
        extra = bias(rows)[..., columns]
        scores = scores + (extra if site is None else see(site, "bias", extra)).to(scores.dtype)
    visible = mask.draw(rows, columns)
    if visible is not None:
        # Added, since on a CPU that is several times as fast as to fill by booleans. A very low number, not -inf: exp
        # underflows to an exact 0 all the same, and a row of nothing stays finite.
        hidden = torch.zeros(visible.shape, dtype=wide, device=scores.device)
        scores = scores + hidden.masked_fill_(~visible, torch.finfo(wide).min / 2)
    if site is not None:
        scores = see(site, "scores", scores)
    weights = scores.softmax(-1, dtype=wide).to(v.dtype)
    if visible is not None and mask.may_hide_all:
        weights = weights * visible.any(-1, keepdim=True).to(weights.dtype)
    if site is not None:
        weights = see(site, "weights", weights)
    weights = F.dropout(weights, dropout) if dropout else weights
    out = weights.view(q.size(0), k.size(1), shared.size(2), k.size(2)) @ v  # (B, K, H/K * rows, d)
    return out.view(q.size(0), n_heads, -1, v.size(3))  # (B, H, rows, d)


def narrow(x: Tensor) -> Tensor:
    """x in the dtype that autocast gives it at every product it enters: cast here once, not once a product."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def by_heads(x: Tensor, heads: int, norm: nn.Module | None = None) -> Tensor:
    """x (B, T, H * d) -> (B, H, T, d), each head normed where there is a norm."""
    x = x.view(x.size(0), x.size(1), heads, x.size(2) // heads)
    return (x if norm is None else norm(x)).transpose(1, 2)


def gathered(x: Tensor, lies: Tensor) -> Tensor:
    """x (P, K, S, d) -> (B, K, S, d): place s of row b is that of row lies[b, s]."""
    return x[lies, :, torch.arange(lies.size(1), device=x.device)].transpose(1, 2)


class HeadNorm(nn.RMSNorm):
    """RMSNorm over a head's width, in the dtype that autocast gave its product: torch's kernel wants one for both."""

    def forward(self, x: Tensor) -> Tensor:
        """x (.., d) -> the same shape and dtype."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    """Multi-head attention (2.5): Q = X W_Q, K = M W_K, V = M W_V by heads, attend, concat, W_O.

    M is X itself in self-attention and the encoder's output in cross-attention; chapter 18's context vector is the same
    sum, with the decoder's state as its one query.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, bias = config.head_width, config.has_bias("qkv")
        self.n_heads, self.kv_heads, self.scale, self.dropout = (
            config.n_heads, config.kv_heads, config.scale, config.attn_dropout,
        )  # fmt: skip
        self.q = nn.Linear(config.d_model, config.n_heads * width, bias=bias)
        self.k = nn.Linear(config.d_model, config.kv_heads * width, bias=bias)
        self.v = nn.Linear(config.d_model, config.kv_heads * width, bias=bias)
        self.o = nn.Linear(config.n_heads * width, config.d_model, bias=config.has_bias("o"))
        self.q_norm = HeadNorm(width, eps=config.norm_eps) if config.qk_norm else None
        self.k_norm = HeadNorm(width, eps=config.norm_eps) if config.qk_norm else None

    def queries(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, H, T, d)."""
        return by_heads(self.q(x), self.n_heads, self.q_norm)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, S, D) -> keys and values, each (B, K, S, d)."""
        return by_heads(self.k(x), self.kv_heads, self.k_norm), by_heads(self.v(x), self.kv_heads)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of the same tokens, for self-attention: x (B, T, D) -> (B, H, T, d) and twice (B, K, T, d)."""
        return (self.queries(x), *self.keys_values(x))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None = None, lies: Tensor | None = None
    ) -> Tensor:
        """Attend from q (B, H, T, d) to k, v (B, K, S, d) and join the heads -> (B, T, D).

        With lies (B, S), key s of row b is that of row lies[b, s] of k, v (P, K, S, d).
        """
        if lies is not None:
            k, v = gathered(k, lies), gathered(v, lies)
        # Offered here and not where they are projected: turned by their positions, and those of a cache among them.
        q, k, v = see(self, "q", q), see(self, "k", k), see(self, "v", v)
        z = see(self, "z", self.attend(q, k, v, mask, bias))  # (B, H, T, d)
        return see(self, "out", self.o(z.transpose(1, 2).flatten(2)))  # (B, T, D)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        """softmax(Q K^T * scale + bias) V by heads: q (B, H, T, d), k, v (B, K, S, d) -> (B, H, T, d)."""
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, mask, scale=self.scale, bias=bias, dropout=dropout, site=self)
