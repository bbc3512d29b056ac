"""Files to batches: reading, checking, ordering and padding. Knows texts and token ids, but no model and no task."""

from regard.data.batch import Batch, collate, padded
from regard.data.batching import TokenBatches, deal
from regard.data.checks import Finding, check_pairs, clean, split_dev
from regard.data.files import read_lines
from regard.data.sources import Pairs, read_pairs

__all__ = [
    "Batch",
    "Finding",
    "Pairs",
    "TokenBatches",
    "check_pairs",
    "clean",
    "collate",
    "deal",
    "padded",
    "read_lines",
    "read_pairs",
    "split_dev",
]
