"""Search and sampling: they drive anything with start, decode and reorder. They know token ids, not text."""

from regard.generate.beam import Hypothesis, beam_search

__all__ = ["Hypothesis", "beam_search"]
