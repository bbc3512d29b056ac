"""Other engines with a model that was exported, asked what `parity` compares: `transformers`, and CTranslate2.

What is unusual: each is used as its users would, from the written folder alone; what it starts an output with, and what
it never says, it must know from there.
What it does not know: our model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError, MissingExtraError
from regard.hub.ctranslate import transformers_quietly
from regard.hub.export import Ids
from regard.model import CLASSIFIERS, TransformerConfig
from regard.tasks.parity import ASKED
from regard.tasks.parity_cases import Case, Question, padded
from regard.text import Tokenizer

AUTO = {
    "language-model": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM",
    "cls-classifier": "AutoModelForSequenceClassification", "relu-classifier": "AutoModelForSequenceClassification",
    "tagger": "AutoModelForTokenClassification", "span": "AutoModelForQuestionAnswering",
}  # fmt: skip
"""What transformers opens a model with, by its head; others by AutoModel, translators by AutoModelForSeq2SeqLM."""
VALUES = {"pooler": ("pooler_output",), "none": ("last_hidden_state",), "span": ("start_logits", "end_logits")}
"""Where its result is, by the head; of other heads in `logits`."""
OF_TEXTS = ("pooler", *CLASSIFIERS)
"""The heads that say something of a text, not of its tokens."""


def need(extra: str) -> None:
    """Raise MissingExtraError when what the extra `hf` or `ctranslate2` installs is not there."""
    for package in ("transformers", *(("ctranslate2",) if extra == "ctranslate2" else ())):
        if find_spec(package) is None:
            raise MissingExtraError(package, extra, f"an export to {extra}, which is compared with the original,")


@dataclass(frozen=True)
class Differing:
    """A text of which transformers makes other ids than we do."""

    text: str
    ours: Sequence[int]
    theirs: Sequence[int]

    def shown(self, ids: Sequence[int]) -> str:
        """Some ids of either, from a little before the place where the two part."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.ours, self.theirs, strict=False)))
        first, last = max(same - 2, 0), same + 6
        some = ", ".join(map(str, ids[first:last]))
        return f"[{'.., ' * (first > 0)}{some}{', ..' * (len(ids) > last)}]"


def read_differently(folder: Path, tokenizer: Tokenizer, texts: Sequence[str]) -> list[Differing]:
    """The texts of which transformers makes other ids, with the tokenizer files in the folder, than ours does."""
    with transformers_quietly() as library:
        theirs: Any = library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        read = [theirs(text).input_ids for text in texts]
    ours = [tokenizer.wrap(ids)[0] for ids in tokenizer.encode_batch(texts)]
    return [Differing(text, one, other) for text, one, other in zip(texts, ours, read, strict=True) if one != other]


class TransformersPeer:
    """`transformers` with a folder that `write_hugging_face` wrote."""

    def __init__(self, folder: Path, config: TransformerConfig, head: str, ids: Ids) -> None:
        self.quantity = "hidden states" if head in ("pooler", "none") else "logits"
        self.both = bool(config.n_encoder_layers and config.n_decoder_layers)
        self.opened_by = "AutoModelForSeq2SeqLM" if self.both else AUTO.get(head, "AutoModel")
        with transformers_quietly() as library:
            self.name = f"transformers {library.__version__}"
            opened = getattr(library, self.opened_by).from_pretrained(folder, local_files_only=True)
        self.model: Any = opened.eval()
        self.known = config.target_vocab_size
        self.results, self.ids, self.types = VALUES.get(head, ("logits",)), ids, config.n_token_types > 0
        self.of_texts = head in OF_TEXTS

    @torch.no_grad()
    def values(self, cases: Sequence[Case]) -> list[Tensor]:
        """As `Peer`."""
        read, real = padded([case.source or case.target for case in cases])
        given: dict[str, Tensor] = {"input_ids": read, "attention_mask": real.long()}
        if self.types:
            given["token_type_ids"] = padded([case.types for case in cases])[0]
        if self.both:
            given["decoder_input_ids"] = padded([case.target for case in cases])[0]
        found = self.model(**given)
        one, *more = (found[name] for name in self.results)
        rows = torch.stack([one, *more], -1) if more else one
        if self.of_texts:
            return [*rows]
        return [row[: len(case.target or case.source)] for row, case in zip(rows, cases, strict=True)]

    @torch.no_grad()
    def outputs(self, questions: Sequence[Question]) -> list[list[int]]:
        """As `Peer`. Prompts are asked one by one, for they would have to be padded on the left."""
        size = ASKED if self.both else 1
        groups = [questions[start : start + size] for start in range(0, len(questions), size)]
        return [found for group in groups for found in self._generate(group)]

    def _generate(self, questions: Sequence[Question]) -> list[list[int]]:
        read, real = padded([question.case.source or question.case.target for question in questions])
        given = len(questions[0].case.target)
        most = max(question.limit for question in questions) + (given - 1 if self.both else 0)
        with transformers_quietly():
            rows = self.model.generate(
                input_ids=read, attention_mask=real.long(), num_beams=1, do_sample=False, max_new_tokens=most,
                pad_token_id=self.model.generation_config.pad_token_id or 0,
            ).tolist()  # fmt: skip
        found = []
        for row, question in zip(rows, questions, strict=True):
            begun = tuple(row[:given]) == question.case.target
            found.append(cut(row[given:], question.limit, self.ids) if begun else row)
        return found


class CTranslate2Peer:
    """CTranslate2 with a folder that `write_ctranslate2` wrote, on the CPU."""

    quantity = "log-probabilities"

    def __init__(self, folder: Path, config: TransformerConfig, ids: Ids) -> None:
        library = import_module("ctranslate2")
        self.name = f"ctranslate2 {library.__version__}"
        self.both, self.ids, self.longest = bool(config.n_encoder_layers), ids, config.max_len
        self.opened_by = "Translator" if self.both else "Generator"
        self.engine: Any = getattr(library, self.opened_by)(
            str(folder), device="cpu", intra_threads=torch.get_num_threads()
        )
        name = "shared_vocabulary.json" if self.both else "vocabulary.json"
        self.tokens: list[str] = json.loads((folder / name).read_text(encoding="utf-8"))
        self.known, self.number = len(self.tokens), {token: i for i, token in enumerate(self.tokens)}

    def values(self, cases: Sequence[Case]) -> list[Tensor]:
        """As `Peer`. A translator is given its targets without start and end, which it puts there itself."""
        targets = [case.target for case in cases]
        if not self.both:
            scored = self._run("score_batch", [self._named(target) for target in targets], max_input_length=0)
        else:
            ends = [target[-1] in self.ids.ends for target in targets]
            inner = [self._named(target[1 : -1 if end else None]) for target, end in zip(targets, ends, strict=True)]
            sources = [self._named(case.source) for case in cases]
            scored = self._run("score_batch", sources, inner, max_input_length=0)
        return [torch.tensor(one.log_probs[: len(target) - 1]) for one, target in zip(scored, targets, strict=True)]

    def outputs(self, questions: Sequence[Question]) -> list[list[int]]:
        """As `Peer`."""
        most = max(question.limit for question in questions)
        usual: dict[str, Any] = {
            "beam_size": 1, "return_end_token": True,
            "max_batch_size": ASKED if self.both else 1,  # of several prompts, some come back in the outputs
            "suppress_sequences": [[self.tokens[i]] for i in self.ids.banned if i < self.known] or None,
        }  # fmt: skip
        begun = len(questions[0].case.target) - 1 if self.both else 0
        targets = [self._named(question.case.target[self.both :]) for question in questions]
        if self.both:
            sources = [self._named(question.case.source) for question in questions]
            said = self._run(
                "translate_batch", sources, targets if begun else None, max_input_length=0,
                max_decoding_length=min(most + begun + 1, self.longest), min_decoding_length=0, **usual,
            )  # fmt: skip
            rows = [one.hypotheses[0][begun:] for one in said]
        else:
            said = self._run("generate_batch", targets, max_length=most, include_prompt_in_result=False, **usual)
            rows = [one.sequences[0] for one in said]
        return [
            cut([self.number[token] for token in row], question.limit, self.ids)
            for row, question in zip(rows, questions, strict=True)
        ]

    def _run(self, method: str, *given: Any, **options: Any) -> Any:
        try:
            return getattr(self.engine, method)(*given, **options)
        except (ValueError, RuntimeError) as error:
            raise ConfigError("CTranslate2 takes this model, and fails at its first text", got=error,
                              mend="export --to hf") from error  # fmt: skip

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [self.tokens[i] for i in ids]


def cut(row: Sequence[int], limit: int, ids: Ids) -> list[int]:
    """An output up to its first end, told as the first of the ends, or to its greatest length."""
    place = next((i for i, token in enumerate(row) if token in ids.ends), len(row))
    return [*row[:place], *(ids.ends[:1] if place < len(row) else ())][:limit]
