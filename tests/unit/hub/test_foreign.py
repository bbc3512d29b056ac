"""Another tool's folder opens as the model it is, in whichever of its forms, or is refused by the name of the fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import commit_folder
from regard.hub.families.bert import BERT
from regard.hub.families.llama import LLAMA
from regard.hub.families.marian import MARIAN
from regard.hub.fields import Fields
from regard.hub.folder import describe_model, load_model, write_model
from regard.hub.keymap import Family, to_theirs
from regard.hub.weights import INDEX, WEIGHTS, state_tensors
from regard.model import Learned, Model, Sinusoidal, TransformerConfig, make_model

GPT2 = Callable[..., Path]
POST = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 12, "norm_order": "post", "activation": "gelu"}


def configured(folder: Path, **changes: object) -> Path:
    """The folder with other fields in its config.json; None takes a field out."""
    config = json.loads((folder / "config.json").read_text()) | changes
    kept = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    return folder


def edited(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> Path:
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS)
    return folder


def folder_of(
    family: Family, config: TransformerConfig, head: str, folder: Path, template: str = "$A </s>"
) -> tuple[Path, Model]:
    """A random model of our own as a folder of the family, with a vocabulary of words, and the model."""
    folder.mkdir()
    model = make_model(config, head)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    save_file(to_theirs(family.rows(config, head), state_tensors(model), config)[0], folder / WEIGHTS)
    fields = {"model_type": family.model_types[0], **family.write(config, head)}
    (folder / "config.json").write_text(json.dumps(fields))
    vocab = {token: i for i, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", *"abcdef"])}
    backend = Backend(models.WordLevel(vocab, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens(["<pad>", "<s>", "</s>", "<unk>"])
    backend.post_processor = processors.TemplateProcessing(
        single=template, pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    backend.save(str(folder / "tokenizer.json"))
    roles = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(roles))
    return folder, model


def same(one: Model, other: Model) -> bool:
    """Equal to the last bit, whole and in the same memory layout."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) and b[name].is_contiguous() for name in a)


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    assert caught.value.exit_code == 4
    return str(caught.value)


# ---------------------------------------------------------------- what opens


def test_gpt2_opens_with_its_facts(gpt2: GPT2) -> None:
    folder = gpt2()
    found, stored = load_model(folder), load_file(folder / WEIGHTS)
    weights = found.model.state_dict()
    assert torch.equal(weights["transformer.tokens.weight"], stored["wte.weight"])
    queries = weights["transformer.decoder.layers.1.self_attn.q.weight"]
    assert torch.equal(queries, stored["h.1.attn.c_attn.weight"][:, :24].T)
    assert found.about == {
        "task": "language-model",
        "family": "GPT-2",
        "languages": [None, None],
        "conventions": {"start": None, "ends": [0], "lead": [], "forced": []},
    }
    assert found.notes == () and not found.model.training and found.target_tokenizer is found.tokenizer
    assert found.tokenizer.decode(found.tokenizer.encode("a longer text")) == "a longer text"
    ids = torch.arange(8)[None]
    assert found.model.logits(found.model.transformer.decode(ids, found.model.transformer.start())).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_width_of_number_becomes_float32(gpt2: GPT2, dtype: torch.dtype) -> None:
    folder = gpt2(dtype=dtype, torch_dtype="float16")
    weights, stored = load_model(folder).model.state_dict(), load_file(folder / WEIGHTS)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert torch.equal(weights["transformer.tokens.weight"], stored["wte.weight"].float())
    assert torch.equal(weights["transformer.decoder.layers.0.ffn.up.weight"], stored["h.0.mlp.c_fc.weight"].T.float())


@pytest.mark.parametrize(
    "change",
    [
        {"n_inner": None, "bos_token_id": None, "layer_norm_epsilon": None},
        {"n_inner": 96, "dtype": "float32", "scale_attn_weights": True},
        {"torch_dtype": None, "eos_token_id": [0], "tie_word_embeddings": True},
        {"n_ctx": 32, "task_specific_params": {"text-generation": {"max_length": 50}}, "summary_type": "cls_index"},
    ],
)
def test_a_config_may_lack_fields_or_have_more(gpt2: GPT2, change: dict[str, object]) -> None:
    plain = gpt2("plain")
    torch.manual_seed(0)  # the same weights again
    varied = configured(gpt2("varied"), **change)
    save_file(load_file(plain / WEIGHTS), varied / WEIGHTS)
    assert same(load_model(plain).model, load_model(varied).model)


def test_names_with_the_prefix_of_the_base_model_and_buffers(gpt2: GPT2) -> None:
    bare = gpt2("bare")
    full = gpt2("full")
    tensors = {f"transformer.{name}": tensor for name, tensor in load_file(bare / WEIGHTS).items()}
    tensors |= {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 32, 32) for i in range(2)}
    tensors["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, full / WEIGHTS)
    found = load_model(full)
    assert same(found.model, load_model(bare).model) and found.notes == ()
    assert describe_model(full).n_parameters == sum(p.numel() for p in found.model.parameters())


def test_shards_are_one_model(gpt2: GPT2) -> None:
    whole, sharded = gpt2("whole"), gpt2("sharded")
    tensors = load_file(whole / WEIGHTS)
    (sharded / WEIGHTS).unlink()
    placed = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for shard in set(placed.values()):
        save_file({name: tensors[name] for name in tensors if placed[name] == shard}, sharded / shard)
    (sharded / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": placed}))
    assert same(load_model(sharded).model, load_model(whole).model)


def test_a_tied_output_may_be_stored_once_more_or_alone(gpt2: GPT2) -> None:
    once = load_model(gpt2("once")).model
    embedding = load_file(gpt2("more") / WEIGHTS)["wte.weight"]
    more = edited(gpt2("twice"), lambda t: t.update({"lm_head.weight": t["wte.weight"].clone()}))
    assert describe_model(more).n_parameters == sum(p.numel() for p in once.parameters())
    alone = edited(gpt2("alone"), lambda t: t.update({"lm_head.weight": t.pop("wte.weight")}))
    before = load_file(alone / WEIGHTS)["lm_head.weight"]
    assert torch.equal(load_model(alone).model.transformer.tokens.weight, before)
    load_model(more)

    other = edited(more, lambda t: t["lm_head.weight"].view(-1)[-1:].add_(1))
    message = refusal(other)
    assert "lm_head.weight" in message and "transformer.wte.weight" in message and "tie_word_embeddings" in message
    untied = load_model(configured(other, tie_word_embeddings=False)).model
    assert torch.equal(untied.head.weight, load_file(other / WEIGHTS)["lm_head.weight"])
    assert not torch.equal(untied.head.weight, untied.transformer.tokens.weight)
    assert embedding.shape == before.shape


def test_what_a_model_has_no_use_for_is_told(tmp_path: Path) -> None:
    config = TransformerConfig(**POST, n_encoder_layers=1, positions=Learned(), max_len=10, n_token_types=2,
                               embed_norm=True, head_bias=True, norm_eps=1e-12)  # fmt: skip
    folder, model = folder_of(BERT, config, "masked-lm", tmp_path / "hf", "<s> $A </s>")
    edited(folder, lambda t: t.update({"bert.pooler.dense.weight": torch.ones(8, 8)}))
    found = load_model(folder)
    assert same(model, found.model) and found.about["task"] == "masked-lm"
    (note,) = found.notes
    assert "left out" in note and "bert.pooler.dense.weight" in note
    assert describe_model(folder).n_parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("head", ["pooler", "none"])
def test_an_encoder_without_words_to_say_embeds(tmp_path: Path, head: str) -> None:
    config = TransformerConfig(**POST, n_encoder_layers=1, positions=Learned(), max_len=10, n_token_types=2,
                               embed_norm=True, norm_eps=1e-12)  # fmt: skip
    folder, model = folder_of(BERT, config, head, tmp_path / "hf", "<s> $A </s>")
    found = load_model(folder)
    assert same(model, found.model) and found.about["task"] == "embedding" and "length_ratio" not in found.about
    ours = tmp_path / "ours"
    commit_folder(ours, lambda draft: write_model(draft, found.model, found.tokenizer, found.about))
    again = load_model(ours)
    assert type(again.model.head) is type(model.head) and same(again.model, model)


# ---------------------------------------------------------------- how outputs begin and end


def marian(folder: Path, template: str = "$A </s>", **more: Any) -> tuple[Path, Model]:
    config = TransformerConfig(**POST, n_encoder_layers=1, n_decoder_layers=1, positions=Sinusoidal(layout="split"),
                               max_len=16, head_bias=True, **more)  # fmt: skip
    return folder_of(MARIAN, config, "language-model", folder, template)


@pytest.mark.parametrize(
    ("of_model", "of_generation", "template", "expected"),
    [
        ({"decoder_start_token_id": 0, "eos_token_id": 2}, None, "$A </s>", (0, [2], [], [])),
        ({"decoder_start_token_id": 0, "eos_token_id": 2}, {"eos_token_id": [2, 5]}, "<s> $A", (0, [2, 5], [1], [])),
        ({"decoder_start_token_id": 0}, {"decoder_start_token_id": 2, "forced_bos_token_id": 1}, "$A",
         (2, [2], [], [1])),
        ({"bos_token_id": 1, "eos_token_id": 10_000, "forced_bos_token_id": None}, {}, "$A", (1, [2], [], [])),
    ],
)  # fmt: skip
def test_the_conventions_of_a_translator(
    tmp_path: Path, of_model: dict[str, Any], of_generation: dict[str, Any] | None, template: str, expected: Any
) -> None:
    folder, _ = marian(tmp_path / "hf", template)
    configured(folder, **of_model)
    if of_generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(of_generation))
    about = load_model(folder).about
    assert about["task"] == "translation" and about["length_ratio"] == 3.0
    assert tuple(about["conventions"][name] for name in ("start", "ends", "lead", "forced")) == expected


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"decoder_start_token_id": None}, "which token an output starts with"),
        ({"decoder_start_token_id": 20}, "below 20"),
        ({"decoder_start_token_id": "0"}, "decoder_start_token_id"),
        ({"decoder_start_token_id": 0, "eos_token_id": [2, -1]}, "eos_token_id"),
        ({"decoder_start_token_id": 0, "forced_bos_token_id": True}, "forced_bos_token_id"),
    ],
)
def test_conventions_that_cannot_be(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    folder, _ = marian(tmp_path / "hf")
    assert says in refusal(configured(folder, **change))


def test_two_vocabularies_stay_two(tmp_path: Path) -> None:
    folder, model = marian(tmp_path / "hf", decoder_vocab_size=24)
    configured(folder, decoder_start_token_id=0)
    found = load_model(folder)
    assert same(model, found.model) and found.model.config.target_vocab_size == 24
    other = Backend.from_file(str(folder / "tokenizer.json"))
    other.add_tokens(["g", "h"])
    spoken = type(found.tokenizer).of(other, {"eos": "</s>"})
    ours = tmp_path / "ours"
    commit_folder(
        ours,
        lambda draft: write_model(draft, found.model, found.tokenizer, found.about, target_tokenizer=spoken),
    )
    again = load_model(ours)
    assert again.target_tokenizer.encode("g") == [10] and again.tokenizer.encode("g") == [3]
    assert again.about == found.about and same(again.model, model)


# ---------------------------------------------------------------- what is refused


def test_all_that_does_not_fit_is_one_table_in_their_names(gpt2: GPT2) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        del tensors["h.1.ln_2.bias"]
        tensors["h.0.mlp.c_fc.weight"] = torch.zeros(96, 24)  # as a Linear would have it
        tensors["h.0.attn.c_attn.bias"] = torch.zeros(72, dtype=torch.int32)
        tensors["h.2.ln_1.weight"] = torch.zeros(24)
        tensors["h.0.adapter.weight"] = torch.zeros(2)

    with pytest.raises(CheckpointError) as caught:
        load_model(edited(gpt2(), spoil))
    rows = [re.split(" {2,}", line.strip()) for line in str(caught.value.got).strip().split("\n")[1:]]
    assert {name: cells for name, *cells in rows} == {
        "transformer.h.0.adapter.weight": ["nothing", "float32 (2,)"],
        "transformer.h.0.attn.c_attn.bias": ["float32 (72,)", "int32 (72,)"],
        "transformer.h.0.mlp.c_fc.weight": ["float32 (24, 96)", "float32 (96, 24)"],
        "transformer.h.1.ln_2.bias": ["float32 (24,)", "missing"],
        "transformer.h.2.ln_1.weight": ["nothing", "float32 (24,)"],
    }


def test_one_weight_under_two_names(gpt2: GPT2) -> None:
    folder = edited(gpt2(), lambda t: t.update({"transformer.ln_f.bias": t["ln_f.bias"].clone()}))
    assert "two tensors are the same weight" in refusal(folder) and "ln_f.bias" in refusal(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "gpt3"}, "did you mean gpt2?"),
        ({"model_type": None}, "names no model_type"),
        ({"model_type": ["gpt2"]}, "does not know"),
        ({"text_config": {"n_embd": 24}}, "several parts"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "bitsandbytes"),
        ({"quantization_config": "gptq"}, "gptq"),
        ({"n_embd": None}, "config.json: the configuration lacks a field"),
        ({"n_embd": "24"}, "config.json: n_embd: a field has another type"),
        ({"activation_function": "mish"}, "config.json: activation_function"),
        ({"activation_function": "mish"}, "to mend it: use this model with transformers"),
        ({"activation_function": "gelu_neww"}, "did you mean gelu_new?"),
        ({"n_embd": None}, "to mend it: write n_embd into it"),
        ({"n_embd": "24"}, "to mend it: correct it in config.json"),
        ({"eos_token_id": "</s>"}, "to mend it: write the number"),
        ({"scale_attn_by_inverse_layer_idx": True}, "config.json: scale_attn_by_inverse_layer_idx"),
    ],
)
def test_a_config_that_has_no_counterpart(gpt2: GPT2, change: dict[str, object], says: str) -> None:
    folder = configured(gpt2(), **change)
    message = refusal(folder)
    assert says in message and str(folder) in message


def test_a_vocabulary_beyond_the_model(gpt2: GPT2) -> None:
    folder = gpt2(vocab_size=256)
    size = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    message = refusal(folder)
    assert "no vector for" in message and "at most 256 ids" in message and f"got: {size}" in message


def test_numbers_that_are_none_are_refused_unless_allowed(gpt2: GPT2) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        tensors["h.0.attn.c_attn.weight"][3, :2] = float("nan")
        tensors["wte.weight"][0, 0] = float("inf")

    folder = edited(gpt2(), spoil)
    message = refusal(folder)
    assert "2 of 28 tensors" in message and "transformer.h.0.attn.c_attn.weight  2" in message
    weights = load_model(folder, allow_nonfinite=True).model.state_dict()
    assert weights["transformer.decoder.layers.0.self_attn.q.weight"][:2, 3].isnan().all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rope_theta": 0}, "rope_theta"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rms_norm_eps": 0}, "norm_eps"),
        ({"num_key_value_heads": 0}, "n_kv_heads"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.0}}, "factor"),
    ],
)
def test_a_zero_in_a_config_is_no_missing_field(change: dict[str, Any], says: str) -> None:
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
    fields = {**sizes, "num_hidden_layers": 1, "max_position_embeddings": 32}
    assert LLAMA.read(Fields(fields), ()).config.norm_eps == 1e-6
    with pytest.raises(ConfigError) as caught:
        LLAMA.read(Fields(fields | change), ())
    assert says in str(caught.value)


def test_a_renamed_tensor_is_asked_after(gpt2: GPT2) -> None:
    def rename(tensors: dict[str, Tensor]) -> None:
        tensors["h.0.ln_1.wieght"] = tensors.pop("h.0.ln_1.weight")

    message = refusal(edited(gpt2(), rename))
    assert "did you mean transformer.h.0.ln_1.weight by transformer.h.0.ln_1.wieght?" in message
    assert "with the config.json" not in message


def test_an_output_that_is_not_there(gpt2: GPT2) -> None:
    message = refusal(configured(gpt2(), tie_word_embeddings=False))
    assert "1 of the tensors does not fit" in message and '"tie_word_embeddings" is false' in message


def test_a_head_and_ends_of_which_nothing_is_here_are_told(gpt2: GPT2) -> None:
    folder = gpt2(architectures=["GPT2ForSequenceClassification"], eos_token_id=[0, 99_999])
    classifier, end = sorted(load_model(folder).notes)
    assert "GPT2ForSequenceClassification" in classifier and "GPT2LMHeadModel" in classifier
    assert "99999" in end and load_model(folder).about["conventions"]["ends"] == [0]
    assert load_model(configured(folder, architectures=["GPT2LMHeadModel"], eos_token_id=0)).notes == ()


def test_a_mark_before_the_json(gpt2: GPT2) -> None:
    plain = load_model(gpt2()).model
    folder = gpt2("marked")
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert load_model(folder).model.config == plain.config


def test_half_a_file_says_how_to_mend_it(gpt2: GPT2) -> None:
    folder = gpt2()
    (folder / "generation_config.json").write_text('{"eos_token_id": ')
    assert "generation_config.json" in refusal(folder) and "to mend it: copy" in refusal(folder)


def test_a_model_of_ctranslate2_is_called_by_its_name(tmp_path: Path) -> None:
    for name, content in (("model.bin", ""), ("vocabulary.json", "[]"), ("config.json", '{"bos_token": "<s>"}')):
        (tmp_path / name).write_text(content)
    assert "a model of CTranslate2" in refusal(tmp_path)
    (tmp_path / "config.json").unlink()
    assert "a model of CTranslate2" in refusal(tmp_path)


# ---------------------------------------------------------------- memory

MEASURE = """
import ctypes, sys, threading
from pathlib import Path
from regard.hub.atomic import commit_folder
from regard.hub.folder import describe_model, load_model, write_model

def held():  # not what is mapped of libraries: how much of that is there is the kernel's affair
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

def watch(done, peaks):
    while not done.wait(0.001):
        peaks.append(held())

def work(folder):
    found = load_model(folder)
    commit_folder(folder / "out", lambda draft: write_model(draft, found.model, found.tokenizer, found.about))

small, *large = map(Path, sys.argv[1:])
work(small)  # what the libraries load when they are first used is no part of it
for folder in large:
    ctypes.CDLL(None).malloc_trim(0)
    before, peaks, done = held(), [], threading.Event()
    watcher = threading.Thread(target=watch, args=(done, peaks))
    watcher.start()
    work(folder)
    done.set()
    watcher.join()
    print((max(peaks) - before) / describe_model(folder).nbytes)
"""


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel keeps no such number")
def test_a_checkpoint_is_never_in_memory_twice(gpt2: GPT2) -> None:
    # 130 MB in float32: what else a process may take meanwhile, some 15 MB, is little beside it
    sizes = {"n_embd": 480, "n_layer": 12}
    folders = [gpt2("small"), gpt2("large", **sizes), gpt2("half", dtype=torch.bfloat16, **sizes)]
    command = [sys.executable, "-c", MEASURE, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for share in map(float, done.stdout.split()):
        assert 0.9 < share < 1.7  # twice would be 2 and more
