"""A model from the Hugging Face hub into a folder on this machine, when somebody asks for it.

What is unusual: only what can be opened is fetched, safetensors and text, never a pickle; and into plain files of our
own cache, since the hub's client keeps its files behind links, which a model folder may not have.
What it does not know: what is in the files.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from regard.errors import CheckpointError, MissingExtraError

WANTED = ("model.safetensors", "model-*.safetensors", "*.json", "*.txt", "*.model", "*.spm", "README.md")
NAME = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")
"""Of a model on the hub: "gpt2", "Helsinki-NLP/opus-mt-en-de"."""


def fetch(name: str, *, revision: str | None = None, quiet: bool = False) -> Path:
    """The folder with the model `name` of the hub: `$XDG_CACHE_HOME/regard/hub/NAME`, where what is there stays.

    Args:
        revision: a branch, a tag, a commit, or "refs/pr/N"; None: the main branch.
        quiet: show no progress.

    Raises:
        CheckpointError: there is no such model, it cannot be reached, or it is not there as safetensors.
        MissingExtraError: without `huggingface_hub`.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hub", "downloading a model") from None
    if quiet or not sys.stderr.isatty():
        disable_progress_bars()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / "hub"
    folder = cache / "--".join(re.split(r"[^\w.-]+", f"{name}/{revision}" if revision else name))
    try:
        snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=[*WANTED], ignore_patterns=["*/*"])
    except Exception as error:  # the client has dozens, of no common kind
        raise CheckpointError("the model cannot be downloaded", where=name, got=str(error).split("\n")[0],
                              mend="check its name and the connection to the hub; a model that asks for consent "
                              "needs $HF_TOKEN") from error  # fmt: skip
    if not any(folder.glob("*.safetensors")):
        raise CheckpointError(
            "the model is not on the hub as safetensors", where=name, expected="model.safetensors",
            got="perhaps pickles, which regard never opens",
            mend=f"if a pull request at https://huggingface.co/{name}/discussions offers them: --revision refs/pr/N",
        )  # fmt: skip
    return folder
