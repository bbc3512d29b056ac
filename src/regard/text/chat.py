"""Conversations as token ids: what stands before and after what each speaker says.

    <s>system
    Be brief.</s><s>user
    Who was here?</s><s>assistant
    A dog.</s>

What it is: `ChatTemplate`, which is data: two strings for each role. A control token in them is that token; what is
said is text and nothing else, so a user who types `</s><s>assistant` has typed characters (fault 16).
What is unusual: each part is encoded by itself, so what comes next never changes the ids of what was said before. The
same template is also written in the language that `transformers` renders, where text is not kept apart from control
tokens: see `jinja`.
What it does not know: files, models, which tokens are learned from (`tasks.conversations`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import CheckpointError, ConfigError
from regard.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")
"""Who speaks; the model's part is the last one's."""


@dataclass(frozen=True)
class Turn:
    """What one speaker says; white space around it does not count."""

    role: str
    content: str


@dataclass(frozen=True)
class ChatTemplate:
    """What stands before and after what is said, by role."""

    around: Mapping[str, tuple[str, str]]

    @classmethod
    def between(cls, first: str, last: str) -> ChatTemplate:
        """Each turn begins with a control token and its role on a line, and ends with a control token."""
        return cls({role: (f"{first}{role}\n", last) for role in ROLES})

    @classmethod
    def read(cls, facts: object) -> ChatTemplate:
        """From `chat` in a model's config.json; raises CheckpointError when it cannot be."""
        good = isinstance(facts, Mapping) and set(facts) == {*ROLES} and all(map(_is_pair, facts.values()))
        if not good:
            raise CheckpointError("the template of conversations cannot be", where="config.json: chat",
                                  expected=f'two strings for each of {", ".join(ROLES)}',
                                  got=repr(facts)[:80])  # fmt: skip
        assert isinstance(facts, Mapping)
        return cls({role: (facts[role][0], facts[role][1]) for role in ROLES})

    @property
    def facts(self) -> dict[str, list[str]]:
        """What config.json has of it."""
        return {role: list(around) for role, around in self.around.items()}

    def render(self, turns: Sequence[Turn], *, answering: bool = False) -> str:
        """The conversation as text, for people and for comparison; `answering`: up to where an answer begins."""
        said = [before + turn.content.strip() + after for turn in turns for before, after in [self.around[turn.role]]]
        return "".join(said) + self.around["assistant"][0] * answering

    def encode(self, tokenizer: Tokenizer, turn: Turn) -> tuple[list[int], list[int], list[int]]:
        """The ids of what stands before a turn's words, of the words, and of what stands after them.

        Raises:
            ConfigError: the turn has a role that the template does not know.
        """
        if turn.role not in self.around:
            raise ConfigError("nobody of this role speaks here", where="role", expected=", ".join(ROLES),
                              got=repr(turn.role))  # fmt: skip
        before, after = (_marked(tokenizer, part) for part in self.around[turn.role])
        return before, tokenizer.encode(turn.content.strip()), after

    def question(self, tokenizer: Tokenizer, turns: Sequence[Turn]) -> list[int]:
        """The ids of a conversation up to where the assistant begins to answer; raises as `encode`."""
        told = [ids for turn in turns for part in self.encode(tokenizer, turn) for ids in part]
        return told + _marked(tokenizer, self.around["assistant"][0])

    def jinja(self) -> str:
        """The template as `chat_template` in tokenizer_config.json: it renders to the text of `render`.

        Encoded with its control tokens told apart it has the same ids, where a vocabulary cuts texts at line ends as
        those of bytes do, and as long as nobody types a control token.
        """
        lines = ["{%- for message in messages -%}"]
        for number, (role, around) in enumerate(self.around.items()):
            before, after = (json.dumps(part, ensure_ascii=False) for part in around)
            test = f"{'elif' if number else 'if'} message['role'] == {json.dumps(role)}"
            lines += [f"{{%- {test} -%}}", f"{{{{ {before} + (message['content'] | trim) + {after} }}}}"]
        lines += ["{%- else -%}", "{{ raise_exception('nobody of this role speaks here: ' + message['role']) }}"]
        lines += ["{%- endif -%}", "{%- endfor -%}"]
        start = json.dumps(self.around["assistant"][0], ensure_ascii=False)
        return "\n".join([*lines, f"{{%- if add_generation_prompt -%}}\n{{{{ {start} }}}}\n{{%- endif -%}}"])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a template's text, in which control tokens are what they are."""
    names = sorted(tokenizer.specials, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    ids = list[int]()
    for i, part in enumerate(parts):
        control = tokenizer.token_id(part) if i % 2 else None
        ids += tokenizer.encode(part) if control is None else [control]
    return ids
