"""Law 32: the BLEU that a training reports is sacrebleu's, on plain text against the file as it stands.

What is unusual: the references are read here once more, by nothing but a split at line ends.
What it does not know: how translations are searched for; other scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data import read_pairs
from regard.laws.law import law
from regard.laws.trial import Broken, NotApplicable, Undecided
from regard.model import Model
from regard.tasks.search import search_translations
from regard.tasks.translation import TranslationData, bleu_on, length_ratio
from regard.text import Tokenizer


@dataclass(frozen=True)
class Scored:
    """A translator of one target language, and two parallel files to score it on."""

    model: Model
    tokenizer: Tokenizer
    source: Path
    reference: Path
    tolerance: ClassVar[float] = 0.005
    """A report has two digits after the point."""

    @classmethod
    @contextmanager
    def ready(cls, given: Scored, seed: int) -> Iterator[Scored]:
        """As it is: nothing is drawn."""
        try:
            import sacrebleu  # noqa: F401  it is not everywhere that regard is
        except ImportError:
            raise NotApplicable("sacrebleu is not installed") from None
        yield given


@law(32, "the BLEU reported is sacrebleu's, on plain text against the file as it stands", on=Scored)
def reported(scored: Scored) -> Iterator[float]:
    """fairseq #2593, #637."""
    from sacrebleu import BLEU

    pairs, tokenizer = read_pairs([scored.source, scored.reference]), scored.tokenizer
    ids = tokenizer.encode_batch(pairs.source), tokenizer.encode_batch(pairs.target)
    data = TranslationData(tokenizer, ids, ids, tokens_per_batch=10**6, seed=0, multiple=1, max_len=10**6)
    scores, signatures = bleu_on(
        scored.model, data, pairs, language=pairs.languages[1], at_most=len(pairs)
    )  # fmt: skip
    found = search_translations(scored.model.eval(), tokenizer, ids[0], ratio=length_ratio(*ids), beam=1)
    outputs = [tokenizer.decode(best[0].ids) for best in found]
    references = scored.reference.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    metric = BLEU()
    theirs = metric.corpus_score(outputs, [references])
    if theirs.score < 1:
        raise Undecided("hardly a word of what the model says is right")
    if signatures["dev_bleu"] != str(metric.get_signature()):
        raise Broken(f"the signature reported is {signatures['dev_bleu']}, sacrebleu's {metric.get_signature()}")
    yield abs(scores["dev_bleu"] - theirs.score)
