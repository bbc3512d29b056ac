"""What an edge and a head are worth: the log-probability of what was said, with them and without.

    edge_effects(view, "decoder.cross", 0, 3, query=5)    log p of what row 5 writes, minus the same without edge (5, j)
    head_effects([view, ..], "decoder.self")              nats a token that the loss rises without each head

What is unusual: attention weights are a clue and these are the test (Jain and Wallace 2019): a weight may be large and
nothing hang on it. Each change is made in a copy of its own of the sequence, many copies to a pass, and what follows
the changed place is computed again in full; of a decoder's row that is one step after those before it, which do not
change. What was said is that of the run itself: a number below 0 means that the model would have been surer without.
What it does not know: pictures, and which role a head has (`inspect.roles`).

Shapes: B copies, T rows, S keys, L layers, H heads, D d_model, V vocabulary; n numbers that are asked of a run.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import ConfigError
from regard.inspect.edits import Door, EdgeOff, Edit, Unmasked, doored, edited, unseen
from regard.inspect.parts import Part, check, part_of
from regard.inspect.passes import memory_of
from regard.inspect.scripts import Script
from regard.inspect.views import View
from regard.loaded import Loaded
from regard.model import HIDDEN_BELOW, DecodeState
from regard.tasks.extractive_qa import Rules
from regard.tasks.spans import best_spans

COPIES_ELEMENTS = 2**23
"""Numbers that the copies of one pass may hold, about: 32 MB in float32. More are hardly quicker on a CPU, and a pass
that has begun cannot be stopped."""
Scorer = Callable[[Tensor], Tensor]
"""Hidden states (B, T, D) -> log p of what was said, (B, n)."""


@torch.no_grad()
def edge_effects(view: View, part: str, layer: int, head: int | None, query: int) -> np.ndarray:
    """How much each key adds to what a row says, by removing the edge to it: (S,), 0 where nothing is to be seen.

    Of a decoder's row: log p of what it writes, or of what is likeliest after the last; of an encoder's under a
    decoder: of all that is written; of an encoder alone: of what the model says of that token, or of the text.

    Args:
        head: None: all heads of the layer are blind to the key.

    Raises:
        ConfigError: there is no such place, or the model says nothing that has a probability.
    """
    loaded, edits, kind = view.loaded, view.request.edits, part_of(view.loaded.model.config, part)
    site = kind.at(layer)
    scores = view.tensors[f"{site}.scores"]  # (H, T, S)
    check("query", query, scores.shape[1], "the rows of this run, counted from 0")
    if head is not None:
        check("head", head, kind.heads, f"counted from 0 ({part})")
    heads = slice(None) if head is None else slice(head, head + 1)
    keys = np.flatnonzero((scores[heads, query] > HIDDEN_BELOW).any(0))
    # An edit that names rows, or lets a row see what comes after it, needs them all; so does a window, in whose cache
    # a key has another place than in its text.
    whole = loaded.model.config.window is not None or any(isinstance(edit, Unmasked | EdgeOff) for edit in edits)
    step = None if whole or kind.queries == "source" else query

    def doors(some: Sequence[int]) -> Iterator[Door]:
        def off(scores: Tensor) -> Tensor:  # (B, H, T, S)
            scores = scores.clone()
            for number, key in enumerate(some):
                scores[number, heads, query if step is None else 0, key] = -torch.inf
            return scores

        return unseen(site, off)

    with edited(loaded.model, edits):
        case = _Case(loaded, view.script, kind, _rows_about(loaded, view.script, kind, query), step)
        without = case.changed(keys.tolist(), doors)  # (B, n)
    effects = np.zeros(scores.shape[2], dtype=np.float32)
    effects[keys] = (case.base.sum(1) - without.sum(1)).float().cpu().numpy()
    return effects


def head_effects(views: Sequence[View], part: str) -> np.ndarray:
    """What the loss, in nats a token (of a model that reads: a text), rises by without each head of a part: (L, H).

    Raises:
        ConfigError: the model has no such part, or says nothing that has a probability.
    """
    rises = [rise_without_heads(view.loaded, view.script, view.request.edits, part) for view in views]
    return sum((rise for rise, _ in rises), np.zeros(())) / sum(n for _, n in rises)


@torch.no_grad()
def rise_without_heads(
    loaded: Loaded, script: Script, edits: Sequence[Edit], part: str, before_each: Callable[[], None] = lambda: None
) -> tuple[np.ndarray, int]:
    """By how many nats the loss of one run rises without each head, (L, H), and over how many numbers it is a sum.

    Args:
        before_each: is called before each pass, and may raise to end it all.
    """
    kind = part_of(loaded.model.config, part)
    places = [(layer, head) for layer in range(kind.layers) for head in range(kind.heads)]

    def doors(some: Sequence[tuple[int, int]]) -> Iterator[Door]:
        for layer in {layer for layer, _ in some}:
            copies, heads = zip(*[(i, head) for i, (own, head) in enumerate(some) if own == layer], strict=True)

            def off(z: Tensor, copies: tuple[int, ...] = copies, heads: tuple[int, ...] = heads) -> Tensor:
                z = z.clone()  # (B, H, T, d)
                z[list(copies), list(heads)] = 0
                return z

            yield f"{kind.at(layer)}.z", off

    with edited(loaded.model, edits):
        case = _Case(loaded, script, kind, _rows_said(script), None)
        without = case.changed(places, doors, before_each)  # (B, n)
    rise = (case.base.sum(1) - without.sum(1)).double().cpu().numpy()
    return rise.reshape(kind.layers, kind.heads), without.size(1)


def has_probability(loaded: Loaded) -> bool:
    """Whether what a model says has a probability at all: not a vector, nor a number."""
    number = loaded.task == "classification" and loaded.classifier.labels.kind == "number"
    return loaded.task != "embedding" and not number


class _Case:
    """One run that is made again with changes, many copies at a time.

    Args:
        rows: those whose words are asked about; None: all.
        step: of a target, the one row that is made again, which is then the only one asked about; None: all rows are.
    """

    def __init__(self, loaded: Loaded, script: Script, part: Part, rows: list[int] | None, step: int | None) -> None:
        self.model, self.script, self.step = loaded.model, script, step
        self.memory = memory_of(loaded.model, script) if part.stack == "decoder" else None
        self.before = None if step is None else self._before(step)
        hidden = self._hidden(1)
        self.score = _scorer(loaded, script, hidden, rows, rows if step is None else [0])
        self.base = self.score(hidden)  # (1, n)
        config, T = loaded.model.config, max(hidden.size(1), len(script.source or ()))
        size = T * (8 * config.d_model + 3 * config.d_ff + 4 * config.n_heads * T)
        size += 4 * config.n_decoder_layers * config.d_model * max(T, step or 0)  # keys and values that are kept
        size += self.base.size(1) * config.target_vocab_size
        self.together = max(1, COPIES_ELEMENTS // size)

    def changed(
        self, changes: Sequence[Any], doors: Callable[[Sequence[Any]], Iterator[Door]],
        before_each: Callable[[], None] = lambda: None,
    ) -> Tensor:  # fmt: skip
        """The scores of copies, each with one of the changes, (B, n); `doors` makes those of some copies."""
        found = [self.base[:0]]
        for start in range(0, len(changes), self.together):
            before_each()
            some = changes[start : start + self.together]
            with doored(self.model, doors(some)):
                found.append(self.score(self._hidden(len(some))))
        return torch.cat(found)

    def _hidden(self, copies: int) -> Tensor:
        """What the model makes of B copies, (B, T, D)."""
        model, script = self.model, self.script
        memory = None if self.memory is None else self.memory.expand(copies, -1, -1)
        if script.source is not None and memory is None:
            ids = torch.tensor([script.source.ids], device=model.device).expand(copies, -1)
            types = torch.tensor([list(script.types)], device=model.device).expand(copies, -1)
            memory = model.transformer.encode(ids, types=types if model.config.n_token_types else None)
        if script.target is None:
            assert memory is not None
            return memory
        ids = torch.tensor([script.target.ids], device=model.device).expand(copies, -1)
        if self.before is None or self.step is None:
            return model.transformer.decode(ids, model.transformer.start(memory))
        state = copy.deepcopy(self.before)
        of_first = torch.zeros(copies, dtype=torch.long, device=model.device)
        state.reorder(of_first, of_first)
        return model.transformer.decode(ids[:, self.step : self.step + 1], state)  # (B, 1, D)

    def _before(self, step: int) -> DecodeState:
        """What the decoder carries when it has read the rows before this one."""
        assert self.script.target is not None
        state = self.model.transformer.start(self.memory, capacity=step + 1)
        if step:
            ids = torch.tensor([self.script.target.ids[:step]], device=self.model.device)
            self.model.transformer.decode(ids, state)
        return state


def _rows_about(loaded: Loaded, script: Script, part: Part, query: int) -> list[int] | None:
    """The rows whose words a query of a part is asked about; None: all."""
    if part.queries == "target" or loaded.task in ("tagging", "masked-lm"):
        return [query]
    return _rows_said(script)


def _rows_said(script: Script) -> list[int] | None:
    """The rows of a target that are followed by something of the model's own; None: there is no target."""
    if script.target is None:
        return None
    kinds = [*(token.kind for token in script.target.tokens[1:]), "special"]
    return [row for row, (kind, said) in enumerate(zip(kinds, script.says, strict=True))
            if kind != "lead" and said is not None]  # fmt: skip


def _scorer(
    loaded: Loaded, script: Script, hidden: Tensor, rows: list[int] | None, places: list[int] | None
) -> Scorer:  # fmt: skip
    """What gives log p of what was said, decided by hidden states (1, T, D) of the run itself.

    Args:
        rows: those asked about, and `places` where their hidden states stand; None: all.
    """
    model = loaded.model
    if script.target is not None:
        assert rows is not None
        said = [script.says[row] for row in rows]
        likeliest = model.logits(hidden[:, places])[0].argmax(-1).tolist() if None in said else said
        ids = [own if own is not None else best for own, best in zip(said, likeliest, strict=True)]
        return lambda hidden: _log_p(model.logits(hidden[:, places]), torch.tensor(ids, device=hidden.device))
    chosen = slice(None) if rows is None else rows
    if loaded.task == "masked-lm":
        assert script.source is not None
        own = torch.tensor(script.source.ids, device=hidden.device)[chosen]
        return lambda hidden: _log_p(model.logits(hidden[:, chosen]), own)
    if loaded.task == "tagging":
        tags = model.head(hidden[:, chosen])[0].argmax(-1)
        return lambda hidden: _log_p(model.head(hidden[:, chosen]), tags)
    if loaded.task == "classification":
        return _of_classes(loaded, hidden)
    if loaded.task == "question-answering":
        return _of_spans(loaded, script, hidden)
    raise ConfigError("this model says nothing whose probability could change", where=loaded.path,
                      got=f"a model of the task {loaded.task}", mend="look at weights or norms instead")  # fmt: skip


def _log_p(logits: Tensor, ids: Tensor) -> Tensor:
    """log p of ids (n,) from logits (B, n, V): (B, n)."""
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return log_p.gather(-1, ids.expand(len(logits), -1)[..., None])[..., 0]


def _of_classes(loaded: Loaded, hidden: Tensor) -> Scorer:
    """log p of the class, or of all decisions where there may be several."""
    head, kind = loaded.model.head, loaded.classifier.labels.kind
    if kind == "number":
        raise ConfigError("a number has no probability that could change", where=loaded.path,
                          mend="look at weights or norms instead")  # fmt: skip

    def logits(hidden: Tensor) -> Tensor:  # (B, C)
        return head(hidden, torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device))

    said = logits(hidden)
    if kind == "one":
        return lambda hidden: _log_p(logits(hidden)[:, None], said.argmax(-1))
    return lambda hidden: F.logsigmoid(logits(hidden) * torch.where(said > 0, 1, -1)).sum(-1, keepdim=True)


def _of_spans(loaded: Loaded, script: Script, hidden: Tensor) -> Scorer:
    """log p of the answer, beginning and end, or of there being none."""
    model, rules = loaded.model, Rules.read(loaded.about, loaded.model.config.max_len)
    assert script.source is not None
    places = [i == 0 or (token.part == 1 and token.kind == "text") for i, token in enumerate(script.source.tokens)]
    hides = ~torch.tensor(places, device=hidden.device)[:, None]  # (T, 1)

    def log_p(hidden: Tensor) -> Tensor:  # (B, T, 2)
        return model.head(hidden).float().masked_fill(hides, -math.inf).log_softmax(1)

    base = log_p(hidden)
    value, first, last = (best[0, 0] for best in best_spans(base, rules.longest, 1))
    if rules.null and base[0, 0].sum() > value:
        first = last = torch.zeros_like(first)
    return lambda hidden: (found := log_p(hidden))[:, first, 0, None] + found[:, last, 1, None]
