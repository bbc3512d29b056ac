from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data.squad import read_questions
from regard.tasks.apart import QuestionsApart


def test_squad_without_the_texts_of_xquad(
    data_dir: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(data_dir("squad").parent))
    QuestionsApart(questions="squad/dev-v1.1.json.gz", without="xquad/xquad.en.json.gz").write(tmp_path / "apart")
    kept = read_questions([tmp_path / "apart" / "train.json"])
    assert (len(kept), len({question.context for question in kept})) == (9_380, 1_827)
    whole = {q.id: q for q in read_questions([data_dir("squad") / "dev-v1.1.json.gz"])}
    tested = read_questions([data_dir("xquad") / "xquad.en.json.gz"])
    assert {q.context for q in kept}.isdisjoint({q.context for q in tested})
    assert len(kept) + len(tested) == len(whole)
    for question in kept:
        assert question.answers == whole[question.id].answers and question.moved == 0
