"""The decoding state: reordered, cut, wrapped round a ring, fed in any pieces, it says what the full pass says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.model import Alibi, Learned, Relative, Rope, Window
from regard.model.cache import CHUNK

pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.fixture
def no_grad():
    with torch.no_grad():
        yield


def same(ours: Tensor, theirs: Tensor) -> None:
    assert theirs.std() > 0.5
    torch.testing.assert_close(ours, theirs, atol=5e-5, rtol=0)


def draw(*shape: int) -> Tensor:
    return torch.randint(19, shape)


def test_any_pieces_of_ragged_rows_are_the_full_pass(build, full) -> None:
    model = build(n_decoder_layers=2, positions=Rope())

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=6))
    def check(pieces: list[list[int]]) -> None:
        """pieces[n][b] tokens for row b in call n."""
        with torch.no_grad():
            ids = draw(3, 30)
            state, done = model.transformer.start(capacity=30), [0, 0, 0]
            for widths in pieces:
                if not max(widths):
                    continue
                real = torch.arange(max(widths)) < torch.tensor(widths)[:, None]
                piece = torch.stack([ids[b, done[b] : done[b] + max(widths)] for b in range(3)])
                said = model.logits(model.transformer.decode(piece, state, real=real))
                whole = full(model, ids)
                for b, width in enumerate(widths):
                    torch.testing.assert_close(said[b, :width], whole[b, done[b] : done[b] + width], atol=5e-5, rtol=0)
                    done[b] += width
                assert state.length.tolist() == done and state.longest == max(done)

    check()


def test_a_prompt_of_1000_beside_one_of_10_in_a_model_of_1024(build, full) -> None:
    """max_len counts a row's tokens, not columns: the short row runs on to its own end."""
    model = build(n_decoder_layers=1, positions=Learned(), max_len=1024)
    ids = draw(2, 1024)
    state = model.transformer.start(capacity=1024)
    prompt = torch.arange(1000) < torch.tensor([[1000], [10]])
    first = model.logits(model.transformer.decode(ids[:, :1000], state, real=prompt))
    for t in range(24):
        model.transformer.decode(torch.stack([ids[0, 1000 + t], ids[1, 10 + t]])[:, None], state)
    rest = torch.stack([ids[0, :990], ids[1, 34:]])  # 2024 columns by now; the long row has ended
    last = model.logits(model.transformer.decode(rest, state, real=torch.tensor([[False], [True]]).expand(2, 990)))
    whole = full(model, ids)
    same(first[0], whole[0, :1000])
    same(last[1], whole[1, 34:])
    assert state.length.tolist() == [1024, 1024]


@pytest.mark.parametrize("positions", [Rope(), Alibi(), Relative(buckets=8, max_distance=10)], ids=lambda p: p.kind)
def test_reorder_keeps_rows_with_their_past(positions, build, full) -> None:
    """Beam search: rows are chosen, repeated and dropped, each with its past and its source."""
    model = build(n_encoder_layers=1, n_decoder_layers=2, positions=positions)
    ids, source, more = draw(3, 6), draw(3, 5), draw(4, 2)
    state = model.transformer.start(model.transformer.encode(source), capacity=8)
    model.transformer.decode(ids, state)
    parents = torch.tensor([2, 0, 0, 2])
    state.reorder(parents)
    said = model.logits(model.transformer.decode(more, state))
    same(said, full(model, torch.cat([ids[parents], more], 1), source[parents])[:, 6:])


def test_hypotheses_share_one_source(build, full) -> None:
    """Two hypotheses a source are four rows over two sources, whose keys are never copied; then one source leaves."""
    model = build(n_encoder_layers=1, n_decoder_layers=1)
    source, ids, more = draw(2, 5), draw(4, 3), draw(4, 1)
    each = torch.tensor([0, 0, 1, 1])
    state = model.transformer.start(model.transformer.encode(source), capacity=6)
    same(model.logits(model.transformer.decode(ids, state)), full(model, ids, source[each]))
    crossed = torch.tensor([1, 1, 3, 2])
    state.reorder(crossed)
    history = torch.cat([ids[crossed], more], 1)
    same(model.logits(model.transformer.decode(more, state)), full(model, history, source[each])[:, 3:])
    assert state.memory[0][0].size(0) == 2
    state.reorder(torch.tensor([2, 3]), torch.tensor([1]))
    history = torch.cat([history[2:], more[:2]], 1)
    same(model.logits(model.transformer.decode(more[:2], state)), full(model, history, source[[1, 1]])[:, 4:])


@pytest.mark.parametrize("window", [None, Window(size=5)])
@pytest.mark.parametrize("kept", [5, [5, 3], [0, 5]])
def test_truncate_forgets(window, kept, build, full) -> None:
    model = build(n_decoder_layers=2, positions=Rope(), window=window)
    ids, more = draw(2, 8), draw(2, 3)
    state = model.transformer.start(capacity=11)
    model.transformer.decode(ids, state)
    state.truncate(torch.tensor(kept) if isinstance(kept, list) else kept)
    said = model.logits(model.transformer.decode(more, state))
    for b, n in enumerate(kept if isinstance(kept, list) else [kept, kept]):
        same(said[b], full(model, torch.cat([ids[b, :n], more[b]])[None])[0, n:])


def test_truncate_beyond_the_length_changes_nothing(build) -> None:
    state = build(n_decoder_layers=1).transformer.start(capacity=4)
    state.truncate(3)
    assert state.length is None


@pytest.mark.parametrize("positions", [Rope(), Learned(), Relative(buckets=8, max_distance=20)], ids=lambda p: p.kind)
@pytest.mark.parametrize(
    "pieces", [[1] * 150, [100, 1, 64, 1, 20, 14], [3, 180, 17], [200]], ids=lambda p: f"{len(p)} pieces"
)
def test_a_ring_goes_round_in_bounded_memory(positions, pieces, build, full) -> None:
    """200 tokens through window + CHUNK = 69 slots, in single steps, chunks, and continuations longer than CHUNK."""
    model = build(n_decoder_layers=1, positions=positions, window=Window(size=5), max_len=200)
    ids = draw(2, sum(pieces))
    state = model.transformer.start(capacity=1)
    said = [model.logits(model.transformer.decode(piece, state)) for piece in ids.split(pieces, 1)]
    same(torch.cat(said, 1), full(model, ids))
    assert state.caches[0].k.size(2) == 5 + CHUNK


def test_ragged_rows_on_a_ring(build, full) -> None:
    """A prompt longer than the ring beside a short one, then more than CHUNK tokens each."""
    model = build(n_decoder_layers=2, positions=Rope(), window=Window(size=4))
    ids, prompt, more = draw(2, 200), torch.tensor([90, 7]), 80
    state = model.transformer.start(capacity=1)
    model.transformer.decode(ids[:, :90], state, real=torch.arange(90) < prompt[:, None])
    rest = torch.stack([ids[b, n : n + more] for b, n in enumerate(prompt.tolist())])
    said = model.logits(model.transformer.decode(rest, state))
    whole = full(model, ids)
    for b, n in enumerate(prompt.tolist()):
        same(said[b], whole[b, n : n + more])


def test_a_ring_forgets_up_to_a_chunk(build, full) -> None:
    """The slots of what is forgotten held older tokens once; those are gone, and out of every later window."""
    model = build(n_decoder_layers=2, positions=Rope(), window=Window(size=4))
    ids, more, kept = draw(2, 150), draw(2, 9), 150 - CHUNK
    state = model.transformer.start(capacity=1)
    model.transformer.decode(ids, state)
    state.truncate(kept)
    said = torch.cat([model.logits(model.transformer.decode(piece, state)) for piece in more.split([1, 7, 1], 1)], 1)
    same(said, full(model, torch.cat([ids[:, :kept], more], 1))[:, kept:])


def test_a_ring_refuses_to_forget_what_it_has_overwritten(build) -> None:
    model = build(n_decoder_layers=1, window=Window(size=4))
    state = model.transformer.start(capacity=1)
    model.transformer.decode(draw(1, 150), state)
    with pytest.raises(ValueError, match="at most"):
        state.truncate(150 - CHUNK - 1)


def test_more_tokens_than_slots_are_refused(build) -> None:
    model = build(n_decoder_layers=1)
    state = model.transformer.start(capacity=5)
    model.transformer.decode(draw(2, 4), state)
    with pytest.raises(ValueError, match="holds 5"):
        model.transformer.decode(draw(2, 2), state)


def test_a_state_that_keeps_nothing_serves_one_pass(build) -> None:
    model = build(n_decoder_layers=1)
    state = model.transformer.start()
    model.transformer.decode(draw(2, 4), state)
    with pytest.raises(ValueError, match="one pass"):
        model.transformer.decode(draw(2, 1), state)


def test_one_model_serves_two_states_at_once(build, full) -> None:
    model = build(n_decoder_layers=2, positions=Rope())
    rows, states = (draw(1, 6), draw(1, 6)), [model.transformer.start(capacity=6) for _ in range(2)]
    said: list[list[Tensor]] = [[], []]
    for t in range(6):
        for i in range(2):
            said[i].append(model.logits(model.transformer.decode(rows[i][:, t : t + 1], states[i])))
    for i in range(2):
        same(torch.cat(said[i], 1), full(model, rows[i]))


def test_a_step_draws_no_positions_of_its_own(build) -> None:
    """Keys stand at their slots, which are numbered once: nothing grows with the text but what attention reads."""
    model = build(n_decoder_layers=1, positions=Rope()).transformer
    state, where = model.start(capacity=30), set()
    real = torch.tensor([[True] * 4, [True, True, False, False]])
    model.decode(torch.ones(2, 4, dtype=torch.long), state, real=real)
    for _ in range(20):
        step = state.advance(torch.ones(2, 1, dtype=torch.long))
        where.add(step.mask.k_pos.data_ptr())
        assert step.mask.k_pos.shape == (1, state.longest)
    assert len(where) == 1
