"""vocab.txt: BERT's vocabulary, one piece a line, the number of the line being its id.

What is unusual: a piece that stands there twice has the later id, as in every tool that reads these files.
What it does not know: other vocabularies that come as a vocab.txt (`Hints.only` refuses them).
"""

from __future__ import annotations

import io

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.errors import CheckpointError
from regard.text.backend import built, read_text
from regard.text.hints import Hints

CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")


def open_wordpiece(hints: Hints) -> tuple[tuple[Backend], dict[str, str]]:
    """The vocabulary, and its control tokens where the folder does not name them, role -> token.

    Raises:
        CheckpointError: the file is missing, too large, lacks [UNK], or belongs to another tool.
    """
    hints.only(CLASSES)
    path = hints.folder / "vocab.txt"
    lines = io.StringIO(read_text(path), newline="\n")
    vocab = {line.rstrip("\n"): index for index, line in enumerate(lines)}
    names = {"pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]", "cls": "[CLS]", "sep": "[SEP]"}
    names = {role: hints.token(role) or token for role, token in names.items()}
    if names["unk"] not in vocab:
        raise CheckpointError("the vocabulary lacks the token for what is unknown", where=path, expected=names["unk"],
                              got=f"{len(vocab):,} lines")  # fmt: skip

    def build() -> Backend:
        backend = Backend(models.WordPiece(vocab, unk_token=names["unk"], max_input_chars_per_word=100))
        lower = hints.flag("do_lower_case", True)
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=hints.flag("tokenize_chinese_chars", True),
            strip_accents=hints.flag("strip_accents", lower), lowercase=lower,
        )  # fmt: skip
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
        first, last = names["cls"], names["sep"]
        if first in vocab and last in vocab:
            backend.add_special_tokens([first, last])
            backend.post_processor = processors.BertProcessing((last, vocab[last]), (first, vocab[first]))
        return backend

    return (built(build, path),), {role: names[role] for role in ("pad", "unk", "mask")}
