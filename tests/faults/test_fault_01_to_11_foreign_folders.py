"""Faults 1 to 5, 7, 8 and 11 in somebody else's folder: `regard import` names them, ends with 4, and writes nothing.

(Fault 6 and 14 have files of their own. Fault 10, chat templates: none is ever rendered; they are not even read.)
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.cli.main import main
from regard.hub.atomic import MANIFEST
from regard.text import Tokenizer

Refused = Callable[..., str]
GPT2 = Callable[..., Path]


@pytest.fixture
def refused(tmp_path: Path, one_thread: None, capsys: pytest.CaptureFixture[str]) -> Refused:
    """`refused(folder)` imports it and must fail; the error's text."""

    def run(folder: Path, verb: str = "import") -> str:
        capsys.readouterr()
        words = [verb, str(folder)] + [str(tmp_path / "out")] * (verb == "import")
        assert main([*words, "--threads", "1"]) == 4
        out, err = capsys.readouterr()
        assert out == "" and "Traceback" not in err and not (tmp_path / "out").exists()
        return err

    return run


def configured(folder: Path, **changes: object) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


# ---------------------------------------------------------------- 1 to 5: the files


def test_1_a_header_length_beyond_all_bounds(gpt2: GPT2, refused: Refused) -> None:
    path = gpt2() / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes((2**63).to_bytes(8, "little") + whole[8:])
    assert "the header is too long" in refused(path.parent)
    path.write_bytes(whole[:-1])
    assert "is cut off" in refused(path.parent)
    path.write_bytes(whole[:100])
    assert "truncated within its header" in refused(path.parent)


def test_2_a_tensor_named_twice(gpt2: GPT2, refused: Refused) -> None:
    path = gpt2() / "model.safetensors"
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + length].replace(b'"h.0.ln_2.weight"', b'"h.0.ln_1.weight"')
    path.write_bytes(whole[:8] + header + whole[8 + length :])
    assert "the key 'h.0.ln_1.weight' appears twice" in refused(path.parent)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_2_weights_that_are_no_numbers(gpt2: GPT2, refused: Refused, dtype: torch.dtype) -> None:
    path = gpt2(dtype=dtype) / "model.safetensors"
    tensors = load_file(path)
    tensors["h.1.mlp.c_proj.weight"][5, 7] = float("-inf")
    save_file(tensors, path)
    message = refused(path.parent)
    assert "h.1.mlp.c_proj.weight" in message and "--allow-nonfinite" in message


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 1044992\n", "Git-LFS pointer"),
        (b"<!DOCTYPE html>\n<html><title>404</title></html>", "HTML page"),
        (b"PK\x03\x04\x14\x00\x00\x00", "zip archive"),
        (pickle.dumps({"wte.weight": [1.0]}), "pickle"),
    ],
    ids=["git-lfs", "html", "zip", "pickle"],
)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_3_something_else_under_the_name(gpt2: GPT2, refused: Refused, name: str, content: bytes, kind: str) -> None:
    folder = gpt2()
    (folder / name).write_bytes(content)
    message = refused(folder)
    assert str(folder / name) in message and kind in message


def test_4_a_flipped_bit_in_an_imported_folder(gpt2: GPT2, tmp_path: Path, refused: Refused) -> None:
    ours = tmp_path / "ours"
    assert main(["import", str(gpt2()), str(ours)]) == 0
    for victim in sorted(path for path in ours.iterdir() if path.name != MANIFEST):
        content = victim.read_bytes()
        damaged = bytearray(content)
        damaged[len(content) // 2] ^= 1
        victim.write_bytes(damaged)
        assert str(victim) in refused(ours, "doctor")
        victim.write_bytes(content)


class Bomb:
    """Unpickling this makes the folder `pwned`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.place / "pwned"),)


def test_5_weights_in_a_pickle(gpt2: GPT2, refused: Refused) -> None:
    folder = gpt2()
    (folder / "model.safetensors").unlink()
    torch.save({"wte.weight": Bomb(folder)}, folder / "pytorch_model.bin")
    message = refused(folder)
    assert "pytorch_model.bin, a pickle" in message and "weights_only=True" in message
    assert not (folder / "pwned").exists()


# ---------------------------------------------------------------- 7 and 8: the configuration and what is beside it


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_embd": 3 * 10**12}, "parameters"),
        ({"vocab_size": 10**12}, "TB in float32"),
        ({"n_layer": 10**12}, "TB in float32"),
        ({"n_layer": 10**7}, "tensors for 10,000,000 layers"),
        ({"n_layer": -1}, "n_decoder_layers = -1"),
        ({"n_head": 0}, "n_heads"),
        ({"n_head": 5}, "24 / 5 = 4.80"),
        ({"n_embd": -24}, "-24"),
        ({"n_positions": 0}, "max_len"),
        ({"n_embd": 24.0}, "n_embd: a field has another type"),
        ({"n_head": 5}, "n_head = 5,"),
        ({"n_inner": 0}, "n_inner = 0"),
        ({"n_positions": 10**15}, "at most 1,000,000,000"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon = nan"),
        ({"layer_norm_epsilon": -1e-5}, "norm_eps: a number must be above 0"),
        ({"layer_norm_epsilon": 0.0}, "norm_eps: a number must be above 0"),
        ({"vocab_size": True}, "vocab_size: a field has another type"),
    ],
)
def test_7_sizes_that_cannot_be(gpt2: GPT2, refused: Refused, changes: dict[str, object], says: str) -> None:
    folder = configured(gpt2(), **changes)
    message = refused(folder)
    assert says in message and str(folder) in message


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n_layer": 3}, "transformer.h.2.ln_1.weight"),
        ({"n_layer": 1}, "transformer.h.1.ln_1.weight"),
        ({"n_inner": 100}, "transformer.h.0.mlp.c_fc.weight"),
        ({"vocab_size": 10**10}, "transformer.wte.weight"),
        ({"n_positions": 64}, "transformer.wpe.weight"),
        ({"tie_word_embeddings": False}, "lm_head.weight"),
    ],
)
def test_8_weights_of_another_configuration(
    gpt2: GPT2, refused: Refused, changes: dict[str, object], named: str
) -> None:
    message = refused(configured(gpt2(), **changes))
    assert named in message and re.search(r"(\b1 of the tensors does|\b(?!1 )\d+ of the tensors do) not fit", message)


def test_8_the_vocabulary_of_another_model(gpt2: GPT2, refused: Refused) -> None:
    folder = gpt2()
    Tokenizer.train(["".join(map(chr, range(0x4E00, 0x5200)))], kind="chars", vocab_size=1_100).save(folder)
    message = refused(folder)
    assert "no vector for" in message and "at most 320 ids" in message


# ---------------------------------------------------------------- 11: out of the folder


@pytest.mark.parametrize(
    "shard", ["../secret.safetensors", "x/../../secret.safetensors", "{outside}/secret.safetensors"]
)
def test_11_an_index_that_leads_out(gpt2: GPT2, refused: Refused, tmp_path: Path, shard: str) -> None:
    folder = gpt2()
    shutil.move(folder / "model.safetensors", tmp_path / "secret.safetensors")
    names = load_file(tmp_path / "secret.safetensors")
    index = {"weight_map": dict.fromkeys(names, shard.format(outside=tmp_path))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "leads out of the folder" in refused(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_11_a_link_that_leads_out(gpt2: GPT2, refused: Refused, tmp_path: Path, name: str) -> None:
    folder = gpt2()
    shutil.move(folder / name, tmp_path / f"elsewhere-{name}")
    (folder / name).symlink_to(tmp_path / f"elsewhere-{name}")
    message = refused(folder)
    assert "leads out of the folder" in message and "cp -rL" in message
