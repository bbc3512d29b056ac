"""A model for CTranslate2, by its own converter, from the folder that `export` writes for `transformers`.

What is unusual: what the converter takes from a family's usual model, and not from this one, is set right in what it
wrote: the token that a decoder starts with, and the epsilon of the norms. And a translator of Marian's axes that
does not start from zeros, as Marian's own do, is converted as BART is: the converter's Marian throws its last token
away.
What it does not know: whether the result computes the same. That is measured by `regard.tasks.parity`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import ConfigError
from regard.hub.export import Ids, write_card
from regard.hub.folder import ModelFolder
from regard.hub.keymap import Family
from regard.model import Relative, Sinusoidal, TransformerConfig

_READS = "CTranslate2 is for models that write"
NOT_CONVERTED = {
    "bert": _READS,
    "roberta": _READS,
    "distilbert": _READS,
    "gpt_neox": "ctranslate2's converter does not know transformers 5's GPT-NeoX",
}
"""The first model_type of a family -> why none of its models goes to CTranslate2 (`unconverted` knows the others)."""
USUAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
"""What CTranslate2 calls them by itself."""
KEPT = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
"""Files of the other folder that this one has too."""


@contextmanager
def transformers_quietly() -> Iterator[Any]:
    """The library, within: without its bars, and without what it finds worth saying of a folder that it opens."""
    library = import_module("transformers")
    shown, level = library.logging.is_progress_bar_enabled(), library.logging.get_verbosity()
    library.logging.disable_progress_bar()
    library.logging.set_verbosity_error()
    try:
        yield library
    finally:
        library.logging.set_verbosity(level)
        if shown:
            library.logging.enable_progress_bar()


def write_ctranslate2(folder: Path, source: Path, found: ModelFolder, ids: Ids, quantization: str | None) -> None:
    """Fill an existing folder, whose files are lost.

    Args:
        source: what `write_hugging_face` wrote of the same model.
        quantization: as CTranslate2 names it; None: the weights stay what they are.

    Raises:
        ConfigError: CTranslate2 has no such model; the message is its own.
    """
    config, tokenizer = found.model.config, found.tokenizer
    converters = import_module("ctranslate2.converters.transformers")
    marian = config.norm_order == "post" and isinstance(config.positions, Sinusoidal)
    start = ids.start
    if start == tokenizer.role("pad") and not (marian and not _starts_from_nothing(found, start)):
        start = None  # the converter knows what is meant
    try:
        with transformers_quietly() as transformers:
            converter = converters.TransformersConverter(str(source))
            _tell(converter, config)
            if start is not None and marian:
                model = converter.load_model(transformers.AutoModelForSeq2SeqLM, source)
                spec = converters.BartLoader()(model, converter.load_tokenizer(transformers.AutoTokenizer, source))
                spec.validate()
                spec.optimize(quantization=quantization)
                spec.save(str(folder))
            else:
                converter.convert(str(folder), quantization=quantization, force=True)
    except (ValueError, NotImplementedError, RuntimeError, KeyError, AttributeError) as error:
        raise ConfigError("CTranslate2's converter does not take this model", where=found.path,
                          got=f"{type(error).__name__}: {error}", mend="export --to hf") from error  # fmt: skip
    told: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for role, usual in USUAL.items():
        if told[role] is None:  # the vocabulary has no such token, and the engine wants a name
            told[role] = usual
    told["layer_norm_epsilon"] = config.norm_eps
    if start is not None:
        told["decoder_start_token"] = tokenizer.backend.id_to_token(start)
    (folder / "config.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write_card(folder, found, "ctranslate2")
    for name in KEPT:
        if (source / name).is_file():
            (folder / name).write_bytes((source / name).read_bytes())


def unconverted(family: Family, config: TransformerConfig | None = None) -> str | None:
    """Why CTranslate2 takes no model of the family, or not this one; None: it does."""
    if (why := NOT_CONVERTED.get(family.model_types[0])) is not None or config is None:
        return why
    if config.window is not None:
        return "CTranslate2 takes models that look back over a window, and then ignores it or fails"
    return "CTranslate2's converter knows no model with two vocabularies" if config.decoder_vocab_size else None


def refuse_unconverted(family: Family, config: TransformerConfig, where: Path) -> None:
    """Raise ConfigError for a model that CTranslate2 does not take, before any work."""
    if (why := unconverted(family, config)) is not None:
        raise ConfigError(why, where=where, got=f"a model of the family {family.name}", mend="export --to hf")


def _starts_from_nothing(found: ModelFolder, start: int | None) -> bool:
    """Whether outputs start from a zero vector, that of a <pad> behind all other tokens, as in all of Marian's.

    The converter's Marian takes that for granted: it leaves the last token out and starts from zeros.
    """
    last = found.model.config.vocab_size - 1
    named = found.tokenizer.backend.id_to_token(last) == "<pad>"
    return start == last and named and not found.model.transformer.tokens.weight[last].any()


def _tell(converter: Any, ours: TransformerConfig) -> None:
    """Let the converter find what it looks for and transformers 5 no longer says, and a token for every id."""
    load_model, load_tokenizer = converter.load_model, converter.load_tokenizer

    def model_with_fields(*args: Any, **options: Any) -> Any:
        model = load_model(*args, **options)
        if isinstance(ours.positions, Relative):
            model.config.tie_word_embeddings = ours.logit_scale != 1  # read as: the last hidden state is scaled
        return model

    def tokenizer_with_all(*args: Any, **options: Any) -> Any:
        tokenizer = load_tokenizer(*args, **options)
        tokenizer.add_tokens([f"<no-token-{i}>" for i in range(len(tokenizer), ours.vocab_size)])
        return tokenizer

    converter.load_model, converter.load_tokenizer = model_with_fields, tokenizer_with_all
