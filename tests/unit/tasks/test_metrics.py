"""Scores of translations: sacrebleu's, with words cut as the language asks."""

from __future__ import annotations

import sacrebleu

from regard.tasks.metrics import translation_metrics


def test_the_scores_are_sacrebleus() -> None:
    outputs, references = ["the cat sat on the mat .", "no"], ["the cat is on the mat.", "no"]
    found = translation_metrics(outputs, references, "en")
    assert found["bleu"]["score"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert found["chrf"]["score"] == sacrebleu.corpus_chrf(outputs, [references]).score
    assert "tok:13a" in found["bleu"]["signature"] and "nc:6" in found["chrf"]["signature"]
    assert translation_metrics(outputs, references, None) == found


def test_languages_without_spaces_are_not_one_word_a_line() -> None:
    outputs, references = ["一个男人在骑自行车。", "两只狗在跑步。"], ["一个男人骑着自行车。", "两只狗在奔跑。"]
    assert translation_metrics(outputs, references, "zh")["bleu"]["score"] > 20
    assert "tok:zh" in translation_metrics(outputs, references, "zh_CN")["bleu"]["signature"]
    assert translation_metrics(outputs, references, None)["bleu"]["score"] < 10
