"""Exact resume: all that the next step depends on besides the weights, in safetensors and JSON.

What is unusual: no pickle, even for our own state. The order of the data needs no state but the step
(data/batching.py), so this is the optimizers' tensors, the random generators, and a few numbers; and where a moving
average is what the checkpoint holds, the trained weights.
What it does not know: where checkpoints lie and which are kept (training/run.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.hub.layout import parse_json
from regard.hub.weights import load_strict, read_weights, write_weights


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Updates done."""
    tokens: int = 0
    """Supervised tokens seen."""
    seconds: float = 0.0
    """Wall clock of all sittings together; of the later ones from where they go on, as nobody stops to begin again."""
    loop_seconds: float = 0.0
    """Those of them for updates and looks at the development set, until the last look."""
    look_seconds: float = 0.0
    """How long that took."""
    total: int | None = None
    """Updates there will be; None while the clock has not decided."""
    decay: float | None = None
    """The share of `total` over which the rate decays, when the clock decided it."""
    best: float | None = None
    """The lowest `tasks.base.cost`: the development loss, or the score that decides, negated."""
    best_step: int = 0
    since_best: int = 0
    """Evaluations since then."""


def write_state(
    folder: Path, optimizers: list[torch.optim.Optimizer], progress: Progress, weights: dict[str, Tensor] | None = None
) -> None:
    """Write `folder`/optimizer.safetensors, rng.safetensors, progress.json, and trained.safetensors for `weights`."""
    folder.mkdir()
    write_weights(folder / "optimizer.safetensors", _optimizer_tensors(optimizers))
    if weights is not None:
        write_weights(folder / "trained.safetensors", weights)
    rng = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        rng |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    write_weights(folder / "rng.safetensors", rng)
    (folder / "progress.json").write_text(json.dumps(asdict(progress), indent=2), encoding="utf-8")


def read_state(folder: Path, optimizers: list[torch.optim.Optimizer], model: nn.Module) -> Progress:
    """Put the optimizers, random generators and trained weights back as they were; returns how far the run had come.

    Raises:
        CheckpointError: a file is missing, or does not belong to these optimizers.
    """
    tensors = read_weights(folder / "optimizer.safetensors", allow_nonfinite=True)
    progress = read_progress(folder)
    for number, optimizer in enumerate(optimizers):
        _fill(optimizer, number, tensors, folder)
    trained = folder / "trained.safetensors"
    if trained.exists():
        load_strict(model, read_weights(trained), trained)
    rng = read_weights(folder / "rng.safetensors", allow_nonfinite=True)
    torch.set_rng_state(rng["cpu"])
    if torch.cuda.is_available() and "cuda0" in rng:
        torch.cuda.set_rng_state_all([rng[f"cuda{i}"] for i in range(len(rng) - 1)])
    return progress


def read_progress(folder: Path) -> Progress:
    """How far the run had come whose state is in `folder`; raises CheckpointError where the file is missing."""
    path = folder / "progress.json"
    try:
        values = parse_json(path.read_bytes(), path)
    except OSError as error:
        raise CheckpointError("the state to resume from is gone", where=path, got=error.strerror,
                              mend="train its model on as another run: --from DIR --out OTHER") from None  # fmt: skip
    known = {field.name for field in fields(Progress)}
    return Progress(**{key: value for key, value in values.items() if key in known})


def _optimizer_tensors(optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """name -> tensor, with names like 0.17.exp_avg: optimizer, parameter, entry."""
    return {
        f"{number}.{index}.{key}": value.detach().clone()
        for number, optimizer in enumerate(optimizers)
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def _fill(optimizer: torch.optim.Optimizer, number: int, tensors: dict[str, Tensor], folder: Path) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        which, index, key = name.split(".", 2)
        if int(which) == number:
            state.setdefault(int(index), {})[key] = tensor
    bad = [i for i, entries in state.items() if i >= len(parameters) or any(
        t.ndim and t.shape != parameters[i].shape for t in entries.values())]  # fmt: skip
    if bad:
        raise CheckpointError("the optimizer's state is of another model", where=folder, got=f"parameter {bad[0]}",
                              mend="take back what was changed of [model], [lora] or freeze")  # fmt: skip
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
