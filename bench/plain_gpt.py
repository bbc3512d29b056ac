"""A plain character language model in one file, in the style that people write by hand: what regard is timed against.

    python bench/plain_gpt.py [--iterations 2000] [--json FILE]

nanoGPT's CPU setting (its README: 4 layers, 4 heads, width 128, context 64, batch 12, no dropout, 2000 iterations,
validation loss 1.88), its optimizer (AdamW 1e-3, betas 0.9 and 0.99, weight decay 0.1, clip 1), its schedule (100
iterations of warm-up, cosine to 1e-4) and its evaluations (every 250 iterations, 20 batches of either split). At the
end the loss over all non-overlapping windows of the validation split. Nothing of regard is imported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12
PEAK, LEAST, WARMUP, EVERY, LOOKS = 1e-3, 1e-4, 100, 250, 20


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(WIDTH, -1)
        )
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(z.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                ends = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if ends else 0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(ids: Tensor) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(ids) - CONTEXT, (BATCH,)).tolist()
    return torch.stack([ids[i : i + CONTEXT] for i in starts]), torch.stack(
        [ids[i + 1 : i + 1 + CONTEXT] for i in starts]
    )


def rate(iteration: int, iterations: int) -> float:
    if iteration < WARMUP:
        return PEAK * (iteration + 1) / (WARMUP + 1)
    return LEAST + 0.5 * (1 + math.cos(math.pi * (iteration - WARMUP) / (iterations - WARMUP))) * (PEAK - LEAST)


@torch.no_grad()
def over_all_windows(model: Gpt, ids: Tensor) -> float:
    """Nats a character over the non-overlapping windows of CONTEXT characters; the rest at the end is left out."""
    windows = (len(ids) - 1) // CONTEXT
    x, y = ids[: windows * CONTEXT].view(-1, CONTEXT), ids[1 : windows * CONTEXT + 1].view(-1, CONTEXT)
    losses = [model(a, b) * len(a) for a, b in zip(x.split(64), y.split(64), strict=True)]
    return float(torch.stack(losses).sum() / windows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(1337)
    root = os.environ.get("REGARD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    text = (Path(root) / "tinyshakespeare" / "input.txt").read_text()
    letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
    ids = torch.tensor([letters[letter] for letter in text])
    train, held = ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]
    model = Gpt(len(letters))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.99), fused=True)
    spent, timed = 0.0, 0
    for iteration in range(args.iterations):
        if iteration % EVERY == 0:
            with torch.no_grad():
                for split in (train, held):
                    loss = sum(float(model(*batch(split))) for _ in range(LOOKS)) / LOOKS
            print(f"{iteration:5d}  validation {loss:.3f}  {time.monotonic() - began:6.1f} s", flush=True)
        start = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = rate(iteration, args.iterations)
        loss = model(*batch(train))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if iteration >= 10:
            spent, timed = spent + time.monotonic() - start, timed + 1
    seconds = time.monotonic() - began
    report = {
        "iterations": args.iterations, "seconds": round(seconds, 1),
        "iteration_ms": round(1000 * spent / max(1, timed), 2),
        "validation": round(over_all_windows(model, held), 4),
    }  # fmt: skip
    print(json.dumps(report))
    if args.json:
        args.json.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
