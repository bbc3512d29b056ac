"""Laws 15, 16, 18, 19, 24 and 33: a loss is a sum and a count, over micro-batches, ranks and evaluation batches alike.

Run as a script, this file is one rank of law 16.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

import regard
from regard.data import Batch, collate
from regard.model import Model, TransformerConfig, make_language_model
from regard.tasks import translation
from regard.tasks.translation import TranslationData, TranslationTask
from regard.text import Tokenizer
from regard.training.step import TrainStep, add_gradients

PAD, BOS, EOS = 0, 1, 2
CLOSE = {"rtol": 0.0, "atol": 1e-9}
Pair = tuple[list[int], list[int]]


def tiny() -> Model:
    torch.manual_seed(7)
    config = TransformerConfig(
        vocab_size=23, d_model=12, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, max_len=64
    )  # fmt: skip
    return make_language_model(config).double()


def pairs(target_lengths: list[int]) -> list[Pair]:
    """Random pairs whose targets have these lengths, ends included."""
    random = torch.Generator().manual_seed(3)
    lengths = [(n + 2, n - 1) for n in target_lengths]
    return [tuple(torch.randint(3, 23, (n,), generator=random).tolist() for n in both) for both in lengths]


def batch_of(rows: list[Pair]) -> Batch:
    return collate([s for s, _ in rows], [t for _, t in rows], pad_id=PAD, bos_id=BOS, eos_id=EOS)


def gradients(micro_batches: list[Batch], smoothing: float = 0.1) -> tuple[dict[str, Tensor], float, int]:
    """What `add_gradients` adds to a fresh tiny model, and what it returns."""
    step = TrainStep(tiny(), TranslationTask(smoothing))
    total, count = add_gradients(step, micro_batches)
    return {name: p.grad for name, p in step.model.named_parameters()}, total, count


def assert_same(ours: tuple[dict[str, Tensor], float, int], theirs: tuple[dict[str, Tensor], float, int]) -> None:
    assert ours[1] == pytest.approx(theirs[1], abs=1e-9) and ours[2] == theirs[2]
    assert max(float(g.abs().max()) for g in theirs[0].values()) > 1e-3
    torch.testing.assert_close(ours[0], theirs[0], **CLOSE)


LENGTHS = [3, 30, 4, 17, 29, 5, 11, 30]


def test_law_15_accumulated_batches_are_one_batch() -> None:
    """4 of 2 rows, each padded to its own width, or cut out of the one of 8, and parts of unequal size."""
    rows = pairs(LENGTHS)
    whole = gradients([batch_of(rows)])
    assert whole[2] == sum(LENGTHS)
    assert_same(gradients([batch_of(rows[i : i + 2]) for i in range(0, 8, 2)]), whole)
    assert_same(gradients(batch_of(rows).split(4)), whole)
    assert_same(gradients([batch_of(rows[:1]), batch_of(rows[1:])]), whole)


def test_law_15_is_not_a_mean_of_means() -> None:
    """The rows do have gradients of their own, so that averaging them without their counts would show."""
    rows = pairs([3, 30])
    apart, (whole, *_) = [gradients([batch_of([row])])[0] for row in rows], gradients([batch_of(rows)])
    name = "transformer.tokens.weight"
    assert ((apart[0][name] + apart[1][name]) / 2 - whole[name]).abs().max() > 1e-3


DEALT = {
    "3 tokens and 30": ([[3]], [[30]]),
    "two micro-batches and one": ([[5, 9], [4]], [[30, 3]]),
    "one row, and nothing": ([[12]], [[]]),
}
"""By name: the target lengths of each micro-batch of each of two ranks."""


def test_law_16_two_ranks_are_one_process(ranks: list[dict[str, dict[str, Tensor]]]) -> None:
    for name, shares in DEALT.items():
        together = [batch for micro_batches in dealt(shares) for batch in micro_batches]
        whole, total, count = gradients(together)
        for rank in ranks:
            found = dict(rank[name])
            numbers = found.pop("total and count").tolist()
            assert_same((found, numbers[0], int(numbers[1])), (whole, total, count))


def dealt(shares: tuple[list[list[int]], ...]) -> list[list[Batch]]:
    """The micro-batches of each rank: all different pairs."""
    rows = iter(pairs([n for share in shares for lengths in share for n in lengths]))
    return [[batch_of([next(rows) for _ in lengths]) for lengths in share] for share in shares]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    """By rank and by name of the deal: the gradients, and what was returned beside them."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder)], env=environment, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        for process in running:
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said
    finally:
        for process in running:
            process.kill()
    found = []
    for rank in range(2):
        by_deal: dict[str, dict[str, Tensor]] = {name: {} for name in DEALT}
        for key, tensor in load_file(folder / f"{rank}.safetensors").items():
            deal, name = key.split("|")
            by_deal[deal][name] = tensor
        found.append(by_deal)
    return found


def one_rank(rank: int, folder: Path) -> None:
    """Every deal, one after the other; a file to meet at leaves no port to be taken by somebody else."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    results: dict[str, Tensor] = {}
    for deal, shares in DEALT.items():
        found, total, count = gradients(dealt(shares)[rank])
        results |= {f"{deal}|{name}": gradient for name, gradient in found.items()}
        results[f"{deal}|total and count"] = torch.tensor([total, count], dtype=torch.float64)
    save_file(results, folder / f"{rank}.safetensors")
    dist.destroy_process_group()


def test_law_18_one_supervised_end_for_each_target() -> None:
    batch = batch_of(pairs(LENGTHS))
    supervised = batch.tgt_out[batch.tgt_real]
    assert (supervised == EOS).sum() == len(LENGTHS) and len(supervised) == batch.count
    assert all(row[real][-1] == EOS for row, real in zip(batch.tgt_out, batch.tgt_real, strict=True))


def test_law_19_shifted_by_one_and_no_pad_in_the_loss() -> None:
    """Target "a b": the decoder is given <s> a b and must say a b </s>; what stands on padding is nobody's business."""
    batch = batch_of([([9], [5, 6]), ([8], [5, 6, 7, 8])])
    assert batch.tgt_in[0, :3].tolist() == [BOS, 5, 6] and batch.tgt_out[0, :3].tolist() == [5, 6, EOS]
    assert batch.count == 8
    before = gradients([batch])
    for ids, real in ((batch.src, batch.src_real), (batch.tgt_in, batch.tgt_real), (batch.tgt_out, batch.tgt_real)):
        ids.masked_fill_(~real, 17)
    assert_same(gradients([batch]), before)


def data(tokenizer: Tokenizer, n: int = 23) -> TranslationData:
    rows = pairs([3 + (5 * i) % 17 for i in range(n)])
    ids = [s for s, _ in rows], [t for _, t in rows]
    return TranslationData(tokenizer, ids, ids, tokens_per_batch=60, seed=1, multiple=4, max_len=32)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["abcdefghijklmnopqrstuvwxyz"], kind="chars", vocab_size=40)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_law_24_every_pair_once_an_epoch_over_all_ranks(world: int, tokenizer: Tokenizer) -> None:
    """And the ranks' parts of a step are the step's batch, whatever their number."""
    pairs_of = data(tokenizer)
    expected = sorted(tuple(s) for s in pairs_of.train[0])
    for epoch in range(2):
        seen: list[tuple[int, ...]] = []
        for step in range(epoch * pairs_of.batches_per_epoch, (epoch + 1) * pairs_of.batches_per_epoch):
            parts = [pairs_of.batch(step, rank, world) for rank in range(world)]
            rows = [tuple(row[real][:-1].tolist()) for b in parts for row, real in zip(b.src, b.src_real, strict=True)]
            whole = pairs_of.batch(step)
            assert sorted(rows) == sorted(
                tuple(s[r][:-1].tolist()) for s, r in zip(whole.src, whole.src_real, strict=True)
            )
            assert sum(part.count for part in parts) == whole.count
            seen += rows
        assert sorted(seen) == expected


def test_law_33_evaluation_is_the_same_for_any_batch_size(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is the mean over tokens, not over batches: exp of it is the perplexity, exp(total nll / total tokens)."""
    torch.manual_seed(7)
    config = TransformerConfig(
        vocab_size=max(23, tokenizer.vocab_size), d_model=12, n_heads=2, d_ff=16, n_encoder_layers=1,
        n_decoder_layers=1, max_len=64, dropout=0.3,
    )  # fmt: skip
    model, pairs_of = make_language_model(config).double().train(), data(tokenizer)
    losses = []
    for size in (1, 7, 1000):
        monkeypatch.setattr(translation, "EVALUATED_TOGETHER", size)
        losses.append(pairs_of.evaluate(model)["dev_loss"])
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-9)
    assert model.training
    nll, tokens = one_by_one(model.eval(), pairs_of)
    assert math.exp(losses[0]) == pytest.approx(math.exp(nll / tokens), rel=1e-9)


@torch.no_grad()
def one_by_one(model: Model, pairs_of: TranslationData) -> tuple[float, int]:
    """The negative log-likelihood of the development targets, each alone and without padding, by torch's own loss."""
    t, total, count = pairs_of.tokenizer, 0.0, 0
    for source, target in zip(*pairs_of.dev, strict=True):
        memory = model.transformer.encode(torch.tensor([[*source, t.eos_id]]))
        hidden = model.transformer.decode(torch.tensor([[t.bos_id, *target]]), model.transformer.start(memory))
        wanted = torch.tensor([*target, t.eos_id])
        total += float(F.cross_entropy(model.logits(hidden)[0], wanted, reduction="sum"))
        count += len(wanted)
    return total, count


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), Path(sys.argv[2]))
