"""The Python face: load a model and use it, look inside it, train one. The commands call what is here.

    model = regard.load("runs/en-de")
    model.translate(["A man rides a bicycle."])        # -> [Translation('Ein Mann fährt Fahrrad.', score=-0.31)]
    regard.train("translation", source="train.en", target="train.de", out="runs/en-de", minutes=10)
    regard.train("language-model", source="novels", out="runs/novels", minutes=10)
    regard.look("runs/en-de", "A man rides a bicycle.").weights("decoder.layers.0.cross_attn")

What is unusual: `load` opens folders of ours and of Hugging Face's alike, of every task, plain or quantised; what it
gives (`Loaded`) does what its task can. Training and looking are imported where they begin: whoever translates a line
waits for neither.
What it does not know: the command line. It prints nothing but, in `train`, a line now and then on stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch

from regard import machine
from regard.config import build, to_toml
from regard.errors import CheckpointError, ConfigError
from regard.hub.atomic import recover_folder, verify_manifest
from regard.hub.folder import describe_model, find_model, load_model, open_vocabularies
from regard.hub.quantized import QUANTIZED, is_quantized, map_tensors, read_form
from regard.loaded import DOES, TOGETHER, Loaded
from regard.runtime import FORMS, Form, furnish, keep_freed_memory
from regard.tasks.continuation import Generation
from regard.tasks.texts import Translation

if TYPE_CHECKING:
    from regard.data import Finding
    from regard.inspect.edits import Edit
    from regard.inspect.notebook import Look
    from regard.training import Event, Progress, Reporter, Result

TextPath = str | Path

__all__ = ["TOGETHER", "Generation", "Loaded", "TextPath", "Translation", "load", "look", "train"]


def load(
    path: TextPath, *, device: str | None = None, threads: int | None = None, dtype: Form | Literal["auto"] = "auto",
    allow_nonfinite: bool = False,
) -> Loaded:  # fmt: skip
    """Open a model folder, a run folder, whose best checkpoint it takes, or a Hugging Face folder of a family we know.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps"; None: the quickest there is that computes in the folder's form.
        threads: to compute with, in the whole process; None leaves it as it is.
        dtype: what its matrices are brought into for use (`Loaded.fast`): "fp32", "bf16" or "int8". "auto": what a
            folder was quantised to and found to be good in, else "fp32".
        allow_nonfinite: open a model although it holds NaN or infinite weights.

    Raises:
        CheckpointError: the folder is missing, damaged, of an unknown task, or its parts do not fit one another; what
            it was quantised to was not found to be good.
        ConfigError: there is no such device or form; int8 is not computed there; a quantised folder has another form.
    """
    if dtype not in ("auto", *FORMS):
        raise ConfigError("unknown form of matrices", where="dtype", expected=f"auto, {', '.join(FORMS)}", got=dtype)
    if threads is not None:
        machine.set_threads(threads)
    where = machine.pick_device(device)
    keep_freed_memory()
    if is_quantized(Path(path)):
        return _quantized(Path(path), None if device is None else where, dtype, allow_nonfinite=allow_nonfinite)
    form: Form = "fp32" if dtype == "auto" else dtype
    _computable(form, where)
    folder = load_model(path, allow_nonfinite=allow_nonfinite)
    _known(folder.about, folder.path)
    model = folder.model.to(where)
    return Loaded(folder.path, model, folder.tokenizer, folder.target_tokenizer, folder.about, folder.notes,
                  form)  # fmt: skip


def _quantized(path: Path, asked: torch.device | None, dtype: str, *, allow_nonfinite: bool) -> Loaded:
    """A model whose matrices are rounded already: what is in its folder is what is computed with."""
    folder = find_model(path)
    recover_folder(folder)
    verify_manifest(folder)
    described = describe_model(folder)
    form, report = read_form(described.about, folder)
    if dtype not in ("auto", form):
        raise ConfigError(f"this model was quantised to {form}, and its plain weights are not in it", where=folder,
                          expected="the plain weights" if dtype == "fp32" else f"{form} or auto", got=form,
                          mend="take the model that it was made of; this one is for use alone: to translate, generate, "
                               "classify, tag, answer, embed, evaluate")  # fmt: skip
    if dtype == "auto" and report.get("passed") is not True:
        raise CheckpointError("nothing says that this model is as good as the one it was made of", where=folder,
                              expected='"passed": true in the report in config.json', got=report.get("passed"),
                              mend=f"quantise it anew; or use it all the same: --dtype {form}")  # fmt: skip
    where = asked or (torch.device("cpu") if form == "int8" else machine.pick_device(None))
    _computable(form, where)
    _known(described.about, folder)
    source, target, about = open_vocabularies(described)
    bare, tensors = map_tensors(described, allow_nonfinite=allow_nonfinite)
    if where.type == "cpu":
        model = furnish(bare, tensors, cast(Form, form))
    else:
        bare.load_state_dict(tensors, assign=True)
        model = bare.eval().to(where)
    return Loaded(folder, model, source, target, about, described.notes)


def _computable(form: str, where: torch.device) -> None:
    if form == "int8" and where.type != "cpu":
        raise ConfigError("int8 is computed on the CPU alone", where="dtype", expected="the device cpu", got=where,
                          mend="--device cpu, or the plain model with --dtype bf16")  # fmt: skip


def _known(about: Mapping[str, Any], folder: Path) -> None:
    if about.get("task") not in DOES:
        raise CheckpointError("a model of a task that this regard does not know", where=folder / "config.json",
                              expected=" or ".join(DOES), got=about.get("task"))  # fmt: skip


def look(
    model: Loaded | TextPath,
    text: str | Sequence[str],
    *,
    target: str | None = None,
    to: str | None = None,
    edits: Sequence[Edit] = (),
) -> Look:
    """Run a model on a text and keep everything that passed: attention, scores, states, probabilities.

    Args:
        model: as `load` gave it, or a folder that it opens.
        text: what the model reads; two for a question and its context, or a pair of texts.
        target: the output to look at, as if the model had written it; None: what it writes, the likeliest token each
            time.
        to: the target language, of a model with several.
        edits: changes to the model (`regard.inspect.edits`): a head off, an edge removed, no mask ..

    Raises:
        ConfigError: the text is not what such a model reads, or too long to be looked at (512 tokens a side); the
            model is quantised.
        CheckpointError: as `load`.
    """
    from regard.inspect.notebook import Look
    from regard.inspect.scripts import Request
    from regard.inspect.views import run as run_and_see

    loaded = model if isinstance(model, Loaded) else load(model)
    if QUANTIZED in loaded.about:
        raise ConfigError("a quantised model is not looked into", where=loaded.path, expected="its plain weights",
                          mend="take the model that it was made of")  # fmt: skip
    texts = (text,) if isinstance(text, str) else tuple(text)
    return Look(loaded, run_and_see(loaded, Request(texts=texts, to=to, target=target, edits=tuple(edits))))


# ---------------------------------------------------------------- training


def train(
    task: str,
    *,
    source: TextPath | Sequence[TextPath],
    target: TextPath | None = None,
    dev_source: TextPath | Sequence[TextPath] | None = None,
    dev_target: TextPath | None = None,
    out: TextPath,
    minutes: float = 10.0,
    resume: bool = False,
    device: str | None = None,
    reporter: Reporter | None = None,
    **recipe: Any,
) -> Result:
    """Train a model from files, of the size and schedule that suit them and the time; what `regard train` calls.

    Args:
        task: "translation", "language-model", "masked-lm", "classification", "tagging" or "question-answering".
        source, target: of translations two parallel text files, or one table of pairs in `source` alone; of language
            models the files and folders of texts, or one folder that `regard prepare` wrote, in `source`; of the others
            files of labelled texts, or of questions on texts, in `source`.
        dev_source, dev_target: the same for development; without them a tenth is held out.
        out: the run folder; `regard.load(out)` opens its best model.
        minutes: wall clock from this call; `loop={"steps": N}` makes so many updates in its place.
        resume: go on with the run in `out`, by the recipe in it.
        reporter: is told what happens; None: a few lines on stderr.
        recipe: fields of the recipe that win over the plan: `seed=3, model={"d_model": 128}, optim={"lr": 1e-3}`;
            `init_from="runs/en-de"` trains that model on.

    Raises:
        ConfigError, DataError, NonFiniteError, UserError: as their names say.
    """
    began, where = time.monotonic(), machine.pick_device(device)
    from regard.training import Recipe
    from regard.training import train as carry_out
    from regard.training.outcome import refuse_mixing
    from regard.training.resolve import planned, resumed
    from regard.training.subjects import SUBJECTS

    if task not in SUBJECTS:
        raise ConfigError("unknown task", where="task", expected=", ".join(SUBJECTS), got=task)
    if task != "translation" and (target or dev_target):
        raise ConfigError("only translations have a target", where="target", expected="all files in source")
    changes = list(_assignments(recipe))
    if resume:
        chosen, corpus = resumed(Path(out), changes), None
    else:
        refuse_mixing(Path(out), resume=False)  # before anything is read
        files, dev = (_paths(source) + _paths(target), _paths(dev_source) + _paths(dev_target))
        base = build(Recipe, {"task": task, "data": {"train": files, "dev": dev}}, where="the recipe")
        plan = planned(base, changes, minutes=minutes, device=where)
        chosen, corpus = plan.recipe, plan.corpus
    return carry_out(chosen, Path(out), device=where, reporter=reporter or _Lines(), resume=resume, began=began,
                     corpus=corpus)  # fmt: skip


def _paths(given: TextPath | Sequence[TextPath] | None) -> list[str]:
    """One path or several, as the recipe has them."""
    some = [given] if isinstance(given, str | Path) else given or []
    return [str(path) for path in some]


def _assignments(tree: Mapping[str, Any], path: str = "") -> Iterable[str]:
    """{"optim": {"lr": 1e-3}} as `optim.lr = 0.001`, which `override` reads."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{path}{key}.")
        else:
            yield path + to_toml({key: "none" if value is None else value}).strip()


class _Lines:
    """A reporter for scripts and notebooks: warnings and looks at the development set, as lines on stderr."""

    def begin(self, unit: str) -> None:
        pass

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)

    def show(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if finding.severity in ("warn", "error"):
                self.say(f"{finding.severity}: {finding.sentence}")

    def event(self, event: Event, progress: Progress, seconds: float, seconds_left: float | None) -> None:
        from regard.training import DevEvent

        if isinstance(event, DevEvent):
            self.say(f"update {event.step:,}: development loss {event.scores['dev_loss']:.3f} after {seconds:,.0f} s")
