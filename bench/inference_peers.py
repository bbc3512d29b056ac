"""Ours, transformers and CTranslate2 in bench/inference.py: each opened as its users open it, on the same weights.

An engine is a name, LIBRARY KIND, and for each model it can run a function that opens it:

    writer       (prompts, count) -> count tokens after each prompt, greedily
    translator   (sources, beam) -> outputs
    encoder      texts -> vectors of length 1, (N, D)

What is unusual: CTranslate2 is given what its own converter would write, by the converter's functions for each layer,
so that no vocabulary of names must be invented for two more tools; and it chooses the better of one worker with two
threads and two workers with one.
What it does not know: time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from inference_models import (
    RATIO,
    Ids,
    encoder_folder,
    made,
    sizes,
    translator,
    translator_tokens,
    writer_folder,
)

Writer = Callable[[Ids, int], Ids]
Translator = Callable[[Ids, int], Ids]
Encoder = Callable[[list[str]], np.ndarray]
BATCH = 64
"""Sentences of like length that a peer encodes together."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scaled to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def in_batches(encode: Callable[[np.ndarray, np.ndarray], np.ndarray], workers: int = 1) -> Encoder:
    """An encoder of (ids, real), (B, T) -> (B, T, D), as one of texts: like lengths together, so many batches at once.

    A text's vector is the mean over its real tokens.
    """
    from concurrent.futures import ThreadPoolExecutor

    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(encoder_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def pooled(rows: Ids) -> np.ndarray:
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        real = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)], real[place, : len(row)] = row, 1
        return (encode(ids, real) * real[..., None].astype(np.float32)).sum(1) / real.sum(1, keepdims=True)

    pool = ThreadPoolExecutor(workers)

    def run(texts: list[str]) -> np.ndarray:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        groups = [[rows[i] for i in order[start : start + BATCH]] for start in range(0, len(order), BATCH)]
        sorted_vectors = np.concatenate(list(pool.map(pooled, groups) if workers > 1 else map(pooled, groups)))
        vectors = np.empty_like(sorted_vectors)
        vectors[order] = sorted_vectors
        return unit(vectors)

    return run


# ---------------------------------------------------------------- ours


def our_model(model: Any, kind: str) -> Any:
    """Made fast; "plain" is the model as it is."""
    if kind == "plain":
        return model
    from regard.runtime import make_fast

    return make_fast(model, kind)


def rounded_writer(kind: str) -> Path:
    """The writer as `regard quantize` leaves it, without the scoring."""

    def write(draft: Path) -> None:
        import regard
        from regard.hub.quantized import skeleton, write_quantized
        from regard.model import head_name
        from regard.runtime import furnish, narrowed

        plain = regard.load(writer_folder(), device="cpu")
        tensors, head = narrowed(plain.model, kind), head_name(plain.model)
        fast = furnish(skeleton(plain.model.config, head, 1), tensors, kind)
        draft.mkdir()
        write_quantized(draft, fast, tensors, plain.tokenizer, plain.about, kind, {}, {})

    return made(f"gpt2.regard.{kind}", write)


def our_writer(kind: str) -> Writer:
    """By the stream that `generate` reads from; rounded forms from a folder that holds them, as people use them."""
    import regard
    from regard.generate import Prompt, Sampler, TokenStream

    if kind in ("plain", "fp32"):
        loaded = regard.load(writer_folder(), device="cpu")
        model = loaded.model if kind == "plain" else loaded.fast
        del loaded
    else:
        model = regard.load(rounded_writer(kind), device="cpu", dtype=kind).model
    greedy = Sampler(temperature=0.0)

    def write(prompts: Ids, count: int) -> Ids:
        said: Ids = [[] for _ in prompts]
        state = model.transformer.start(capacity=max(map(len, prompts)) + count)
        for step in TokenStream(model, state, [Prompt(ids, count, greedy) for ids in prompts]):
            for one in step:
                said[one.row].append(one.token)
        return said

    return write


def our_translator(kind: str) -> Translator:
    """By the search that `translate` uses."""
    from regard.runtime import keep_freed_memory
    from regard.tasks.search import search_translations

    keep_freed_memory()  # as `regard.load` does
    model, tokenizer = translator()
    model = our_model(model, kind)

    def translate(sources: Ids, beam: int) -> Ids:
        found = search_translations(model, tokenizer, sources, ratio=RATIO, beam=beam)
        return [list(best[0].ids) for best in found]

    return translate


def our_encoder(kind: str) -> Encoder:
    """By the function behind `embed`."""
    import regard
    from regard.tasks.embedding import embed_texts

    found = regard.load(encoder_folder(), device="cpu")
    model = our_model(found.model, kind)
    return lambda texts: embed_texts(model, found.tokenizer, texts, pooling="mean", normalize=True)[0]


# ---------------------------------------------------------------- transformers


def dtype_of(kind: str) -> Any:
    """torch's name."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16}[kind]


def transformers_writer(kind: str) -> Writer:
    """By `generate`."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(writer_folder(), dtype=dtype_of(kind)).eval()
    model.generation_config.eos_token_id = None  # nothing ends an output but its length

    def write(prompts: Ids, count: int) -> Ids:
        ids = torch.tensor(prompts)
        said = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=count,
                              do_sample=False, pad_token_id=0)  # fmt: skip
        return said[:, ids.size(1) :].tolist()

    return write


def transformers_translator(kind: str) -> Translator:
    """Marian, as bench/translation.py has it."""
    from translation import translator as by_name

    return by_name(f"transformers {kind}", *translator(), RATIO)


def transformers_encoder(kind: str) -> Encoder:
    """BERT, with the mean that MiniLM is used with."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(encoder_folder(), dtype=dtype_of(kind)).eval()

    @torch.inference_mode()
    def encode(ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        found = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(real)).last_hidden_state
        return found.float().numpy()

    return in_batches(encode)


# ---------------------------------------------------------------- CTranslate2

WORKERS = ((1, 2), (2, 1))
"""Workers, threads of each."""
COMPUTE = {"fp32": "float32", "int8": "int8"}


class Names:
    """What the converter asks of a vocabulary."""

    def __init__(self, tokens: list[str], bos: int, eos: int, unk: int) -> None:
        self.tokens = tokens
        self.bos_token, self.eos_token, self.unk_token = tokens[bos], tokens[eos], tokens[unk]

    def convert_ids_to_tokens(self, index: int) -> str:
        return self.tokens[index]


def write_spec(path: Path, loader: str, model: Any, names: Names) -> None:
    """A folder of CTranslate2's, by the converter's loader of that name."""
    from importlib import import_module

    loader = getattr(import_module("ctranslate2.converters.transformers"), loader)()
    spec = loader.get_model_spec(model)
    loader.set_vocabulary(spec, names.tokens)
    loader.set_config(spec.config, model, names)
    spec.validate()
    spec.optimize(quantization=None)
    path.mkdir()
    spec.save(str(path))


def write_ct2_writer(path: Path) -> None:
    """GPT-2."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(writer_folder())
    write_spec(path, "GPT2Loader", model, Names([f"t{i}" for i in range(sizes().vocabulary)], 0, 0, 0))


def write_ct2_translator(path: Path) -> None:
    """Marian, by the loader of BART: its own throws the last token away."""
    from translation import as_marian

    ours, tokenizer = translator()
    model = as_marian(ours, tokenizer)
    model.config.normalize_before = model.config.normalize_embedding = False
    write_spec(path, "BartLoader", model, Names(translator_tokens(), tokenizer.bos_id, tokenizer.eos_id, 3))


def write_ct2_encoder(path: Path) -> None:
    """BERT."""
    from tokenizers import Tokenizer
    from transformers import AutoModel

    model = AutoModel.from_pretrained(encoder_folder())
    model.config.position_embedding_type = "absolute"  # which transformers 5 no longer says
    vocabulary = Tokenizer.from_file(str(encoder_folder() / "tokenizer.json")).get_vocab()
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    write_spec(path, "BertLoader", model, Names(tokens, *(vocabulary[t] for t in ("[CLS]", "[SEP]", "[UNK]"))))


def ct2_writer(kind: str) -> Writer:
    """One worker with two threads: nothing to share out among two."""
    import ctranslate2

    path = made("gpt2.ct2", write_ct2_writer)
    model = ctranslate2.Generator(str(path), compute_type=COMPUTE[kind], inter_threads=1, intra_threads=2)

    def write(prompts: Ids, count: int) -> Ids:
        found = model.generate_batch([[f"t{i}" for i in ids] for ids in prompts], max_length=count, min_length=count,
                                     sampling_topk=1, include_prompt_in_result=False, end_token=[])  # fmt: skip
        return [list(result.sequences_ids[0]) for result in found]

    return write


def ct2_translators(kind: str) -> list[Translator]:
    """One of each setting of workers."""
    import ctranslate2

    path, tokens = made("translator.ct2", write_ct2_translator), translator_tokens()
    ids_of = {token: i for i, token in enumerate(tokens)}

    def one(workers: int, threads: int) -> Translator:
        model = ctranslate2.Translator(
            str(path), compute_type=COMPUTE[kind], inter_threads=workers, intra_threads=threads
        )

        def translate(sources: Ids, beam: int) -> Ids:
            found = model.translate_batch(
                [[*(tokens[i] for i in ids), "</s>"] for ids in sources], beam_size=beam, max_decoding_length=25,
                max_batch_size=max(1, len(sources) // workers),
            )  # fmt: skip
            return [[ids_of[token] for token in result.hypotheses[0]] for result in found]

        return translate

    return [one(*setting) for setting in WORKERS]


def ct2_encoders(kind: str) -> list[Encoder]:
    """One of each setting of workers."""
    import ctranslate2

    path = made("minilm.ct2", write_ct2_encoder)
    options = {"compute_type": COMPUTE[kind]}
    return [
        in_batches(_ct2_encode(ctranslate2.Encoder(str(path), inter_threads=workers, intra_threads=threads, **options)),
                   workers)
        for workers, threads in WORKERS
    ]  # fmt: skip


def _ct2_encode(model: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def encode(ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        rows = [row[:count].tolist() for row, count in zip(ids, real.sum(1), strict=True)]
        return np.array(model.forward_batch(rows).last_hidden_state)

    return encode
