"""What becomes of a training pair is a function of (seed, epoch, pair), keeps its languages' rules, and fits."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from regard.data import read_pairs
from regard.tasks.variation import Variation, vary
from regard.text import Tokenizer
from regard.text.dropout import BpeDropout


def forms(source: str, target: str) -> set[tuple[str, str]]:
    return {vary(source, target, 1.0, Random(seed)) for seed in range(40)}


def test_the_forms_of_a_pair_change_both_sides() -> None:
    assert forms("A man's dog isn't here.", "Der Hund fährt  über die Straße!") == {
        ("A MAN'S DOG ISN'T HERE.", "DER HUND FÄHRT  ÜBER DIE STRASSE!"),
        ("A Man's Dog Isn't Here.", "Der Hund Fährt  Über Die Straße!"),
        ("A man's dog isn't here", "Der Hund fährt  über die Straße"),
    }


def test_without_case_only_the_final_marks_can_go_and_only_from_both() -> None:
    assert forms("我吃饭。", "I eat.") == {("我吃饭", "I eat")}
    assert forms("我吃饭", "I eat.") == {("我吃饭", "I eat.")}
    assert forms("I eat.", "我吃饭。") == {("I EAT.", "我吃饭。"), ("I Eat.", "我吃饭。"), ("I eat", "我吃饭")}


def variation(data_dir, *, seed: int = 1, augment: float = 0.2, dropout: float = 0.0, max_len: int = 256) -> Variation:
    folder = data_dir("multi30k")
    pairs = read_pairs([folder / "val.en.gz", folder / "val.de.gz"])
    tokenizer = Tokenizer.train([*pairs.source, *pairs.target], vocab_size=1_500)
    plain = [[7, *ids] for ids in tokenizer.encode_batch(pairs.source)], tokenizer.encode_batch(pairs.target)
    return Variation(
        tokenizer, tokenizer, pairs.source, pairs.target, [[7]] * len(pairs), plain, seed=seed, max_len=max_len,
        augment=augment, dropout=(BpeDropout(tokenizer, dropout),) * 2 if dropout else None,
    )  # fmt: skip


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_an_epoch_is_a_function_of_seed_and_number_alone(data_dir, dropout: float) -> None:
    rows, one, again = range(300), variation(data_dir, dropout=dropout), variation(data_dir, dropout=dropout)
    first, second = one.ids(rows, 0), one.ids(rows, 1)
    assert again.ids(rows[::-1], 1)[0][::-1] == second[0], "neither order nor what was drawn before may matter"
    assert again.ids(rows, 0) == first != second
    assert variation(data_dir, seed=2, dropout=dropout).ids(rows, 0) != first


def test_the_share_is_the_share_and_the_rest_is_as_it_was(data_dir) -> None:
    one = variation(data_dir, augment=0.2)
    rows = range(1_000)
    seen = Counter((source == plain) for source, plain in zip(one.ids(rows, 0)[0], one.plain[0], strict=False))
    assert 0.15 < seen[False] / 1_000 < 0.25
    assert one.ids(rows, 0)[0][0][0] == 7, "the prefix stays in front"


def test_every_text_is_still_said(data_dir) -> None:
    one = variation(data_dir, augment=0.0, dropout=0.2)
    sources, targets = one.ids(range(200), 3)
    assert [one.tokenizer.decode(ids[1:]) for ids in sources] == one.source[:200]
    assert [one.tokenizer.decode(ids) for ids in targets] == one.target[:200]
    assert all(ids[0] == 7 for ids in sources)


def test_what_would_be_too_long_stays_as_it_was(data_dir) -> None:
    one = variation(data_dir, dropout=0.9, max_len=30)
    sources, targets = one.ids(range(1_000), 0)
    short = [i for i in range(1_000) if max(len(one.plain[0][i]), len(one.plain[1][i])) < 30]
    assert all(max(len(sources[i]), len(targets[i])) < 30 for i in short)
    assert any(sources[i] == one.plain[0][i] for i in short) and any(sources[i] != one.plain[0][i] for i in short)
