"""The model card of a run: what it says is what the run's own config.json and files say."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from regard.hub.card import model_card
from regard.model import TransformerConfig


def card_of(folder: Path, **changes: object) -> str:
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = TransformerConfig(**{name: about["transformer"][name] for name in ("vocab_size", "d_model", "n_heads")},
                               d_ff=64, n_encoder_layers=1, n_decoder_layers=1)  # fmt: skip
    return model_card(about | changes, config)


def test_every_checkpoint_has_a_card_with_what_was_measured(workplace: Path) -> None:
    for folder in sorted((workplace / "run" / "checkpoints").iterdir()):
        card = (folder / "README.md").read_text(encoding="utf-8")
        training = json.loads((folder / "config.json").read_text(encoding="utf-8"))["training"]
        assert f"\n{'---'}\n\n# Translation from en to de\n" in card and "license: unknown\n" in card
        assert f"{training['steps']:,} updates" in card and f"seed {training['seed']}" in card
        assert training["machine"]["cpu"] in card and training["date"] in card
        for name, value in training["scores"].items():
            assert f"| {name} | {value:.4g} |" in card
    assert folder.name == "step-000040" and "dev_bleu" not in card, "before the end BLEU was not measured"
    final = (workplace / "run" / "checkpoints" / "final" / "README.md").read_text(encoding="utf-8")
    for signature in ("nrefs:1\\|case:mixed\\|eff:no\\|tok:13a", "nrefs:1\\|case:mixed\\|eff:yes\\|nc:6"):
        assert signature in final
    digest = hashlib.sha256((workplace / "train.en").read_bytes()).hexdigest()
    assert f"`train.en` {digest}" in final
    assert "regard train recipe.toml --out DIR --threads 1" in final
    assert len(re.findall(r"^---$", final, flags=re.MULTILINE)) == 2


@pytest.mark.parametrize(
    ("languages", "targets", "title", "codes"),
    [
        (["en", None], ["de", "fr"], "from en to de or fr", ["de", "en", "fr"]),
        ([None, None], ["en", "zh"], "to en or zh (its data does not name the source language)", ["en", "zh"]),
        (["en", None], [], "from en (its data does not name the target language)", ["en"]),
        ([None, None], [], "(its data does not name the languages)", []),
    ],
)
def test_unknown_languages_are_said(
    workplace: Path, languages: list[str | None], targets: list[str], title: str, codes: list[str]
) -> None:
    card = card_of(workplace / "run" / "checkpoints" / "final", languages=languages, targets=targets)
    assert f"\n# Translation {title}\n" in card
    front = card.split("---\n")[1]
    assert re.findall(r"^- (\w\w)$", front, flags=re.MULTILINE) == codes
