"""vocab.json and merges.txt: merges of bytes, as GPT-2 has them, and RoBERTa and BART with `<s> x </s>` around a text.

What is unusual: which of the two it is follows from the control tokens that the folder names, or else from those in the
vocabulary.
What it does not know: other ways to cut a text before its bytes are merged (`Hints.only` refuses them).
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors

from regard.errors import CheckpointError
from regard.text.backend import built, read_ids, read_text
from regard.text.hints import Hints

PLAIN = "GPT2Tokenizer"
"""The class that puts nothing around a text, unless told to."""
CLASSES = (PLAIN, "RobertaTokenizer", "BartTokenizer")
GPT2 = "<|endoftext|>"
MARKED = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}


def open_bytelevel(hints: Hints) -> tuple[tuple[Backend], dict[str, str]]:
    """The vocabulary, and its control tokens where the folder does not name them, role -> token.

    Raises:
        CheckpointError: a file is missing, too large or malformed, or belongs to another tool.
    """
    named = hints.only(CLASSES)
    path = hints.folder / "merges.txt"
    if not path.is_file():
        raise CheckpointError("vocab.json needs the file of merges beside it", where=path, got="nothing there",
                              mend="copy merges.txt from where vocab.json came")  # fmt: skip
    vocab = read_ids(hints.folder / "vocab.json")
    merges = _read_merges(path, vocab)
    marked = named != PLAIN and MARKED["cls"] in vocab and MARKED["sep"] in vocab
    names = MARKED if marked else dict.fromkeys(("bos", "eos", "unk"), GPT2)
    first, last, bos = (hints.token(name) or names.get(name) for name in ("cls", "sep", "bos"))

    def build() -> Backend:
        backend = Backend(models.BPE(vocab, merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=hints.flag("add_prefix_space", False))
        backend.decoder = decoders.ByteLevel()
        if first in vocab and last in vocab:
            backend.add_special_tokens([first, last])
            backend.post_processor = processors.RobertaProcessing((last, vocab[last]), (first, vocab[first]))
        elif hints.flag("add_bos_token", False) and bos in vocab:
            backend.add_special_tokens([bos])
            backend.post_processor = processors.TemplateProcessing(
                [bos, "$A"], [bos, "$A", bos, "$B"], [(bos, vocab[bos])]
            )
        return backend

    return (built(build, path),), {role: token for role, token in names.items() if role not in ("cls", "sep")}


def _read_merges(path: Path, vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The pairs in order of rank. Raises CheckpointError, with the line, for one that the vocabulary cannot follow."""
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if (number == 1 and line.startswith("#version")) or not line:
            continue
        left, _, right = line.partition(" ")
        if not (left in vocab and right in vocab and left + right in vocab):
            raise CheckpointError("this is no merge of two pieces of vocab.json", where=f"{path}:{number}",
                                  got=repr(line[:80]))  # fmt: skip
        merges.append((left, right))
    return merges
