"""`regard prepare`: a corpus of any size to memory-mapped token ids, in one go or in shards by any scheduler.

What is unusual: running it again changes nothing, or only what has changed; so a shard that failed is just run again.
What it does not know: how a shard is made (`regard.data.shards`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import err_console, print_json, progress, size, table
from regard.cli.reporter import duration
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.documents import Document
    from regard.data.parts import Source
    from regard.data.shards import Prepared
    from regard.text import Tokenizer

EVERY_SECONDS = 0.2
"""Between two looks at how far it has come."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Turn texts into token ids once, as files that training maps into memory.

    regard prepare corpus/ more.jsonl.gz --out prepared --vocab-size 16000

    On many machines: train or choose a tokenizer first, then run `--shard i/n` for each i from 0 to n - 1, anywhere and
    in any order. All shards together are the same corpus for every n.
    """

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILES...", help_behavior_hint="")] = ()
    """Texts, .jsonl, .tsv, .csv, .parquet (all but the last also .gz or .zst), folders of them, or - for standard
    input."""
    out: Annotated[Path, arg(metavar="DIR")]
    """The folder to write."""
    tokenizer: Annotated[Path | None, arg(metavar="MODEL|FILE", help_behavior_hint="")] = None
    """The vocabulary of this model, or this tokenizer.json; else that in DIR, else a new one is learned."""
    kind: Literal["bytes", "bpe", "unigram", "chars", "words"] = "bytes"
    """What a new vocabulary is made of: merges of bytes (any text comes back unchanged), or characters, ..."""
    vocab_size: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """How many tokens a new vocabulary has at most; else 8,000, from 10 MB on 16,000, from 100 MB on 32,000."""
    shard: Annotated[str, arg(metavar="I/N", help_behavior_hint="")] = "0/1"
    """Make shard I of N, counted from 0."""
    unit: Annotated[str, arg(metavar="UNIT")] = "file"
    """What of a plain text is one document: file, paragraph, line, or a line that stands between two documents."""
    field: Annotated[str, arg(metavar="NAME")] = "text"
    """The field or column of the text in tables; of .tsv and .csv also a number from 1."""
    skip_bad: Annotated[int, arg(metavar="N")] = 0
    """How many malformed lines may be left out."""
    max_bytes: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """The most bytes of a compressed file after decompression; else 2 GiB."""

    def reading(self) -> dict[str, Any]:
        """How documents are read."""
        from regard.data.files import MAX_BYTES

        most = MAX_BYTES if self.max_bytes is None else self.max_bytes
        return {"unit": self.unit, "field": self.field, "skip_bad": self.skip_bad, "max_bytes": most}


def run(args: Arguments) -> None:
    """Find the files, choose or learn a vocabulary, make the shard, and say what is next."""
    args.apply()
    import torch

    # The library that cuts texts into tokens starts its own threads, and reads this when it does.
    os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
    from regard.data.parts import describe, find_sources
    from regard.data.shards import prepare

    if not args.files:
        raise ConfigError("nothing to prepare", expected="files or folders of text", mend="see: regard prepare --help")
    shard, sources = _shard(args.shard), find_sources(args.files, besides=args.out)
    if not args.quiet:
        for sentence in describe(sources, args.unit, args.field):
            err_console.print(sentence, markup=False)
    tokenizer = _tokenizer(args, shard, sources)
    began = time.monotonic()
    with _told("preparing, %", args.quiet) as tell:
        made = prepare(args.files, args.out, tokenizer, shard=shard, progress=tell, **args.reading())
    report = _report(args, made, shard, tokenizer, time.monotonic() - began)
    print_json(report) if args.json else _show(args, made, report)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise ConfigError("not a shard", where="--shard", expected="I/N with I from 0 to N - 1, as 0/7", got=text)
    return int(match[1]), int(match[2])


def _tokenizer(args: Arguments, shard: tuple[int, int], sources: list[Source]) -> Tokenizer:
    """The one that is named, else that in the output folder, else a new one."""
    from regard.text import Tokenizer

    say = (lambda text: None) if args.quiet else lambda text: err_console.print(text, markup=False)
    if args.tokenizer is not None:
        return _of_size(open_tokenizer(args.tokenizer), args.vocab_size, args.tokenizer)
    if (args.out / "tokenizer.json").exists():
        say(f"the vocabulary is the one in {args.out}")
        return _of_size(Tokenizer.load(args.out), args.vocab_size, args.out)
    if shard[1] > 1:
        mend = f"regard prepare FILES --out {args.out} makes one; or give --tokenizer"
        raise ConfigError("all shards need the same vocabulary, and there is none yet", where="--shard",
                          expected=f"--tokenizer, or a tokenizer.json in {args.out}", mend=mend)  # fmt: skip
    if any(source.kind is None for source in sources):
        raise ConfigError("what can be read only once cannot be learned from and prepared", where="FILES",
                          got="standard input or a pipe", mend="give a file, or --tokenizer")  # fmt: skip
    return _learned(args, sources, say)


def open_tokenizer(path: Path) -> Tokenizer:
    """The vocabulary of a model, a run or a prepared folder, ours or Hugging Face's, or a tokenizer.json itself."""
    from regard.hub.folder import describe_model
    from regard.text import Tokenizer
    from regard.text.foreign import open_tokenizers

    folder = path.parent if path.is_file() else path
    if (folder / "tokenizer.json").is_file() and not (folder / "config.json").exists():
        return Tokenizer.load(folder)
    described = describe_model(folder)
    return open_tokenizers(described.path)[0] if described.family else Tokenizer.load(described.path)


def _of_size(tokenizer: Tokenizer, wanted: int | None, where: Path) -> Tokenizer:
    """The tokenizer; ConfigError where it is larger than what was asked for."""
    if wanted is not None and tokenizer.vocab_size > wanted:
        mend = "leave --vocab-size out, or choose another --out"
        raise ConfigError("the vocabulary that is there has another size", where=where,
                          expected=f"at most {wanted:,} tokens", got=f"{tokenizer.vocab_size:,}",
                          mend=mend)  # fmt: skip
    return tokenizer


def _learned(args: Arguments, sources: list[Source], say: Callable[[str], None]) -> Tokenizer:
    """A vocabulary of texts spread over the whole corpus."""
    from regard.data.documents import Documents
    from regard.data.encoding import sample, vocabulary_size
    from regard.data.parts import share
    from regard.text import Tokenizer

    documents, total = Documents(share(sources, 0, 1), **args.reading()), sum(source.size for source in sources)

    def watched(tell: Callable[[int, int, int], None]) -> Iterator[Document]:
        for document in documents:
            tell(documents.done, total, 0)
            yield document

    began = time.monotonic()
    with _told("reading for a vocabulary, %", args.quiet) as tell:
        texts = sample(watched(tell))
    tokenizer = Tokenizer.train(texts, kind=args.kind, vocab_size=args.vocab_size or vocabulary_size(total))
    say(f"a new vocabulary of {tokenizer.vocab_size:,} tokens, from {sum(map(len, texts)):,} characters, in "
        f"{duration(time.monotonic() - began)}")  # fmt: skip
    return tokenizer


@contextmanager
def _told(what: str, quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Yield what is told (bytes read, bytes to read, tokens written), and show it now and then."""
    began, told, shown = time.monotonic(), 0.0, 0
    with progress(what, 100, quiet=quiet) as advance:

        def tell(done: int, total: int, tokens: int) -> None:
            nonlocal told, shown
            now = time.monotonic()
            if now - told < EVERY_SECONDS or not total:
                return
            share, speed = min(1.0, done / total), f", {tokens / (now - began):,.0f} tokens/s" if tokens else ""
            left = duration((now - began) * (1 - share) / max(share, 1e-9))
            advance(int(100 * share) - shown, f"{tokens:,} tokens{speed}, {left} left" if tokens else f"{left} left")
            told, shown = now, int(100 * share)

        yield tell


def _report(args: Arguments, made: Prepared, shard: tuple[int, int], tokenizer: Tokenizer, seconds: float) -> Any:
    from regard.data.shards import shards_missing

    facts = made.facts
    speed = None if made.was_there else round(facts["tokens"] / max(1e-9, seconds))
    return {
        "out": args.out, "shard": list(shard), "was_there": made.was_there, "missing": shards_missing(args.out),
        **{name: facts[name] for name in ("documents", "tokens", "bytes", "empty", "skipped")},
        "vocab_size": tokenizer.vocab_size, "tokenizer": facts["made_from"]["tokenizer"],
        "seconds": round(seconds, 1), "tokens_per_second": speed,
    }  # fmt: skip


def _show(args: Arguments, made: Prepared, report: dict[str, Any]) -> None:
    if made.why and not args.quiet:
        err_console.print(f"made anew: {made.why}", markup=False)
    index, count = report["shard"]
    rows = [("folder", str(args.out))]
    rows += [("shard", f"{index} of {count}, counted from 0")] if count > 1 else []
    left_out = ", ".join(f"{report[name]:,} {name}" for name in ("empty", "skipped") if report[name])
    rows += [("documents", f"{report['documents']:,}" + (f"; left out: {left_out}" if left_out else ""))]
    a_token = report["bytes"] / max(1, report["tokens"])
    rows += [("tokens", f"{report['tokens']:,} of {report['vocab_size']:,} kinds, {a_token:.2f} bytes each")]
    rows += [("text", size(report["bytes"]))]
    if made.was_there:
        rows += [("time", "none: it was there already, of the same files")]
    else:
        speed = f"{report['tokens_per_second']:,.0f} tokens a second"
        rows += [("time", f"{duration(report['seconds'])}, {speed}")]
    table(["prepared", ""], rows)
    if missing := report["missing"]:
        which = ", ".join(f"{i}/{count}" for i in missing[:8]) + (", ..." if len(missing) > 8 else "")
        print(f"\nstill to do: --shard {which}")
    else:
        print(f"\nnow: regard train language-model {args.out} --out runs/{args.out.resolve().name}")
