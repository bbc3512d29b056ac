"""`regard import`: a Hugging Face folder, or a model of its hub, becomes a model folder of ours.

What is unusual: nothing is fetched unless `--download` asks for it, and what the model lost on the way is said.
What it does not know: the families (`regard.hub`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from regard.cli.common import Common
from regard.cli.console import print_json, table
from regard.errors import CheckpointError, ConfigError

NEXT = {
    "language-model": "generate {} --prompt TEXT", "translation": "translate {} FILE",
    "masked-lm": "embed {} FILE --out FILE.npy", "embedding": "embed {} FILE --out FILE.npy",
    "classification": "classify {} FILE", "tagging": "tag {} FILE",
    "question-answering": "answer {} --question Q --context-file FILE",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Arguments(Common):
    """Make a model folder of a Hugging Face folder: GPT-2, Llama and its line, BERT, Marian, T5 and others.

    regard import ./opus-mt-en-de runs/opus

    regard import Helsinki-NLP/opus-mt-en-de runs/opus --download

    Weights are read from safetensors alone, and become float32.
    """

    source: Annotated[Positional[str], arg(metavar="HF_DIR | NAME")]
    """A folder with config.json and model.safetensors; with --download, a model's name on the Hugging Face hub."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """The folder to write: a new one, or an empty one."""
    download: bool = False
    """Fetch the model NAME from the hub first (into $XDG_CACHE_HOME/regard/hub)."""
    revision: Annotated[str | None, arg(metavar="REV", help_behavior_hint="")] = None
    """With --download: a branch, a tag, a commit, or refs/pr/N."""
    allow_nonfinite: bool = False
    """Import a model although it holds NaN or infinite weights."""


def run(args: Arguments) -> None:
    """Open, write, and say what it is and what to do with it."""
    from regard.hub.atomic import commit_folder, refuse_existing
    from regard.hub.card import imported_card, licence_of
    from regard.hub.folder import describe_model, load_model, write_model

    refuse_existing(args.out)
    folder = _folder(args)
    described = describe_model(folder)
    if described.family is None:
        raise ConfigError("this is a model of regard's already", where=folder, mend="use it as it is")
    loaded = load_model(folder, allow_nonfinite=args.allow_nonfinite)
    card = imported_card(described, args.source, args.out.name)
    commit_folder(
        args.out,
        lambda draft: write_model(draft, loaded.model, loaded.tokenizer, loaded.about, {"README.md": card},
                                  target_tokenizer=loaded.target_tokenizer),
        needs=described.nbytes,
    )  # fmt: skip
    facts = {
        "model": args.out, "family": loaded.about["family"], "task": loaded.about["task"], "head": described.head,
        "parameters": described.n_parameters, "license": licence_of(folder), "notes": loaded.notes,
    }  # fmt: skip
    if args.json:
        print_json(facts)
    else:
        _show(facts)


def _folder(args: Arguments) -> Path:
    from regard.hub.download import NAME, fetch

    if args.download:
        return fetch(args.source, revision=args.revision, quiet=args.quiet)
    if args.revision is not None:
        raise ConfigError("a folder has no revisions", where="--revision", expected="--download with it")
    if not Path(args.source).exists() and NAME.fullmatch(args.source):
        mend = f"check the path; or, if it is a model on the hub: regard import {args.source} {args.out} --download"
        raise CheckpointError("there is no such folder", where=args.source, mend=mend)
    return Path(args.source)


def _show(facts: dict[str, Any]) -> None:
    rows = [(name, str(facts[name])) for name in ("model", "family", "task", "head")]
    rows += [("parameters", f"{facts['parameters']:,}"), ("licence", facts["license"] or "unknown")]
    table(["imported", ""], rows + [("note", note) for note in facts["notes"]])
    print(f"\nnow: regard {NEXT[facts['task']].format(facts['model'])}\n     regard doctor {facts['model']}")
