"""What the small JSON files beside a vocabulary say of it: tokenizer_config.json, special_tokens_map.json and the rest.

What is unusual: every one of them may be missing, and every field; what one leaves open is asked of the next, last of
the ids in generation_config.json and config.json.
What it does not know: the vocabulary itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from regard.errors import CheckpointError
from regard.text.backend import CONVERT, ROLES, content, is_id, read_object

GENERAL = ("PreTrainedTokenizer", "TokenizersBackend")
"""Names of tokenizer classes (there is a "...Fast" of most) that say nothing of how a text is cut."""
MARKS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True)
class Hints:
    """The files of one folder; an empty mapping for one that is missing."""

    folder: Path
    config: Mapping[str, Any]
    """tokenizer_config.json."""
    tokens: Mapping[str, Any]
    """special_tokens_map.json."""
    ids: Mapping[str, Any]
    """generation_config.json over config.json."""
    older: Mapping[str, Any]
    """added_tokens.json, of before `added_tokens_decoder`."""

    def token(self, name: str) -> str | None:
        """The token that is named for pad, bos, eos, unk, mask, cls or sep."""
        for source in (self.config, self.tokens):
            if named := content(source.get(f"{name}_token")):
                return named
        return None

    def token_id(self, role: str) -> int | None:
        """The first id that the model's configuration gives for a role."""
        value = self.ids.get(f"{role}_token_id")
        first = value[0] if isinstance(value, list) and value else value
        return first if is_id(first) else None

    def flag(self, name: str, default: bool) -> bool:
        """A setting of tokenizer_config.json; null counts as missing."""
        value = self.config.get(name)
        return value if isinstance(value, bool) else default

    def added(self) -> dict[int, AddedToken]:
        """The tokens beyond, or with a mark upon, the vocabulary proper. Raises CheckpointError where one has no id."""
        decoder = self.config.get("added_tokens_decoder")
        named = {self.token(role) for role in (*ROLES, "cls", "sep")}
        found = {}
        for key, token in (decoder if isinstance(decoder, dict) else {}).items():
            if not (str(key).isdecimal() and len(key) < 10 and content(token)):
                raise CheckpointError("an added token has no id or no text", got=f"{key!r}: {token!r}"[:200],
                                      where=self.folder / "tokenizer_config.json")  # fmt: skip
            marks = {mark: token[mark] for mark in MARKS if isinstance(token, dict) and type(token.get(mark)) is bool}
            found[int(key)] = AddedToken(content(token), **marks)
        for text, index in self.older.items():
            if not is_id(index):
                raise CheckpointError("an added token has no id", where=self.folder / "added_tokens.json",
                                      got=f"{text!r}: {index!r}"[:200])  # fmt: skip
            found.setdefault(index, AddedToken(text, special=text in named))
        return dict(sorted(found.items()))

    def only(self, classes: Collection[str]) -> str | None:
        """Which of these tokenizer classes the folder names, if any; it is refused if it names another.

        Raises:
            CheckpointError: names the class that the folder asks for.
        """
        named = content(self.config.get("tokenizer_class")).removesuffix("Fast")
        if named and named not in {*classes, *GENERAL}:
            raise CheckpointError(
                "regard does not cut text as this tokenizer class does", where=self.folder / "tokenizer_config.json",
                expected=" or ".join(classes), got=named, mend=CONVERT,
            )  # fmt: skip
        return named or None


def read_hints(folder: Path) -> Hints:
    """Raises CheckpointError where a file is there and is no JSON object."""

    def read(name: str) -> Mapping[str, Any]:
        return read_object(folder / name) if (folder / name).is_file() else {}

    generation = {key: value for key, value in read("generation_config.json").items() if value is not None}
    return Hints(folder, read("tokenizer_config.json"), read("special_tokens_map.json"),
                 {**read("config.json"), **generation}, read("added_tokens.json"))  # fmt: skip
