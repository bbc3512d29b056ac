"""llama.cpp in bench/inference.py: GPT-2 as a GGUF file by the conventions of its converter, run by its C interface.

The file in float32 is written with the package `gguf`; the other kinds are made of it by llama.cpp's own quantiser, as
its users do. A model without vocabulary is loaded, as only ids are given.
What is unusual: prompts are decoded as sequences of one batch, which the class `Llama` of llama-cpp-python does not do;
only the last token of each asks for logits. Keys and values are kept in float32 where the weights are, else in float16,
llama.cpp's default.
What it does not know: time.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from inference_models import Ids, made, sizes, writer_folder
from inference_peers import Writer

KINDS = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}
"""llama_ftype."""
FLOAT32, FLOAT16 = 0, 1
"""ggml_type."""
TRANSPOSED = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
NAMES = {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight",
         "ln_f.weight": "output_norm.weight", "ln_f.bias": "output_norm.bias"}  # fmt: skip
MOST = 1_024
"""Tokens of prompts decoded at once: all of the largest works'."""


def write_float(path: Path) -> None:
    """All weights in float32."""
    import gguf
    from safetensors.numpy import load_file

    size, writer = sizes(), gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(size.layers)
    writer.add_context_length(size.context)
    writer.add_embedding_length(size.width)
    writer.add_feed_forward_length(4 * size.width)
    writer.add_head_count(size.heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(KINDS["f32"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(size.vocabulary)
    for name, tensor in load_file(writer_folder() / "model.safetensors").items():
        if found := theirs(name.removeprefix("transformer."), tensor):
            writer.add_tensor(*found)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def theirs(name: str, tensor: np.ndarray) -> tuple[str, np.ndarray] | None:
    """A tensor of GPT-2's as llama.cpp has it; None for what it has no use for."""
    if name in NAMES:
        return NAMES[name], tensor
    if not name.startswith("h."):
        return None
    (
        _,
        layer,
        part,
    ) = name.split(".", 2)
    module, kind = part.rsplit(".", 1)
    if module in TRANSPOSED:
        tensor = np.ascontiguousarray(tensor.T) if kind == "weight" else tensor
        return f"blk.{layer}.{TRANSPOSED[module]}.{kind}", tensor
    if module in ("ln_1", "ln_2"):
        return f"blk.{layer}.{'attn' if module == 'ln_1' else 'ffn'}_norm.{kind}", tensor
    return None


def library() -> Any:
    """The C interface, silent."""
    import llama_cpp

    global _silent
    _silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p())
    return llama_cpp


_silent: Any = None
"""Kept, for the library keeps no more than its address."""


def write_kind(kind: str, path: Path) -> None:
    """By the library's quantiser."""
    llama = library()
    parameters = llama.llama_model_quantize_default_params()
    parameters.ftype = KINDS[kind]
    source = made("gpt2.f32.gguf", write_float)
    if llama.llama_model_quantize(str(source).encode(), str(path).encode(), ctypes.byref(parameters)):
        raise RuntimeError(f"llama.cpp writes no {kind}")


def llama_writer(kind: str) -> Writer:
    """By llama_decode."""
    if kind == "f32":
        return Decoder(made("gpt2.f32.gguf", write_float), FLOAT32)
    return Decoder(made(f"gpt2.{kind}.gguf", lambda draft: write_kind(kind, draft)), FLOAT16)


class Decoder:
    """A model in memory, and its contexts: one for each number and length of sequences, made once."""

    def __init__(self, path: Path, cache_type: int) -> None:
        self.llama, self.cache_type, self.contexts = library(), cache_type, {}
        self.llama.llama_backend_init()
        self.model = self.llama.llama_model_load_from_file(str(path).encode(), self.llama.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path.name}")

    def context(self, rows: int, length: int) -> Any:
        """Of so many sequences, each with room for such a length."""
        if (rows, length) not in self.contexts:
            given = self.llama.llama_context_default_params()
            given.n_ctx, given.n_batch, given.n_ubatch = rows * length, MOST, 512
            given.n_seq_max, given.n_threads, given.n_threads_batch = rows, 2, 2
            given.kv_unified, given.no_perf = False, True  # sequences that share nothing, each with its own cells
            given.type_k = given.type_v = self.cache_type
            self.contexts[rows, length] = self.llama.llama_init_from_model(self.model, given)
        return self.contexts[rows, length]

    def __call__(self, prompts: Ids, count: int) -> Ids:
        """Prompts of one length, continued."""
        rows, length = len(prompts), len(prompts[0])
        own = self.context(rows, -(-(length + count) // 256) * 256)
        self.llama.llama_memory_clear(self.llama.llama_get_memory(own), True)
        batch = self.llama.llama_batch_init(MOST, 0, 1)
        said: Ids = [[] for _ in prompts]
        given, asked = prompts, [length * (row + 1) - 1 for row in range(rows)]
        for step in range(count):
            fill(batch, given, length + step - len(given[0]))
            if self.llama.llama_decode(own, batch):
                raise RuntimeError("llama_decode failed")
            for row, place in enumerate(asked):
                logits = np.ctypeslib.as_array(self.llama.llama_get_logits_ith(own, place), (sizes().vocabulary,))
                said[row].append(int(logits.argmax()))
            given, asked = [[ids[-1]] for ids in said], list(range(rows))
        self.llama.llama_batch_free(batch)
        return said


def fill(batch: Any, given: Ids, start: int) -> None:
    """Rows of tokens from a position on, each a sequence; the last of each asks for logits."""
    place = 0
    for row, ids in enumerate(given):
        for i, token in enumerate(ids):
            batch.token[place], batch.pos[place], batch.n_seq_id[place] = token, start + i, 1
            batch.seq_id[place][0], batch.logits[place] = row, i == len(ids) - 1
            place += 1
    batch.n_tokens = place
