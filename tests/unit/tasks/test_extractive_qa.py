"""Law 37: an answer is a piece of the original text, wherever it stands. Law 34: whatever is asked together."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from regard.data.squad import read_questions
from regard.errors import CheckpointError, ConfigError
from regard.model import Model, TransformerConfig, make_model
from regard.tasks.extractive_qa import Answer, Answerer, Asked, Rules, look_up
from regard.tasks.spans import ExtractiveQATask, WindowBatch, best_spans, read_windows
from regard.tasks.windows import Cutter, Passage, Window
from regard.text import Tokenizer
from regard.text.foreign import open_tokenizers

KINDS = ("bpe", "unigram", "bytes", "chars", "words", "wordpiece", "sentencepiece")
FILLER = "and then the fox went on over the hill into the next valley "
NFD = unicodedata.normalize("NFD", "Ångström Café")
ANSWERS = {
    "plain": "the 3rd of May",
    "accents": "Ångström naïve Café",
    "decomposed": NFD,
    "decomposed at its end": unicodedata.normalize("NFD", "passé"),
    "emoji": "👩‍👩‍👧 🇩🇪 👍🏽",
    "chinese": "北京 大学 １２３",
    "hangul": unicodedata.normalize("NFD", "한국"),
    "ligatures": "ﬁve ½ İstanbul",
    "controls": "to \x00night\u200b \ufffd ok",
}


@cache
def _own(kind: str) -> Tokenizer:
    texts = [FILLER, "Café naïve 北京 the 3rd of May", "what day was it"] * 20
    size = {"words": 40}.get(kind, 400)
    return Tokenizer.train(texts, kind=kind, vocab_size=size).framed(before="bos", after="eos")  # type: ignore[arg-type]


@pytest.fixture
def tokenizer(request: pytest.FixtureRequest, minilm: Path, model_dir: Callable[[str], Path]) -> Tokenizer:
    if request.param == "wordpiece":
        return open_tokenizers(minilm)[0]
    return open_tokenizers(model_dir("stories260k"))[0] if request.param == "sentencepiece" else _own(request.param)


class _Finder:
    """A model that says with certainty where some tokens stand; where they do not, "not here"."""

    config = TransformerConfig(
        vocab_size=9, d_model=8, n_heads=1, d_ff=8, n_encoder_layers=1, n_decoder_layers=0, max_len=512
    )
    device, training = torch.device("cpu"), False
    transformer = SimpleNamespace(encode=lambda ids, real, types: ids[..., None])

    def __init__(self, wanted: Sequence[int]) -> None:
        self.wanted = list(wanted)

    def eval(self) -> None:
        pass

    def train(self, mode: bool) -> None:
        pass

    def head(self, hidden: Tensor) -> Tensor:
        logits, n = torch.zeros(*hidden.shape[:2], 2), len(self.wanted)
        for row, ids in enumerate(hidden[..., 0].tolist()):
            found = [i for i in range(len(ids) - n + 1) if ids[i : i + n] == self.wanted]
            begin, end = (found[-1], found[-1] + n - 1) if found else (0, 0)
            logits[row, begin, 0] = logits[row, end, 1] = 50.0
        return logits


def _answerer(model: Model | _Finder, tokenizer: Tokenizer, *, length: int, null: bool = False) -> Answerer:
    rules = {"length": length, "overlap": length // 4, "longest": 60, "null": null}
    return Answerer(model, tokenizer, {"answering": rules})  # type: ignore[arg-type]


def _three_windows(tokenizer: Tokenizer, answer: str, where: str) -> tuple[str, int, int]:
    """A text with an answer somewhere, its start, and a length of windows of which it takes three or more."""
    for many in range(1, 90):
        filler = FILLER * many + "fox " * (many % 7)
        before, after = {"start": ("", filler), "end": (filler, ""), "middle": (filler, filler)}[where]
        context, start = before + answer + (" " + after).rstrip(), len(before)
        passage = Passage.read(tokenizer, context)
        span = passage.tokens(start, start + len(answer))
        assert span is not None
        length = 20 + 5 * (span[1] - span[0] + 1) + many % 9
        windows, _ = Cutter(tokenizer, length, length // 4).windows("what day", passage, span)
        holding = [window for window in windows if window.target != (0, 0)]
        if len(windows) >= 3 and (where != "middle" or len(holding) == 2):
            return context, start, length
    raise AssertionError("no such text")


@pytest.mark.parametrize("where", ["start", "middle", "end"])
@pytest.mark.parametrize("tokenizer", KINDS, indirect=True)
def test_the_answer_is_a_piece_of_the_original_text(tokenizer: Tokenizer, where: str) -> None:
    for answer in ANSWERS.values():
        context, start, length = _three_windows(tokenizer, answer, where)
        passage = Passage.read(tokenizer, context)
        first, last = passage.tokens(start, start + len(answer)) or (0, 0)
        model = _Finder(passage.ids[first : last + 1].tolist())
        found = _answerer(model, tokenizer, length=length).answer("what day", context)
        assert (found.start, found.end) == (start, start + len(answer))
        assert found.text == answer == context[found.start : found.end]
        assert found.score > 0.999


@pytest.mark.parametrize("tokenizer", KINDS, indirect=True)
def test_every_character_belongs_to_a_token_and_every_span_is_a_piece(tokenizer: Tokenizer) -> None:
    text = "  " + " \u2028 ".join(ANSWERS.values()) + "\r\n\ud800 end \n"
    passage = Passage.read(tokenizer, text)
    assert len(passage) == len(passage.spans) == len(tokenizer.encode(text))
    covered = {i for start, stop in passage.spans.tolist() for i in range(start, stop)}
    for word in re.finditer(r"\S+", text):  # each as a whole, or, of what the vocabulary throws away, not at all
        assert len(covered & {*range(*word.span())}) in (0, len(word[0]))
    for one in range(len(passage)):
        for two in range(one, min(one + 9, len(passage))):
            start, stop = passage.cut(one, two)
            piece = text[start:stop]
            assert 0 <= start <= stop <= len(text) and piece == piece.strip()
            assert not piece or not unicodedata.combining(text[stop : stop + 1] or " ")


@pytest.mark.parametrize("tokenizer", ["wordpiece", "chars"], indirect=True)
def test_a_word_is_not_cut_where_words_are_parted_by_spaces(tokenizer: Tokenizer) -> None:
    text = unicodedata.normalize("NFD", "A Miasma-théory of Ångström1843, 北京大学 서울에서 ") + "a" * 500
    passage = Passage.read(tokenizer, text)
    words = [match.span() for match in re.finditer(r"[A-Za-zé\d\u0300-\u036f]+", text[: text.index(" 北")])]
    for one in range(len(passage)):
        for two in range(one, min(one + 9, len(passage))):
            start, stop = passage.cut(one, two)
            assert not any(begin < edge < end for begin, end in words for edge in (start, stop))
            assert stop - start <= int(passage.spans[two, 1] - passage.spans[one, 0]) + 64  # in a bounded time
    span = passage.tokens(text.index("北京"), text.index("北京") + 1)
    assert span is not None and text[slice(*passage.cut(*span))] == "北"


@pytest.mark.parametrize("overlap", [0, 1, 4, 9, 100])
def test_windows_hold_every_token_and_every_short_answer_whole(overlap: int) -> None:
    tokenizer = _own("chars")
    cutter = Cutter(tokenizer, 16, overlap)
    for count in (0, 1, 8, 9, 10, 11, 17, 40):
        passage = Passage.read(tokenizer, "fox"[0] * count)
        assert len(passage) == count
        windows, left_out = cutter.windows("who", passage)
        assert left_out == 0 and all(len(w) == len(w.ids) == len(w.types) <= 16 for w in windows)
        assert sorted({i for w in windows for i in range(w.first, w.first + w.size)}) == list(range(count))
        assert all(w.ids[w.before : w.before + w.size] == passage.ids[w.first : w.first + w.size].tolist()
                   for w in windows)  # fmt: skip
        room = 16 - 3 - len(tokenizer.encode("who"))
        assert len(windows) == 1 or all(w.size == room for w in windows[:-1])
        for first in range(count):
            for last in range(first, min(count, first + min(overlap, room // 2))):
                holding = [w for w in cutter.windows("who", passage, (first, last))[0] if w.target != (0, 0)]
                assert holding
                assert all(w.target == (w.before + first - w.first, w.before + last - w.first) for w in holding)


@pytest.mark.parametrize("tokenizer", KINDS, indirect=True)
def test_control_tokens_that_are_typed_are_text(tokenizer: Tokenizer) -> None:
    typed = "[SEP] [CLS] </s> <s> <pad> [PAD]"
    windows, _ = Cutter(tokenizer, 400, 0).windows(typed, Passage.read(tokenizer, typed + " fox"))
    plain, _ = Cutter(tokenizer, 400, 0).windows("fox", Passage.read(tokenizer, "fox"))
    controls = {tokenizer.token_id(token) for token in tokenizer.specials} - {tokenizer.unk_id}
    one, two = ([token for token in found[0].ids if token in controls] for found in (windows, plain))
    assert one == two and len(windows) == 1


def test_a_question_takes_half_of_a_window_at_most() -> None:
    tokenizer = _own("chars")
    passage = Passage.read(tokenizer, FILLER)
    windows, left_out = Cutter(tokenizer, 23, 4).windows("what day was it", passage)
    assert left_out == 5 and all(w.before == 1 + 10 + 1 for w in windows)
    with pytest.raises(ConfigError, match="too short"):
        Cutter(tokenizer, 4, 1).windows("what", passage)


def test_all_spans_are_looked_at() -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        log_p, longest = torch.randn(3, 7, 2).log_softmax(1), 1 + seed % 4
        log_p[1, 4:] = -math.inf
        values, first, last = best_spans(log_p, longest, 6)
        for row in range(3):
            pairs = [(i, j) for i in range(1, 7) for j in range(i, min(7, i + longest))]
            every = sorted((float(log_p[row, i, 0] + log_p[row, j, 1]), i, j) for i, j in pairs)[::-1][:6]
            for k, (value, i, j) in enumerate(every):
                assert float(values[row, k]) == value
                assert value == -math.inf or (int(first[row, k]), int(last[row, k])) == (i, j)


@cache
def _small() -> tuple[Model, Tokenizer]:
    torch.manual_seed(0)
    tokenizer = _own("bpe")
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=32, n_heads=2, d_ff=64, n_encoder_layers=2, n_decoder_layers=0,
        n_token_types=2, max_len=128, dropout=0.1,
    )  # fmt: skip
    return make_model(config, "span").eval(), tokenizer


def _real(data_dir: Callable[[str], Path], count: int) -> tuple[list[str], list[str]]:
    items = read_questions([data_dir("xquad") / "xquad.en.json.gz"]).items[:count]
    return [q.question for q in items], [q.context for q in items]


@pytest.mark.usefixtures("one_thread")
def test_what_is_asked_together_changes_nothing(data_dir: Callable[[str], Path]) -> None:
    questions, contexts = _real(data_dir, 8)
    questions, contexts = [*questions, "", "why?"], [*contexts, "short", ""]
    answerer = _answerer(*_small(), length=96, null=True)
    together = answerer.answer_all(questions, contexts, top_k=3)
    order = [3, 9, 0, 8, 7, 1, 2, 6, 5, 4]
    shuffled = answerer.answer_all([questions[i] for i in order], [contexts[i] for i in order], top_k=3)
    alone = [answerer.answer(q, c, top_k=3) for q, c in zip(questions, contexts, strict=True)]
    for i, one in enumerate(together):
        for other in (alone[i], shuffled[order.index(i)]):
            assert _spans(other) == _spans(one)
            assert [a.score for a in _all(other)] == pytest.approx([a.score for a in _all(one)], abs=1e-4)


def _all(answer: Answer) -> list[Answer]:
    return [answer, *answer.alternatives]


def _spans(answer: Answer) -> list[tuple[str, int | None, int | None]]:
    return [(one.text, one.start, one.end) for one in _all(answer)]


@pytest.mark.usefixtures("one_thread")
def test_neither_questions_nor_padding_are_ever_chosen(data_dir: Callable[[str], Path]) -> None:
    """Whatever the weights: every place with a probability is one of the text, or the first."""
    (model, tokenizer), (questions, contexts) = _small(), _real(data_dir, 6)
    cutter = Cutter(tokenizer, 96, 24)
    windows = [w for q, c in zip(questions, contexts, strict=True) for w in
               cutter.windows(q, Passage.read(tokenizer, c[: 40 * len(q)]))[0]]  # fmt: skip
    seen = 0
    with torch.no_grad():
        for rows, log_p in read_windows(model, windows, tokenizer.pad_id):
            for row, i in enumerate(rows):
                here = log_p[row].exp().sum(-1).nonzero().flatten().tolist()
                window = windows[i]
                assert set(here) <= {0, *range(window.before, window.before + window.size)}
                assert log_p[row].exp().sum(0).tolist() == pytest.approx([1, 1], abs=1e-4)
                seen += 1
    assert seen == len(windows) > 6


@pytest.mark.usefixtures("one_thread")
def test_the_loss_is_a_sum_over_windows_whatever_the_batch(data_dir: Callable[[str], Path]) -> None:
    model, tokenizer = _small()
    items = read_questions([data_dir("xquad") / "xquad.en.json.gz"]).items[:6]
    asked = []
    for question in items:
        passage, answer = Passage.read(tokenizer, question.context), question.answer
        assert answer is not None and answer.start is not None
        span = passage.tokens(answer.start, answer.start + len(answer.text))
        asked.append(Asked.of(Cutter(tokenizer, 96, 24), question.question, passage, span))
    windows = [window for one in asked for window in one.windows]
    task = ExtractiveQATask()

    def loss(some: Sequence[Window], multiple: int = 1) -> float:
        batch = WindowBatch.of(some, tokenizer.pad_id, multiple)
        assert batch.count == len(some)
        return float(task.loss(model, task.hidden(model, batch), batch))

    with torch.no_grad():
        whole, each = loss(windows), sum(loss([window]) for window in windows)
        batch = WindowBatch.of(windows, tokenizer.pad_id)
        parts = sum(float(task.loss(model, task.hidden(model, part), part)) for part in batch.split(4))
        assert whole == pytest.approx(each, rel=1e-5) == pytest.approx(loss(windows, 64), rel=1e-5)
        assert parts == pytest.approx(whole, rel=1e-5)
        rules = Rules(96, 24, 30, null=False)
        nats = sum(sighting.nats for sighting in look_up(model, asked, rules, tokenizer.pad_id))
        assert nats == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("language", ["en", "de", "zh"])
def test_the_places_of_real_answers(data_dir: Callable[[str], Path], minilm: Path, language: str) -> None:
    tokenizer, exact = open_tokenizers(minilm)[0], 0
    items = read_questions([data_dir("xquad") / f"xquad.{language}.json.gz"]).items[::12]
    for question in items:
        passage, answer = Passage.read(tokenizer, question.context), question.answer
        assert answer is not None and answer.start is not None
        span = passage.tokens(answer.start, answer.start + len(answer.text))
        assert span is not None
        start, stop = passage.cut(*span)
        assert answer.text.strip() in question.context[start:stop]  # a token may hold more than the answer
        exact += question.context[start:stop] == answer.text
    assert exact > 0.9 * len(items)


@pytest.mark.usefixtures("one_thread")
def test_no_answer() -> None:
    tokenizer = _own("bpe")
    nothing = _Finder([-5])
    for null in (True, False):
        answerer = _answerer(nothing, tokenizer, length=64, null=null)
        for context in ("", " \n\t"):
            found = answerer.answer("what day", context)
            assert (found.text, found.start, found.end, found.score) == ("", None, None, 1.0)
    knows, guesses = (_answerer(nothing, tokenizer, length=64, null=null) for null in (True, False))
    silent = knows.answer("what day", FILLER, top_k=3)
    assert silent.text == "" and silent.start is None and silent.score > 0.99 and silent.null_odds > 50
    assert [one.text in FILLER and one.text != "" for one in silent.alternatives] == [True, True]
    assert guesses.answer("what day", FILLER).text != ""
    assert guesses.answer("what day", FILLER, null_threshold=0.0).text == ""
    assert knows.answer("what day", FILLER, null_threshold=1_000.0).text != ""


def test_candidates_share_one_probability() -> None:
    answerer = _answerer(*_small(), length=64, null=True)
    found = _all(answerer.answer("what day was it?", FILLER, top_k=20, null_threshold=math.inf))
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True) and len({one.text for one in found}) == len(found)
    null = scores[0] * math.exp(found[0].null_odds)
    assert sum(scores) + null == pytest.approx(1, abs=1e-5)


def test_a_model_that_does_not_say_how_it_answers() -> None:
    model, tokenizer = _small()
    good = {"length": 64, "overlap": 8, "longest": 30, "null": False}
    for answering in (None, 3, {}, {**good, "length": 129}, {**good, "longest": 0}, {**good, "overlap": "8"}):
        with pytest.raises(CheckpointError, match="how it answers"):
            Answerer(model, tokenizer, {"answering": answering})
    answerer = Answerer(model, tokenizer, {"answering": good})
    with pytest.raises(ConfigError, match="too small"):
        answerer.answer("a", "b", top_k=0)
    with pytest.raises(ConfigError, match="each question needs its text"):
        answerer.answer_all(["a"], [])
