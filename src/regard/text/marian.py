"""source.spm, target.spm and vocab.json: Marian's two SentencePiece models, over one vocabulary or one each.

    source.spm   cuts a source into pieces           vocab.json         piece -> id, for both
    target.spm   cuts a target, to train on it       target_vocab.json  for targets, where they have their own

What is unusual: the ids are vocab.json's, which holds pieces that source.spm lacks (those of targets); no source is cut
into them, but they are decoded. A piece of source.spm that vocab.json lacks is left out, so a text is cut into pieces
the model knows; MarianTokenizer writes <unk> there. A language that a source begins with, `>>fra<<`, is one token if
vocab.json has it; MarianTokenizer takes any other such beginning for <unk>, here it is text.
What it does not know: which languages a model translates into.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from regard.errors import CheckpointError
from regard.text.backend import AGAIN, CONVERT, built, read_ids
from regard.text.hints import Hints
from regard.text.spm import SPACE, TEXT, normal_form, score, written_back
from regard.text.spm_file import UNIGRAM, SentencePieces, read_spm
from regard.text.unreachable import AWAY, exchanged, signs

CLASSES = ("MarianTokenizer",)
FILES = ("source.spm", "target.spm", "vocab.json")
NAMES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
CLOSED, OTHER = "\ufdd4", "\ufdd5"
"""While a text is prepared, these stand for the << that ends a language, and for what is unknown; no characters."""


def open_marian(hints: Hints) -> tuple[tuple[Backend, Backend], dict[str, str]]:
    """The vocabulary of sources, that of targets, and their control tokens, role -> token.

    Raises:
        CheckpointError: a file is missing, too large or malformed, or lacks </s> or <unk>.
    """
    hints.only(CLASSES)
    folder = hints.folder
    if lacking := [name for name in FILES if not (folder / name).is_file()]:
        raise CheckpointError("a file of Marian's vocabulary is missing", where=folder / lacking[0], mend=AGAIN,
                              expected=f"{', '.join(FILES[:-1])} and {FILES[-1]}")  # fmt: skip
    names = {role: hints.token(role) or token for role, token in NAMES.items()}
    own = folder / "target_vocab.json"
    source = _side(folder / "source.spm", folder / "vocab.json", names)
    target = _side(folder / "target.spm", own if own.is_file() else folder / "vocab.json", names)
    return (source, target), names


def _side(spm_path: Path, vocab_path: Path, names: Mapping[str, str]) -> Backend:
    spm, vocab = read_spm(spm_path), read_ids(vocab_path)
    if spm.type != UNIGRAM or spm.byte_fallback or not spm.dummy_prefix:
        raise CheckpointError("this SentencePiece model is not as Marian's are", where=spm_path, mend=CONVERT,
                              expected="unigram, a space before a text, no bytes")  # fmt: skip
    if lacking := [names[role] for role in ("eos", "unk") if names[role] not in vocab]:
        raise CheckpointError("the vocabulary lacks a control token", where=vocab_path, expected=lacking[0])
    if max(vocab.values()) >= 2 * len(vocab):
        raise CheckpointError("most ids belong to no token", where=vocab_path, expected=f"0 to {len(vocab) - 1:,}",
                              got=f"up to {max(vocab.values()):,}")  # fmt: skip
    # An id between others that no token has: the library wants one.
    holes = {f"<no token {index}>": index for index in sorted({*range(max(vocab.values()))} - {*vocab.values()})}
    controls = [*(token for token in dict.fromkeys(names.values()) if token in vocab), *holes]
    return built(lambda: _backend(spm, vocab | holes, names, controls), spm_path)


def _backend(spm: SentencePieces, vocab: Mapping[str, int], names: Mapping[str, str], controls: list[str]) -> Backend:
    languages = [token for token in vocab if re.fullmatch(r">>[^<>\s]{1,40}<<", token)]
    chosen = signs(controls)
    written = {token: exchanged(token, chosen) for token in vocab.keys() - {*controls, *languages}}
    known = frozenset("".join(exchanged(piece.text, chosen) for piece in spm.pieces if piece.type in TEXT))
    backend = Backend(models.Unigram(_rows(spm, vocab, written, known), unk_id=vocab[names["unk"]]))
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in controls])
    steps = [normalizers.Replace(Regex(f"[{AWAY}{CLOSED}{OTHER}]"), "\ufffd")]
    if languages:
        codes = "|".join(re.escape(language[2:-2]) for language in languages)
        steps.append(normalizers.Replace(Regex(rf"\A>>(?:{codes})\K<<"), CLOSED))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\A>>[^<]*<<"), "isolated")
    steps += [
        *normal_form(spm, chosen),
        # A space goes before the text: after the language, or where there is none at the beginning.
        normalizers.Replace(Regex(rf"{CLOSED}{SPACE}?(?=[\s\S])"), CLOSED + SPACE),
        normalizers.Replace(Regex(rf"\A(?=[\s\S])(?![^{CLOSED}]*{CLOSED})"), SPACE),
        normalizers.Replace(_unknown(known, written.values()), OTHER),
        normalizers.Replace(CLOSED, "<<"),
    ]
    backend.normalizer = normalizers.Sequence(steps)
    backend.decoder = decoders.Sequence([*written_back(chosen), decoders.Replace(Regex(r"\A\s+|\s+\z"), "")])
    end = names["eos"]
    backend.post_processor = processors.TemplateProcessing(["$A", end], ["$A", "$B", end], [(end, vocab[end])])
    return backend


def _unknown(known: frozenset[str], written: Collection[str]) -> Regex:
    """Runs of two or more characters that no piece of the SentencePiece model holds, but those that vocab.json holds.

    SentencePiece hands on such a run, or such a character, as it is, and it is looked up as a whole.
    """
    inside = "".join(map(re.escape, sorted(known)))
    entries = "|".join(re.escape(token) for token in sorted(written) if len(token) > 1 and known.isdisjoint(token))
    but = rf"(?!(?:{entries})(?:[{inside}]|\z))" if entries else ""
    # Looked at first, the cheap condition saves the others nearly everywhere.
    return Regex(rf"(?<![^{inside}])(?=[^{inside}]{{2}})(?![^{CLOSED}]{{0,40}}{CLOSED}){but}[^{inside}]{{2,}}")


def _rows(
    spm: SentencePieces, vocab: Mapping[str, int], written: Mapping[str, str], known: frozenset[str]
) -> list[tuple[str, float]]:
    """A name and a score for each id. What no text is cut into has the lowest score, so that this stays the lowest."""
    lowest, scores = spm.lowest(), {piece.text: score(piece) for piece in spm.pieces if piece.type in TEXT}
    rows = [("", lowest)] * len(vocab)
    for token, index in vocab.items():
        if token not in written:
            rows[index] = token, lowest
        elif token in scores or known.isdisjoint(written[token]):
            rows[index] = written[token], scores.get(token, lowest)
        else:
            rows[index] = written[token] + AWAY, lowest
    return rows
