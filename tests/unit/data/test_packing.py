"""Rows of equal length: each prediction once an epoch, found without state, and each document as if alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import packing
from regard.data.corpus import Corpus, Stretch
from regard.data.packing import PackedBatches, TokenBatch, permuted, windows
from regard.errors import DataError
from regard.model import TransformerConfig, make_language_model
from regard.model.config import Alibi, Learned, PositionScheme, Relative, Rope, Sinusoidal

BOS, EOS, PAD = 1, 2, 0
IDS = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def _corpus(lengths: Sequence[int], stretches: int = 1) -> Corpus:
    """Documents of these lengths; no two tokens of the corpus are the same."""
    ends = np.cumsum([0, *lengths]).astype(np.uint64)
    index = np.stack([ends, ends], axis=1)
    ids = np.arange(3, 3 + int(ends[-1]), dtype=np.uint32)
    cuts = np.linspace(0, len(lengths), stretches + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    return Corpus([Stretch(ids, index[:-1][part], index[1:][part]) for part in parts], {})


def _expected(corpus: Corpus) -> Counter[tuple[int, int]]:
    """(what is given, what is to be said) at each place of each document."""
    documents = [[BOS, *corpus.document(i).tolist(), EOS] for i in range(len(corpus))]
    return Counter(pair for document in documents for pair in pairwise(document))


def _pairs(batch: TokenBatch) -> list[tuple[int, int]]:
    return list(zip(batch.ids[batch.real].tolist(), batch.targets[batch.real].tolist(), strict=True))


def _epoch(batches: PackedBatches, epoch: int) -> list[TokenBatch]:
    size = batches.batches_per_epoch
    return [batches.batch(step) for step in range(epoch * size, (epoch + 1) * size)]


# ------------------------------------------------------------------ the permutation


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 600), key=st.lists(st.integers(0, 2**40), min_size=1, max_size=3))
def test_a_permutation_is_one_however_it_is_asked(size: int, key: list[int]) -> None:
    every = permuted(np.arange(size), size, key)
    assert sorted(every.tolist()) == list(range(size))
    some = np.random.default_rng(0).integers(size, size=7)
    assert permuted(some, size, key).tolist() == every[some].tolist()


def test_permutations_of_many_keys_look_drawn_at_random() -> None:
    size, keys = 12, 2_000
    found = np.array([permuted(np.arange(size), size, (key,)) for key in range(keys)])
    counts = np.stack([(found == value).sum(axis=0) for value in range(size)])  # (value, place)
    chi2 = ((counts - keys / size) ** 2 / (keys / size)).sum()
    assert chi2 < 200  # 121 degrees of freedom: one in 100,000 fair ones is above
    follows = ((found[:, 1:] - found[:, :-1]) % size == 1).mean()
    assert follows == pytest.approx(1 / (size - 1), abs=0.01)


def test_a_permutation_of_a_very_long_corpus_takes_no_memory() -> None:
    size = 10**12
    found = permuted(np.arange(5_000), size, (1, 2))
    assert len(set(found.tolist())) == 5_000 and found.min() >= 0 and found.max() < size
    assert abs(found.mean() / size - 0.5) < 0.02


# ------------------------------------------------------------------ training


@settings(max_examples=100, deadline=None)
@given(
    lengths=LENGTHS, length=st.integers(3, 50), rows=st.integers(1, 5), seed=st.integers(0, 99), parts=st.integers(1, 3)
)
def test_every_epoch_has_each_prediction_once(lengths, length: int, rows: int, seed: int, parts: int) -> None:
    corpus = _corpus(lengths, parts)
    batches = PackedBatches(corpus, length=length, rows=rows, seed=seed, **IDS)
    assert batches.predictions_per_epoch == sum(lengths) + len(lengths)
    for epoch in range(2):
        parts_of_it = _epoch(batches, epoch)
        assert Counter(pair for batch in parts_of_it for pair in _pairs(batch)) == _expected(corpus)
        assert sum(batch.count for batch in parts_of_it) == batches.predictions_per_epoch
        short = sum(not row.all() for batch in parts_of_it for row in batch.real)
        assert short == (batches.predictions_per_epoch % length > 0)  # little is padding: at most one row of all
        assert all(batch.ids.shape[1] == length and 1 <= len(batch.ids) <= rows for batch in parts_of_it)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_law_24_each_prediction_once_over_ranks_and_workers(ranks: int, workers: int) -> None:
    corpus = _corpus(np.random.default_rng(0).integers(1, 60, 200).tolist(), 3)
    seen: Counter[tuple[int, int]] = Counter()
    for rank in range(ranks):
        for worker in range(max(workers, 1)):  # each builds its own order, as processes do
            batches = PackedBatches(corpus, length=32, rows=7, seed=7, **IDS)
            for step in range(worker, batches.batches_per_epoch, max(workers, 1)):
                seen.update(_pairs(batches.batch(step, rank, ranks)))
    assert seen == _expected(corpus)


def test_ranks_share_the_rows_of_one_batch() -> None:
    batches = PackedBatches(_corpus([9] * 40), length=8, rows=5, seed=1, **IDS)
    whole = batches.batch(3)
    parts = [batches.batch(3, rank, 3) for rank in range(3)]
    assert [len(part.ids) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.ids for part in parts]), whole.ids[[0, 3, 1, 4, 2]])
    empty = batches.batch(3, 6, 7)
    assert (empty.ids.shape, empty.count) == ((0, 8), 0)


def test_law_23_a_batch_is_a_pure_function_of_its_step() -> None:
    def new() -> PackedBatches:
        corpus = _corpus(np.random.default_rng(0).integers(1, 60, 300).tolist())
        return PackedBatches(corpus, length=32, rows=7, seed=7, **IDS)

    run = new()
    size = run.batches_per_epoch
    steps = [run.batch(step) for step in range(2 * size + 5)]
    for step in (2 * size + 3, 5, size, 0):  # mid-epoch, backwards, fresh or not
        for batch in (new().batch(step), run.batch(step)):
            assert torch.equal(batch.ids, steps[step].ids) and torch.equal(batch.targets, steps[step].targets)


def test_epochs_and_seeds_differ_even_with_a_single_document() -> None:
    for corpus in (_corpus([2_000]), _corpus([20] * 100)):
        batches = PackedBatches(corpus, length=32, rows=4, seed=1, **IDS)
        other = PackedBatches(corpus, length=32, rows=4, seed=2, **IDS)
        first, second, foreign = _epoch(batches, 0), _epoch(batches, 1), _epoch(other, 0)
        rows = [{tuple(row) for batch in epoch for row in batch.ids.tolist()} for epoch in (first, second, foreign)]
        assert not rows[0] & rows[1] and not rows[0] & rows[2]  # other places are cut at
        starts = [int(row[0]) for batch in first for row in batch.ids]
        assert np.corrcoef(starts[:-1], starts[1:])[0, 1] < 0.5  # a batch is from everywhere


def test_many_documents_are_added_up_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = _corpus(np.random.default_rng(0).integers(1, 9, 1_000).tolist(), 3)
    whole = PackedBatches(corpus, length=700, rows=3, seed=7, **IDS)
    monkeypatch.setattr(packing, "AT_ONCE", 2 * packing.BLOCK)
    parts = PackedBatches(corpus, length=700, rows=3, seed=7, **IDS)
    pairs = [_pairs(batch) for batch in _epoch(whole, 1)]
    assert [_pairs(batch) for batch in _epoch(parts, 1)] == pairs
    assert Counter(pair for batch in pairs for pair in batch) == _expected(corpus)


def test_nothing_to_learn_from() -> None:
    with pytest.raises(DataError, match="no documents"):
        PackedBatches(_corpus([]), length=8, rows=2, seed=0, **IDS)


# ------------------------------------------------------------------ rows


def test_the_table_in_the_docstring() -> None:
    corpus = _corpus([3, 1, 3])
    a, b, c, d, e, f, g = range(3, 10)
    rows = [[(0, 0, 4)], [(1, 0, 2), (2, 0, 2)], [(2, 2, 2)]]
    batch = packing._filled(corpus, rows, 4, BOS, EOS, PAD)
    assert batch.ids.tolist() == [[BOS, a, b, c], [BOS, d, BOS, e], [f, g, PAD, PAD]]
    assert batch.targets.tolist() == [[a, b, c, EOS], [d, EOS, e, f], [g, EOS, PAD, PAD]]
    assert batch.documents is not None and batch.documents.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert batch.pos is not None and batch.pos.tolist() == [[0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 0, 0]]
    assert batch.real.tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]
    assert batch.count == 10


def test_rows_of_one_document_each_need_no_document_mask() -> None:
    batches = PackedBatches(_corpus([500]), length=32, rows=3, seed=0, **IDS)
    kinds = [batch.documents is None and batch.pos is None for batch in _epoch(batches, 0)]
    assert kinds.count(False) == 1  # where the circle closes


def test_a_batch_can_be_split_and_moved() -> None:
    batch = PackedBatches(_corpus([5] * 20), length=8, rows=5, seed=0, **IDS).batch(0)
    parts = batch.split(3)
    assert [len(part.ids) for part in parts] == [2, 2, 1] and sum(part.count for part in parts) == batch.count
    for name in ("ids", "targets", "real", "documents", "pos"):
        whole = getattr(batch, name)
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), whole)
        assert getattr(batch.to("meta"), name).device.type == "meta"
    assert len(batch.split(99)) == 5 and batch.to("cpu").count == batch.count


@pytest.mark.parametrize(
    "positions", [Sinusoidal(), Learned(), Rope(), Alibi(), Relative()], ids=lambda value: type(value).__name__
)
def test_law_13_packed_documents_are_as_if_alone(positions: PositionScheme, one_thread: None) -> None:
    config = TransformerConfig(
        vocab_size=200, d_model=32, n_heads=4, d_ff=64, n_encoder_layers=0, n_decoder_layers=2, max_len=24,
        positions=positions, dropout=0.0,
    )  # fmt: skip
    model = make_language_model(config).eval()
    corpus = _corpus([5, 9, 2, 30, 7, 1, 12])
    [packed] = windows(corpus, length=24, rows=99, **IDS)
    alone = windows(_corpus([5]), length=24, rows=99, **IDS)
    assert packed.documents is not None and next(iter(alone)).documents is None
    with torch.no_grad():
        hidden = model.transformer.decode(
            packed.ids, model.transformer.start(), pos=packed.pos, documents=packed.documents
        )
        for row in range(len(packed.ids)):
            for number in set(packed.documents[row][packed.real[row]].tolist()):
                mine = (packed.documents[row] == number) & packed.real[row]
                single = model.transformer.decode(packed.ids[row][mine][None], model.transformer.start())
                assert hidden[row][mine].std() > 0.1
                torch.testing.assert_close(hidden[row][mine], single[0], atol=1e-5, rtol=0)


# ------------------------------------------------------------------ evaluation


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, length=st.integers(3, 50), rows=st.integers(1, 5))
def test_windows_hold_each_prediction_once_cut_as_if_alone(lengths, length: int, rows: int) -> None:
    corpus = _corpus(lengths, 2)
    found = list(windows(corpus, length=length, rows=rows, **IDS))
    assert Counter(pair for batch in found for pair in _pairs(batch)) == _expected(corpus)
    assert all(len(batch.ids) == rows for batch in found[:-1])
    said = [target for batch in found for target in batch.targets[batch.real].tolist()]
    assert [token for token in said if token != EOS] == list(range(3, 3 + sum(lengths)))  # in the corpus' order
    ends = np.cumsum([0, *lengths]) + 3
    for batch in found:
        pos = torch.arange(length).expand(batch.ids.shape) if batch.pos is None else batch.pos
        for token in batch.ids[batch.real & (pos == 0)].tolist():
            # A window begins with a document, or after a multiple of `length` of it.
            before = 0 if token == BOS else token - int(ends[np.searchsorted(ends, token, side="right") - 1]) + 1
            assert before % length == 0


def test_nanogpts_windows(data_dir) -> None:
    """On the last tenth of tinyshakespeare, in characters: all windows of 64 without overlap, the end counted."""
    text = (data_dir("tinyshakespeare") / "input.txt").read_text()
    held = text[int(0.9 * len(text)) :]
    ids = np.frombuffer(held.encode(), dtype=np.uint8).astype(np.uint16) + 3
    index = np.array([[0, 0], [len(ids), len(held)]], dtype=np.uint64)
    batches = list(windows(Corpus([Stretch(ids, index[:-1], index[1:])], {}), length=64, rows=100, **IDS))
    assert sum(batch.count for batch in batches) == 111_540 + 1
    assert sum(len(batch.ids) for batch in batches) == -(-111_541 // 64)
    first = batches[0]
    assert first.ids[1].tolist() == ids[63:127].tolist() and first.targets[1].tolist() == ids[64:128].tolist()
