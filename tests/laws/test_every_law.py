"""Every law that is registered is shown a fault by some test, so that none can pass whatever it is given."""

from __future__ import annotations

from regard.laws import LAWS

from . import test_decoding, test_laws_can_fail, test_lessons, test_loading, test_rerun

FAULTS = [
    *test_laws_can_fail.BREAKS, *test_decoding.FAULTS, *test_lessons.FAULTS, *test_lessons.RANK_FAULTS,
    *test_loading.FAULTS, *test_rerun.RUN_FAULTS, *test_rerun.SCORE_FAULTS,
]  # fmt: skip


def test_every_law_has_a_fault() -> None:
    assert {number for number, *_ in FAULTS} == LAWS.keys()
