"""Scoring on texts, for `regard evaluate`: language models by what they foretell, masked ones by what they guess.

What is unusual: the same numbers whatever the batches, and bits a byte that compare models of different vocabularies.
What it does not know: flags, and how results are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.cli.evaluate import Arguments
    from regard.data.corpus import Corpus
    from regard.loaded import Loaded
    from regard.tasks.language_modeling import Reading

Metrics = dict[str, dict[str, Any]]


def evaluate_documents(model: Loaded, args: Arguments) -> tuple[int, Metrics, dict[str, Any]]:
    """(how many documents, the metrics, what else there is to report) of the documents that were named."""
    from regard.data.chat import is_chat
    from regard.model import Learned

    if model.task == "language-model" and args.data and is_chat(args.data[0]):
        if args.baseline is not None:
            raise ConfigError("answers have no baseline", where="--baseline", expected="texts as data",
                              got=f"the conversations of {args.data[0]}", mend="leave it out")  # fmt: skip
        return _answered(model, args)
    corpus, characters = _corpus(model, args.data, args.unit, args.field)
    most = model.model.config.max_len
    length = most if args.context is None else args.context
    if length < 1 or (length > most and isinstance(model.model.config.positions, Learned)):
        raise ConfigError("the model has no such context", where="--context", expected=f"1 to {most:,} tokens",
                          got=args.context)  # fmt: skip
    if model.task == "masked-lm":
        return len(corpus), _guessed(model, corpus, length), {"context": length}
    from regard.tasks.baselines import bits_per_unit, counted_bits
    from regard.tasks.language_modeling import read_corpus

    ids = {"bos_id": model.beginning, "eos_id": model.conventions.end, "pad_id": model.tokenizer.pad_id}
    read = read_corpus(model.model, corpus, length=length, **ids)
    metrics: Metrics = {
        "loss": {"score": read.loss}, "perplexity": {"score": read.perplexity},
        "bits_per_byte": {"score": read.bits_per_byte},
    }  # fmt: skip
    if characters is not None:
        metrics["bits_per_character"] = {"score": bits_per_unit(read.nats, characters)}
    if args.baseline is not None:
        train, _ = _corpus(model, [args.baseline], args.unit, args.field)
        counted = counted_bits(model.tokenizer, train, corpus, model.conventions.end)
        metrics |= {name: {"score": score} for name, score in counted.items()}
    more: dict[str, Any] = {"context": length, "tokens": read.predictions, "bytes": read.n_bytes}
    return len(corpus), metrics, more | ({"by_position": by_position(read)} if args.by_position else {})


def by_position(read: Reading) -> list[dict[str, float]]:
    """Loss at places of a window, in stretches that double: after 0, 1, 2-3, 4-7, .. tokens."""
    rows, start = list[dict[str, float]](), 0
    while start < len(read.by_position):
        stop = max(1, 2 * start)
        nats, count = read.by_position[start:stop].sum(0)
        if count:
            rows.append({"from": start, "to": min(stop, len(read.by_position)) - 1, "loss": nats / count,
                         "predictions": int(count)})  # fmt: skip
        start = stop
    return rows


def _answered(model: Loaded, args: Arguments) -> tuple[int, Metrics, dict[str, Any]]:
    """The same of conversations: the loss is over the answers, each after all that was said before."""
    from regard.data.chat import read_chats
    from regard.tasks.conversations import exchange, read_answers, template_of

    chats, most = read_chats(args.data).chats, model.model.config.max_len
    template = template_of(model.about, model.tokenizer, model.conventions)
    found = [exchange(model.tokenizer, template, chat.turns, most) for chat in chats]
    read = [one for one in found if one is not None]
    loss, count = read_answers(model.model, read, model.tokenizer.pad_id)
    more = {"tokens": count, "cut": sum(one.cut > 0 for one in read), "left_out": len(found) - len(read)}
    perplexity = math.exp(loss) if loss < 700 else math.inf
    return len(chats), {"loss": {"score": loss}, "perplexity": {"score": perplexity}}, more


def _corpus(model: Loaded, files: Sequence[Path], unit: str, field: str) -> tuple[Corpus, int | None]:
    """The documents as ids, and how many characters their texts have, which a prepared folder does not say."""
    from regard.data.documents import read_documents
    from regard.data.encoding import encode_documents
    from regard.data.shards import is_prepared, open_shards

    if not files:
        raise DataError("no data is given", where="FILES", expected="texts, or a prepared folder",
                        mend="name it after the model")  # fmt: skip
    if len(files) == 1 and is_prepared(files[0]):
        return open_shards(files[0], model.tokenizer), None
    documents = read_documents(files, unit=unit, field=field)
    return encode_documents(documents, model.tokenizer), documents.characters


def _guessed(model: Loaded, corpus: Corpus, length: int) -> Metrics:
    from regard.tasks.masked_lm import MaskedData, pieces

    size = model.model.config.vocab_size
    texts = pieces(corpus, length - len(model.tokenizer.wrap([])[0]), model.tokenizer)
    data = MaskedData(model.tokenizer, texts, texts, vocab_size=size, tokens_per_batch=max(8_192, length), seed=0,
                      multiple=1, max_len=length)  # fmt: skip
    found = data.evaluate(model.model)
    return {
        "loss": {"score": found["dev_loss"]}, "perplexity": {"score": math.exp(found["dev_loss"])},
        "accuracy": {"score": found["dev_accuracy"]},
    }  # fmt: skip
