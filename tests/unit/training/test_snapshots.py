"""Snapshots: which steps have one, that they are models, and that a run which was cut takes the same ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.hub.snapshots import find_snapshots, halved
from regard.hub.weights import read_model_weights
from regard.model import TransformerConfig, make_language_model
from regard.training.snapshots import DUE, MOST, Snapshots


def test_they_lie_evenly_on_a_logarithmic_scale() -> None:
    assert [step for step in sorted(DUE) if step <= 100] == [1, 2, 3, 4, 6, 10, 16, 25, 40, 63, 100]
    assert sum(100 < step <= 1_000 for step in DUE) == sum(1_000 < step <= 10_000 for step in DUE) == 5
    assert sum(step <= 40_000 for step in DUE) == MOST


def test_a_run_keeps_models_of_itself_on_the_way(workplace: Path) -> None:
    run = workplace / "run"
    found = find_snapshots(run)
    assert [step for step, _ in found] == [1, 2, 3, 4, 6, 10, 16, 25, 40]
    assert found == find_snapshots(run / "checkpoints" / "final") == find_snapshots(found[0][1])
    scores = [regard.load(folder).score(["A man."], ["Ein Mann."])[0] for _, folder in (found[0], found[-1])]
    assert scores[0] < scores[1]  # it learned
    small, whole = (read_model_weights(path) for path in (found[-1][1], run / "checkpoints" / "step-000040"))
    for name, tensor in whole.items():
        assert small[name].dtype == torch.float16 and torch.equal(small[name], tensor.half())


def test_a_run_that_was_killed_begins_without_the_old_ones(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, 1_000)
    write = lambda folder: (folder / "model").write_text("a model")  # noqa: E731
    for step in range(1, 12):
        snapshots.keep(step, write)
    assert [step for step, _ in find_snapshots(tmp_path)] == [1, 2, 3, 4, 6, 10]
    snapshots.begin()
    assert find_snapshots(tmp_path) == []


def test_no_more_than_a_number_of_them_are_kept(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, 1_000)
    for step in sorted(DUE)[: MOST + 3]:
        snapshots.keep(step, lambda folder: shutil.copy(__file__, folder))
    assert [step for step, _ in find_snapshots(tmp_path)] == sorted(DUE)[3 : MOST + 3]


def test_a_large_model_has_none_and_is_told_why(tmp_path: Path) -> None:
    large, small = Snapshots(tmp_path, 10**8), Snapshots(tmp_path, 10**7)
    large.keep(1, lambda folder: pytest.fail("a snapshot was taken"))
    assert "4.8 GB" in str(large.left_out) and small.left_out is None
    assert not find_snapshots(tmp_path)


def test_what_float16_cannot_hold_stays_as_it_is() -> None:
    model = make_language_model(TransformerConfig(vocab_size=9, d_model=4, n_heads=2, d_ff=4, n_decoder_layers=1))
    with torch.no_grad():
        model.transformer.tokens.weight[0, 0] = 1e6
    small = halved(model)
    assert small.transformer.tokens.weight[0, 0] == 1e6 and small.transformer.tokens.weight.dtype == torch.float32
    assert small.transformer.decoder is not None
    assert all(p.dtype == torch.float16 for p in small.transformer.decoder.parameters())
    assert model.transformer.tokens.weight.dtype == torch.float32  # the run's own is left alone
