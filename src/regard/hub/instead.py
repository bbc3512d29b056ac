"""What lies in a folder in place of weights that can be read: said by its name, with the way out.

What is unusual: nothing here is opened; a file's name tells.
What it does not know: what a model folder must hold (`folder.py`, `weights.py`).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from regard.hub.layout import conversion_command

_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_CTRANSLATE = ("vocabulary.json", "vocabulary.txt", "shared_vocabulary.json", "shared_vocabulary.txt",
               "source_vocabulary.json", "source_vocabulary.txt")  # fmt: skip
_OTHERS = {
    ".h5": "a TensorFlow model", ".msgpack": "a Flax model", ".onnx": "an ONNX model", ".gguf": "a GGUF model",
}  # fmt: skip


CTRANSLATE2 = (
    "a model of CTranslate2, which regard writes and does not read",
    "open it with ctranslate2, or give the folder that it was converted from",
)
"""What it is, and what to do about it."""


def is_ctranslate2(folder: Path) -> bool:
    """Whether its files are those of CTranslate2. Its model.bin is no pickle."""
    return (folder / "model.bin").is_file() and any((folder / name).is_file() for name in _CTRANSLATE)


def what_is_there_instead(folder: Path, weights: Path) -> tuple[str, str]:
    """What the folder holds, and what to do about it. Raises OSError where it cannot be listed.

    Args:
        weights: the file that is to be, for the command that converts pickled weights.
    """
    paths = sorted(folder.iterdir())
    names = [path.name for path in paths]
    if ".metadata" in names or any(path.suffix == ".distcp" for path in paths):
        what = "a PyTorch distributed checkpoint (DCP): its .metadata is a pickle, which can run any code when opened"
        convert = f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {shlex.quote(str(folder))}"
        mend = "ask for the model as safetensors; if you trust whoever made this, convert it yourself"
        return what, f"{mend}: {convert} weights.pt, and then weights.pt to safetensors"
    if is_ctranslate2(folder):
        return CTRANSLATE2
    if pickled := next((path for path in paths if path.suffix in _PICKLES), None):
        what = f"{pickled.name}, a pickle, which can run any code when it is opened"
        return what, conversion_command(pickled, weights)
    if "adapter_config.json" in names:
        merge = "PeftModel.from_pretrained(BASE, FOLDER).merge_and_unload().save_pretrained(MERGED)"
        return "an adapter (LoRA or the like), which is no model without the one it changes", f"merge it first: {merge}"
    if other := next((path for path in paths if path.suffix in _OTHERS), None):
        return f"{other.name}, {_OTHERS[other.suffix]}", "download the safetensors of the same model"
    return ", ".join(names[:8]) or "an empty folder", "check the path"
