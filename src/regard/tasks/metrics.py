"""How good translations are, measured so that others can compare: sacrebleu, on plain text, with its signature.

What is unusual: scores are taken against the references as they stand in the file, never tokenised by us (law 32;
fairseq #2593). The words that BLEU counts depend on the target language, and the signature says how they were cut.
What it does not know: models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNSPACED = {"zh": "zh", "ja": "char", "th": "char"}
"""sacrebleu's tokenizer for languages written without spaces; for the others, 13a."""


def metrics_for(language: str | None, tokenize: str = "") -> dict[str, Any]:
    """sacrebleu's BLEU and chrF, as objects, for a target language.

    Args:
        language: its code; it decides what BLEU takes for a word.
        tokenize: sacrebleu's tokenizer in place of that, for texts that are tokenised already, as some published are.
    """
    from sacrebleu import BLEU, CHRF

    usual = UNSPACED.get((language or "")[:2], "13a")
    return {"bleu": BLEU(tokenize=tokenize or usual, force=bool(tokenize)), "chrf": CHRF()}


def translation_metrics(
    outputs: Sequence[str], references: Sequence[str], language: str | None, tokenize: str = ""
) -> dict[str, dict[str, Any]]:
    """{"bleu": {"score": 0 to 100, "signature": ...}, "chrf": {...}} of N outputs against N references.

    Args:
        language, tokenize: see `metrics_for`.
    """
    metrics = metrics_for(language, tokenize)
    scores = {name: metric.corpus_score(outputs, [references]).score for name, metric in metrics.items()}
    return {name: {"score": scores[name], "signature": str(metric.get_signature())} for name, metric in metrics.items()}
