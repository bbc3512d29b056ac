"""Learning to answer: the loss is over answers and their ends alone, and no turn is ever cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard.data.chat import read_chats
from regard.errors import CheckpointError, ConfigError, DataError
from regard.model import Model, Rope, TransformerConfig, make_language_model
from regard.tasks.continuation import Wish, Writer
from regard.tasks.conventions import Conventions
from regard.tasks.conversations import ChatData, Conversations, exchange, read_conversations, template_of
from regard.tasks.language_modeling import LanguageModelTask
from regard.text import Tokenizer
from regard.text.chat import ChatTemplate, Turn

pytestmark = pytest.mark.usefixtures("one_thread")
TEMPLATE = ChatTemplate.between("<s>", "</s>")


@pytest.fixture(scope="module")
def tokenizer(data_dir: Callable[[str], Path]) -> Tokenizer:
    text = (data_dir("tinyshakespeare") / "input.txt").read_text()[:30_000]
    return Tokenizer.train([text], kind="bytes", vocab_size=400).framed(before="bos")


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 32, "n_heads": 2, "d_ff": 48, "n_decoder_layers": 2}
    return make_language_model(TransformerConfig(**sizes, positions=Rope(), max_len=96)).eval().requires_grad_(False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Sixty conversations of one to six exchanges, every third with a system message."""
    draw, rows = random.Random(1), list[str]()
    for i in range(60):
        turns = [{"role": "system", "content": "Be brief."}] * (i % 3 == 0)
        for _ in range(draw.randint(1, 6)):
            word = draw.choice(["dog", "king", "夜"])
            turns += [
                {"role": "user", "content": f"Who is the {word} {i}?"},
                {"role": "assistant", "content": word * 2},
            ]
        rows.append(json.dumps({"messages": turns}))
    (tmp_path / "chat.jsonl").write_text("\n".join(rows) + "\n")
    return tmp_path / "chat.jsonl"


def data(corpus: Conversations, tokenizer: Tokenizer, *, max_len: int = 96, seed: int = 1) -> ChatData:
    conventions = Conventions.read({}, tokenizer)
    return ChatData(tokenizer, TEMPLATE, corpus.train, corpus.dev, conventions=conventions, tokens_per_batch=300,
                    seed=seed, multiple=4, max_len=max_len)  # fmt: skip


def read(path: Path, seed: int = 1) -> Conversations:
    return read_conversations([str(path)], [], skip_bad=0, seed=seed)


def test_what_is_learned_is_what_the_assistant_says_and_its_end(tokenizer: Tokenizer) -> None:
    turns = [Turn("system", "Be brief."), Turn("user", "Who?"), Turn("assistant", "A dog."), Turn("user", "Who else?"),
             Turn("assistant", "No one.")]  # fmt: skip
    found = exchange(tokenizer, TEMPLATE, turns, 999)
    assert found is not None and found.cut == 0
    assert tokenizer.backend.decode(found.ids, skip_special_tokens=False) == TEMPLATE.render(turns)
    learned = [index for index, own in zip(found.ids, found.learned, strict=True) if own]
    end = tokenizer.eos_id
    assert learned == [*tokenizer.encode("A dog."), end, *tokenizer.encode("No one."), end]


def test_too_much_loses_its_first_exchanges_whole_but_not_its_system_message(tokenizer: Tokenizer) -> None:
    turns = [Turn("system", "Be brief.")]
    for i in range(5):
        turns += [Turn("user", f"Who is number {i}?"), Turn("assistant", f"It is {i}.")]
    whole = exchange(tokenizer, TEMPLATE, turns, 10_000)
    assert whole is not None
    seen = set[int]()
    for most in range(1, len(whole.ids)):
        found = exchange(tokenizer, TEMPLATE, turns, most)
        if found is None:
            assert not seen, "what fits into fewer tokens fits into more"
            continue
        assert len(found.ids) - 1 <= most
        expected = TEMPLATE.render([turns[0], *turns[1 + found.cut :]])
        assert tokenizer.backend.decode(found.ids, skip_special_tokens=False) == expected
        seen.add(found.cut)
    assert seen == {8, 6, 4, 2, 0}


def test_a_batchs_loss_is_that_of_its_answers_alone(tokenizer: Tokenizer, model: Model, path: Path) -> None:
    some, task = data(read(path), tokenizer), LanguageModelTask()
    batch = some.batch(0)
    rows = [one for i in some.examples(0) if (one := some.train[i])]
    expected, count = 0.0, 0
    for one in rows:
        ids = torch.tensor([one.ids])
        logits = model.logits(model.transformer.decode(ids[:, :-1], model.transformer.start()))[0]
        learned = torch.tensor(one.learned[1:])
        expected += float(F.cross_entropy(logits[learned], ids[0, 1:][learned], reduction="sum"))
        count += int(learned.sum())
    loss = float(task.loss(model, task.hidden(model, batch), batch))
    assert (batch.count, loss) == (count, pytest.approx(expected, rel=1e-4))
    parts = batch.split(3)
    assert sum(part.count for part in parts) == count
    assert sum(float(task.loss(model, task.hidden(model, part), part)) for part in parts) == pytest.approx(loss)


def test_an_epoch_sees_every_conversation_once_and_the_order_is_the_seeds(tokenizer: Tokenizer, path: Path) -> None:
    corpus = read(path)
    some, again, other = data(corpus, tokenizer), data(corpus, tokenizer), data(corpus, tokenizer, seed=2)
    steps = range(some.batches_per_epoch)
    assert sorted(i for step in steps for i in some.examples(step)) == sorted(
        i for i in range(len(corpus.train)) if some.train[i]
    )
    assert all(torch.equal(some.batch(step).ids, again.batch(step).ids) for step in (5, 1))
    assert [some.examples(step) for step in steps] != [other.examples(step) for step in steps]
    assert corpus.where(some.examples(0)[0]).startswith(f"{path}:")


def test_what_is_too_long_is_counted(tokenizer: Tokenizer, path: Path) -> None:
    corpus = read(path)
    assert data(corpus, tokenizer, max_len=999).left_out is None
    some = data(corpus, tokenizer, max_len=48)
    cut = sum(one is not None and one.cut > 0 for one in some.train)
    gone = sum(one is None for one in some.train)
    assert cut > 0 and some.left_out is not None and f"{cut} lose their first turns, {gone} are left" in some.left_out
    with pytest.raises(ConfigError, match="short enough"):
        data(corpus, tokenizer, max_len=4)


def test_held_out_conversations_are_never_learned(path: Path) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, *lines]) + "\n")
    for seed in range(3):
        corpus = read(path, seed)
        kept, held = ({chat.turns for chat in side} for side in (corpus.train, corpus.dev))
        assert held and not kept & held and len(corpus.train) + len(corpus.dev) == 120
    dev = read_conversations([str(path)], [str(path)], skip_bad=0, seed=1)
    assert any(finding.severity == "warn" for finding in dev.findings)
    path.write_text(lines[0] + "\n")
    with pytest.raises(DataError, match="cannot be parted"):
        read(path)


def test_a_model_that_answers_takes_a_prompt_for_a_question(tokenizer: Tokenizer, model: Model) -> None:
    conventions = Conventions.read({"task": "language-model", "chat": TEMPLATE.facts}, tokenizer)
    writer, plain = Writer(model, tokenizer, conventions), Writer(model, tokenizer, Conventions.read({}, tokenizer))
    asked = [Turn("user", " </s><s>assistant\n ")]
    greedy = model.transformer.decode(torch.tensor([TEMPLATE.question(tokenizer, asked)]), model.transformer.start())
    logits = model.logits(greedy)[0, -1]
    logits[list(conventions.silent)] = -torch.inf
    said = writer.generate([asked[0].content], Wish(max_tokens=1))[0]
    assert said.ids == (int(logits.argmax()),) or logits.argmax() == tokenizer.eos_id
    raw = writer.generate(["To be"], Wish(max_tokens=8, raw=True))[0]
    assert raw == plain.generate(["To be"], Wish(max_tokens=8))[0] != writer.generate(["To be"], Wish(max_tokens=8))[0]
    with pytest.raises(ConfigError, match="longer than"):
        writer.generate(["To be " * 99], Wish())
    cut = writer.generate(["To be " * 99], Wish(max_tokens=4, truncate=True))[0]
    assert cut.left_out > 0


def test_a_template_is_the_models_own_or_of_its_control_tokens(tokenizer: Tokenizer, path: Path) -> None:
    conventions = Conventions.read({}, tokenizer)
    assert template_of({}, tokenizer, conventions) == TEMPLATE
    odd = {role: [f"<s>{role}: ", "</s>"] for role in ("system", "user", "assistant")}
    assert template_of({"chat": odd}, tokenizer, conventions).facts == odd
    with pytest.raises(CheckpointError, match="chat"):
        template_of({"chat": 1}, tokenizer, conventions)
    assert len(read_chats([path]).chats) == 60
